"""The emulated GPU of the tests instead of a real GPU: the same code runs, and the figures have no meaning."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from pathlib import Path

from relayvm.ops.native.cache import disk_cache

from . import rivals
from .figures import NotRun

_ROOT = Path(__file__).resolve().parents[2]
#: The variable that makes the tests use the emulated GPU, too.
VARIABLE = "RELAYVM_EMULATED"
plugged = False
_open = contextlib.ExitStack()


def plug_in() -> None:
    """Make the emulated GPU the device ``cuda`` of this process.  Raises NotRun if it cannot be built."""
    global plugged
    sys.path.append(str(_ROOT))
    emulator = importlib.import_module("tests.emulator.emulator")
    if why := emulator.available():
        raise NotRun(why)
    _open.enter_context(importlib.import_module("tests.emulator.platform").plugged_in())
    rivals.emulated = plugged = True


def share_library(cache: Path) -> None:
    """Link the emulated GPU and its compiled kernels into a fresh cache: they are no part of the measurement."""
    mine = Path(os.environ.get(disk_cache.FOLDER_VARIABLE, "")) / "emulator"
    if mine.is_dir():
        (cache / "emulator").symlink_to(mine.resolve())
