"""Register of the executables compiled by this process; only their launches run without checks.

An executable that was loaded, unpickled, built by hand or derived from another one is not in the register.  No content of a
file can put an executable into the register.
"""

from __future__ import annotations

import os
import weakref
from typing import TypeVar

from .executable import ExecutableData

#: Environment variable that enables all checks: of each pass's result, and of the launches of this process's own executables.
VARIABLE = "RELAYVM_CHECK"

_E = TypeVar("_E", bound=ExecutableData)

_compiled_here: weakref.WeakSet[ExecutableData] = weakref.WeakSet()


def register(exe: _E) -> _E:
    """Register an executable that the compiler of this process made; ``exe`` itself."""
    _compiled_here.add(exe)
    return exe


def is_compiled_here(exe: ExecutableData) -> bool:
    """Whether the compiler of this process made ``exe``."""
    return exe in _compiled_here


def skips_checks(exe: ExecutableData) -> bool:
    """Whether launches of ``exe`` run without checks: this process compiled it, and VARIABLE does not enable all checks."""
    return is_compiled_here(exe) and not checks_enabled()


def checks_enabled() -> bool:
    """Whether the environment variable VARIABLE enables all checks."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")
