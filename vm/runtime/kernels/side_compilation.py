"""Compilation of a program's kernels in further processes, side by side with this process.

The compiler holds Python's global lock for most of its time, so threads would take turns.  A companion is a process that compiles
the same kernels in another order and writes them to the kernel cache; this process compiles, too, and finds in the cache where a
companion was there first.  Nothing else passes between them: a companion that fails makes a program slower to load, never wrong.

Companions start when enough kernels are missing to pay for their start, about a second each.  Kernels that are not optimized
compile faster.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from ....ops.core.group import Group
from ....ops.native.cache import disk_cache, kernel_store
from ....ops.native.jit.native_compiler import OPTIMIZED, kernel_levels
from .kernel_addresses import kernel_address

if TYPE_CHECKING:
    import subprocess

#: Kernels that have been compiled, and kernels that may be left to compile, when companions start.
COMPILED, LEFT = 3, 16
#: The most companions.
MOST = 7
_CHILD = (
    "import pickle, sys; parent = sys.stdin.buffer; sys.path[:] = pickle.load(parent); "
    f"from {__name__} import compile_for; compile_for(parent)"
)


@contextlib.contextmanager
def companions(groups: Sequence[Group], processes: int) -> Iterator[None]:
    """Within the context, this thread obtains the kernels of ``groups`` in order, beside companions.

    ``processes``: the number of processes that may compile, this one included.
    """
    started: list[subprocess.Popen[bytes]] = []
    compiled = 0

    def count(name: str) -> None:
        nonlocal compiled
        compiled += 1
        if compiled == COMPILED:
            started.extend(_start(groups, min(processes - 1, MOST)))

    if processes < 2 or len(groups) < COMPILED + LEFT or kernel_levels() != OPTIMIZED or not _shares_cache():
        yield
        return
    kernel_store.on_compile.append(count)
    try:
        yield
    finally:
        kernel_store.on_compile.remove(count)
        for process in started:
            process.kill()
            process.wait()


def _shares_cache() -> bool:
    """Whether this process and a companion can use the kernel cache."""
    try:
        disk_cache.private_folder()
    except disk_cache.NoFolder:
        return False
    return disk_cache.cap() > 0 and bool(sys.executable) and not getattr(sys, "frozen", False)


def _start(groups: Sequence[Group], number: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start companions: the first compiles from the end, the others from places between."""
    # imported here: a program whose kernels are in the cache starts without them
    import pickle
    import subprocess
    import tempfile

    for n in range(number):
        begin = len(groups) - n * len(groups) // number
        order = [*reversed(groups[:begin]), *reversed(groups[begin:])]
        try:
            told = pickle.dumps(sys.path) + pickle.dumps((os.getpid(), order))
        except (pickle.PicklingError, AttributeError, TypeError, RecursionError):
            return  # a description with an object that only this process has, such as an operator of the user
        # a file, for a pipe would make this process wait until the companion reads
        with contextlib.suppress(OSError), tempfile.TemporaryFile() as file:  # no process can be started: this one compiles alone
            file.write(told)
            file.seek(0)
            command = [sys.executable, "-c", _CHILD]
            yield subprocess.Popen(command, stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def compile_for(parent: BinaryIO) -> None:
    """The program of a companion: compile the kernels that the other process tells, until it ends."""
    import pickle

    owner, groups = pickle.load(parent)
    for group in groups:
        if os.getppid() != owner:
            return
        with contextlib.suppress(Exception):  # the other process meets the same error, and reports it
            kernel_address(group)
