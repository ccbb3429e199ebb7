"""The emulated GPU of the tests in the place of a real one: the same way through everything, with figures that mean nothing."""

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
#: What tells the tests to do the same.
VARIABLE = "RELAYVM_EMULATED"
plugged = False
_open = contextlib.ExitStack()


def plug_in() -> None:
    """For the rest of this process ``cuda`` is the emulated GPU.  Raises NotRun where there can be none."""
    global plugged
    sys.path.append(str(_ROOT))
    emulator = importlib.import_module("tests.emulator.emulator")
    if why := emulator.available():
        raise NotRun(why)
    _open.enter_context(importlib.import_module("tests.emulator.platform").plugged_in())
    rivals.emulated = plugged = True


def share_library(cache: Path) -> None:
    """Let a fresh cache have the emulated GPU itself, and what its compiler made: they are no part of what is measured."""
    mine = Path(os.environ.get(disk_cache.FOLDER_VARIABLE, "")) / "emulator"
    if mine.is_dir():
        (cache / "emulator").symlink_to(mine.resolve())
