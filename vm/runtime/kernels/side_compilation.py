"""Compilation in companions (see ``companion``), side by side with this process.

The first companion starts before a program is compiled, if the machine's own code is missing: it compiles that code meanwhile,
which takes longer than most kernels together, and then kernels.  More companions start when enough kernels are missing to pay for
their start, about a second each.  Each companion obtains the kernels of a program in an order of its own, and this process, too:
where another was first, the kernel is in the cache.  Kernels that are not optimized compile faster.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ....ops.native.compiled import kernel_store
from ....ops.native.jit.native_compiler import OPTIMIZED, kernel_levels
from .companion import Companion, Job, can_help

if TYPE_CHECKING:
    from ....ops.core.group import Group

#: Kernels that LLVM has compiled, and those that are left to compile, when companions start.
COMPILED, LEFT = 3, 16
#: The most companions.
MOST = 7
#: The companion that was started ahead of a program, if there is one.
_ahead: list[Companion] = []
#: Held by a thread that starts, awaits or ends it.
_using = threading.RLock()


def start_ahead(jobs: Sequence[Job], then: Sequence[Job] = ()) -> None:
    """Start a companion that does ``jobs`` while this process compiles a program, unless there is one.

    ``then``: jobs that it does next, for which ``wait_ahead`` does not wait.

    Nothing is started where kernels are not optimized: most programs there compile faster than a process starts.
    """
    if kernel_levels() != OPTIMIZED or not can_help():
        return
    with _using, contextlib.suppress(OSError):  # no process can be started: this one compiles alone
        if _ahead:
            return
        companion = Companion()
        for each in (jobs, *([then] if then else [])):
            companion.tell(each)
        _ahead.append(companion)
        atexit.register(_end_ahead)


def wait_ahead() -> None:
    """Wait for the first jobs of the companion that was started ahead, and end it."""
    with _using:
        for companion in _ahead:
            companion.wait()
        _end_ahead()


def _end_ahead() -> None:
    with _using:
        atexit.unregister(_end_ahead)
        while _ahead:
            _ahead.pop().end()


def _forget_ahead() -> None:
    """Forget the companion in a forked child: it works for the parent, and its answer is for one process."""
    global _using
    _using = threading.RLock()
    _ahead.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_ahead)


@contextlib.contextmanager
def companions(groups: Sequence[Group], processes: int) -> Iterator[None]:
    """Within the context, this thread obtains the kernels of ``groups`` in order, beside companions.

    ``processes``: the number of processes that may compile, this one included.
    """
    started: list[Companion] = []
    compiled = 0

    def count() -> None:
        nonlocal compiled
        compiled += 1
        for companion in _ahead[: compiled == 1]:
            companion.tell(_kernels(groups, len(groups)))
        if compiled == COMPILED and _missing(groups) >= LEFT:
            started.extend(_start(groups, min(processes - 1, MOST) - len(_ahead)))

    if processes < 2 or kernel_levels() != OPTIMIZED or not (_ahead or (len(groups) >= COMPILED + LEFT and can_help())):
        yield
        return
    kernel_store.on_object.append(count)
    try:
        yield
    finally:
        kernel_store.on_object.remove(count)
        for companion in started:
            companion.end()


def _missing(groups: Sequence[Group]) -> int:
    """The number of objects that are left to compile for the kernels of ``groups``."""
    from .kernel_addresses import missing_objects  # as in ``_kernels``

    return missing_objects(groups) if len(groups) >= COMPILED + LEFT else 0


def _kernels(groups: Sequence[Group], begin: int) -> list[Job]:
    """Jobs for all kernels: those before ``begin`` backwards, then the others."""
    from .kernel_addresses import kernel_address  # code generators, which a program does without whose kernels are in the cache

    return [(kernel_address, (group,)) for group in (*reversed(groups[:begin]), *reversed(groups[begin:]))]


def _start(groups: Sequence[Group], number: int) -> Iterator[Companion]:
    """Start companions: the first compiles from the end, the others from places between."""
    for n in range(number):
        with contextlib.suppress(OSError):  # no process can be started: this one compiles alone
            companion = Companion()
            if not companion.tell(_kernels(groups, len(groups) - n * len(groups) // number)):
                companion.end()
                return
            yield companion
