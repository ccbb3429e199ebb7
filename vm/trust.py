"""Executables that this process has compiled itself: their launches alone need no checks.

An executable that was loaded, unpickled, built by hand, or made of another one is none of them, and nothing in a file can say so.
"""

from __future__ import annotations

import os
import weakref

from .executable import Executable

#: The environment variable that has everything checked: what each pass makes, and launches of the compiler's own executables.
VARIABLE = "RELAYVM_CHECK"

_compiled_here: weakref.WeakSet[Executable] = weakref.WeakSet()


def compiled_here(exe: Executable) -> Executable:
    """``exe``, which the compiler has just made."""
    _compiled_here.add(exe)
    return exe


def is_own(exe: Executable) -> bool:
    """Whether the compiler of this process made ``exe``."""
    return exe in _compiled_here


def is_trusted(exe: Executable) -> bool:
    """Whether launches of ``exe`` go unchecked: it is this process's own, and nobody asked for checks (see VARIABLE)."""
    return is_own(exe) and not all_is_checked()


def all_is_checked() -> bool:
    """Whether the environment asks for it (see VARIABLE)."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")
