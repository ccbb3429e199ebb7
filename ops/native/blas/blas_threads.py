"""Disable a BLAS's own threads while a kernel calls it.

Threads of a BLAS wait for one another in spin loops: beside other processes a product then takes a hundred times as long. So
products are divided between the threads of this process (``gemm``), and the BLAS's number of threads is set before and after.
The number holds for the process: a product that another library asks of the same BLAS at the same time has one thread, too.  The
last kernel that leaves restores the number that the first one read, unless it was changed meanwhile.
"""

from __future__ import annotations

import os

import numpy as np

from ..c_functions import by_name, call_0, call_1
from ..memory import native, record

_WORD = np.int64
_MUTEX_WORDS = 8

SCOPE = np.dtype(
    [
        ("get", _WORD),  # addresses of the functions that get and set the number of threads; 0: none
        ("set", _WORD),
        ("users", _WORD),  # kernels that call the BLAS now
        ("before", _WORD),  # number of threads before the first user; 1: nothing to restore
        ("mutex", _WORD, (_MUTEX_WORDS,)),
    ]
)
assert SCOPE.fields is not None
_MUTEX = SCOPE.fields["mutex"][1]
#: The result is a C int: the upper half is undefined.
_LOW_HALF = 0x7FFFFFFF
scope_at = record(SCOPE)
_lock, _unlock = by_name("pthread_mutex_lock", 1), by_name("pthread_mutex_unlock", 1)


@native
def enter(scope: int) -> None:
    """Restrict the BLAS to the caller's thread."""
    s = scope_at(scope)
    if s.set == 0:
        return
    _lock(scope + _MUTEX)
    if s.users == 0:
        s.before = call_0(s.get) & _LOW_HALF
        if s.before != 1:
            call_1(s.set, 1)
    s.users += 1
    _unlock(scope + _MUTEX)


@native
def leave(scope: int) -> None:
    """Undo ``enter`` when the last user leaves."""
    s = scope_at(scope)
    if s.set == 0:
        return
    _lock(scope + _MUTEX)
    s.users -= 1
    if s.users == 0 and s.before != 1 and call_0(s.get) & _LOW_HALF == 1:
        call_1(s.set, s.before)
    _unlock(scope + _MUTEX)


# ---- the scopes of this process --------------------------------------------------------------------------------------------

_scopes: dict[tuple[int, int], np.ndarray] = {}


def scope_of(functions: tuple[int, int] | None) -> int:
    """The address of the SCOPE record of the BLAS with these functions, which get and set its number of threads."""
    get, set_ = functions or (0, 0)
    if (get, set_) not in _scopes:
        made = np.zeros(1, SCOPE)
        made["get"], made["set"], made["before"] = get, set_, 1
        _init(made)
        _scopes.setdefault((get, set_), made)
    return _scopes[get, set_].ctypes.data


def _init(scope: np.ndarray) -> None:
    scope["mutex"] = 0
    by_name("pthread_mutex_init", 2)(scope.ctypes.data + _MUTEX, 0)


def _reset_after_fork() -> None:
    """Reset the scopes after a fork: kernels of the parent's other threads never leave."""
    for (_, set_), scope in _scopes.items():
        if scope["users"][0] and scope["before"][0] != 1:
            call_1(set_, int(scope["before"][0]))
        scope["users"] = 0
        _init(scope)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
