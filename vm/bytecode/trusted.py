"""Register of the executables compiled by this process, or loaded from its cache; only their launches run without checks.

An executable that was loaded by name, unpickled, built by hand or derived from another one is not in the register.  No content
of such a file can put an executable into the register.  The folder of the cache is private to the user, and the machine code in
it runs anyway.
"""

from __future__ import annotations

import weakref
from typing import TypeVar

from ..options import Environment
from .executable import ExecutableData

_E = TypeVar("_E", bound=ExecutableData)

_compiled_here: weakref.WeakSet[ExecutableData] = weakref.WeakSet()


def register(exe: _E) -> _E:
    """Register an executable that the compiler of this process made, or that its cache holds; ``exe`` itself."""
    _compiled_here.add(exe)
    return exe


def is_compiled_here(exe: ExecutableData) -> bool:
    """Whether the compiler of this process made ``exe``, or its cache holds it."""
    return exe in _compiled_here


def skips_checks(exe: ExecutableData) -> bool:
    """Whether launches of ``exe`` run without checks: it is in the register, and no variable enables all checks."""
    return is_compiled_here(exe) and not Environment.read().checks
