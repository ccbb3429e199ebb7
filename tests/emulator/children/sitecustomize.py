"""Python reads this first in every process that the tests start on the emulated card: there, too, ``cuda`` is that card.

Nothing is imported before the process opens a card.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

#: Imported when a card is about to be opened, and not before.
_TRIGGER = "relayvm.vm.cuda.session"
_open = contextlib.ExitStack()


class _OnFirstCard:
    """Finds no module; sees what is looked for."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name == _TRIGGER:
            sys.meta_path.remove(self)  # type: ignore[arg-type]
            sys.path.append(str(Path(__file__).resolve().parents[3]))
            from tests.emulator.platform import plugged_in

            _open.enter_context(plugged_in())


sys.meta_path.insert(0, _OnFirstCard())  # type: ignore[arg-type]
