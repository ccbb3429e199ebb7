"""A companion: a process that compiles beside this process, and writes to the same kernel cache.

The compiler holds Python's global lock for most of its time, so threads would take turns.  A companion is told functions to call,
in order, and says when it has called them.  No result passes between the processes but through the cache: a companion that fails
makes a program slower to load, never wrong.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

from ....ops.native.cache import disk_cache

#: A function that can be pickled, and its arguments.
Job = tuple[Callable[..., object], tuple[Any, ...]]

_CHILD = (
    "import pickle, sys; owner = sys.stdin.buffer; sys.path[:] = pickle.load(owner); "
    f"from {__name__} import work_for; work_for(owner, sys.stdout.buffer)"
)
#: What a companion writes when it has done all jobs of a list.
_DONE = b"."


def can_help() -> bool:
    """Whether this process and a companion can use the kernel cache."""
    try:
        disk_cache.private_folder()
    except disk_cache.NoFolder:
        return False
    return disk_cache.cap() > 0 and bool(sys.executable) and not getattr(sys, "frozen", False)


class Companion:
    """A process that does jobs.  Raises OSError if no process can be started."""

    def __init__(self) -> None:
        import subprocess  # not where everything is in the cache

        command = [sys.executable, "-c", _CHILD]
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=none)
        self._sending: threading.Thread | None = None
        self._send(_pickled(sys.path))

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def tell(self, jobs: Sequence[Job]) -> bool:
        """Give the companion more jobs; False for jobs that only this process can do, such as an operator of the user."""
        import pickle

        try:
            self._send(_pickled(jobs))
        except (pickle.PicklingError, AttributeError, TypeError, RecursionError):
            return False
        return True

    def _send(self, told: bytes) -> None:
        # in a thread: a pipe that is full makes the writer wait until the companion has imported what it needs, and reads
        before, pipe = self._sending, self._process.stdin
        self._sending = threading.Thread(target=_write, args=(before, pipe, told), daemon=True)
        self._sending.start()

    def wait(self) -> None:
        """Wait until the next list of jobs is done, or the companion has ended by itself."""
        assert self._process.stdout is not None
        self._process.stdout.read(1)

    def end(self) -> None:
        """Kill the companion."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError), self._process:  # its exit closes the pipes
            pass


def _pickled(told: object) -> bytes:
    import pickle

    return pickle.dumps(told)


def _write(before: threading.Thread | None, pipe: BinaryIO, told: bytes) -> None:
    """Write to a companion what it is told, after all that was told before."""
    if before is not None:
        before.join()
    with contextlib.suppress(OSError, ValueError):  # the companion has ended
        pipe.write(told)
        pipe.flush()


def work_for(owner: BinaryIO, answers: BinaryIO) -> None:
    """The program of a companion: do the jobs of its owner until the owner ends."""
    told: queue.SimpleQueue[Sequence[Job] | None] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(owner, told), daemon=True).start()
    while (jobs := told.get()) is not None:
        for function, arguments in jobs:
            with contextlib.suppress(Exception):  # the owner meets the same error, and reports it
                function(*arguments)
        with contextlib.suppress(OSError):
            answers.write(_DONE)
            answers.flush()


def _receive(owner: BinaryIO, told: queue.SimpleQueue[Sequence[Job] | None]) -> None:
    import pickle

    with contextlib.suppress(Exception):
        while True:
            told.put(pickle.load(owner))
    os.kill(os.getpid(), signal.SIGKILL)  # the owner has ended: nobody waits for the job in hand
