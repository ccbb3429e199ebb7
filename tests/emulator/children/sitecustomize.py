"""Python reads this first in every process that the tests start on the emulated GPU: there, too, ``cuda`` is that GPU.

Nothing is imported before the process opens a GPU.  A worker of pytest is such a process too, and plugs in the GPU itself (see
``conftest``), before a test puts another in its place: that GPU is kept.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

#: Imported when a GPU is about to be opened, and not before.
_TRIGGER = "relayvm.vm.devices.cuda.session"
_open = contextlib.ExitStack()


class _OnFirstGpu:
    """Finds no module; sees what is looked for."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == _TRIGGER:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
            sys.path.append(str(Path(__file__).resolve().parents[3]))
            from relayvm.vm.devices.cuda.driver_api import provider
            from tests.emulator.platform import EmulatedProvider, plugged_in

            if not isinstance(provider.provider, EmulatedProvider):
                _open.enter_context(plugged_in())


sys.meta_path.insert(0, _OnFirstGpu())  # type: ignore[arg-type]
