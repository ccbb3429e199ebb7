"""Server processes: a parent that starts them, replaces those that end, and ends all of them.

The parent loads no model and starts no thread, so a fork is safe: each process loads the models itself, and kernels come from
the cache on disk.  The first process loads alone, which fills the cache and finds models that cannot be served.

Processes end when the *life* pipe, which the parent alone can write, is closed: by the parent at a signal, or by the kernel
if the parent is killed.  A process reports on a *status* pipe of its own, which is closed when the process ends.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from ..vm.diagnostics import codes
from ..vm.diagnostics.source import RelayError
from . import reports
from .endings import SIGNALS

log = logging.getLogger("relayvm.serving")

#: The work of a process: the first argument is called once requests are taken, then the life pipe, and the process's place: a
#: number that no other process has at a time.
Work = Callable[[Callable[[], None], int, int], None]

_READY = b"R"
#: Seconds before a process is replaced that ended before it took requests, by the number of such ends in a row.
_DELAYS = (0.5, 1.0, 2.0, 5.0, 30.0)


class ProcessError(RelayError):
    """A server process that ended before it took requests, for a reason that is no diagnostic."""

    kind = codes.Process.FAILED


class _Child:
    """A process, and the bytes that it has reported: ``_READY``, or an error by ``reports``."""

    def __init__(self, pid: int, status: int, place: int) -> None:
        self.pid, self.status, self.place, self.output = pid, status, place, b""

    @property
    def is_ready(self) -> bool:
        return self.output == _READY


class Supervisor:
    """The parent of ``count`` processes that do the same work.

    ``announce`` is called once all of them take requests, ``ended`` with the number and the place of a process that has
    ended.  Processes that have not ended ``seconds`` after a signal are killed.
    """

    def __init__(
        self, count: int, work: Work, announce: Callable[[], None], ended: Callable[[int, int], None], seconds: float
    ) -> None:
        self._count, self._work, self._announce, self._ended, self._seconds = count, work, announce, ended, seconds
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._is_announced, self._failures, self._next_start = False, 0, 0.0
        self._deadline: float | None = None

    def run(self) -> None:
        """Work until SIGTERM or SIGINT.  Raises the error of a process that ended before any took requests."""
        self._life = os.pipe()
        signals = os.pipe()
        for end in signals:
            os.set_blocking(end, False)
        self._signals = signals
        wakeup = signal.set_wakeup_fd(signals[1])  # first: a signal that is handled must be heard
        before = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
        self._selector.register(signals[0], selectors.EVENT_READ)
        try:
            self._supervise()
        finally:
            self._stop()
            self._await_all()
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
            for end in (self._life[0], *signals):
                os.close(end)
            self._selector.close()

    # ---- the parent --------------------------------------------------------------------------------------------------

    def _supervise(self) -> None:
        self._start()
        while self._deadline is None:
            wait = self._next_start - time.monotonic() if self._is_short() else None
            for key, _ in self._selector.select(None if wait is None else max(0.0, wait)):
                if key.data is None:
                    self._stop()
                else:
                    self._hear(key.data)
            if self._deadline is None:
                self._fill()

    def _is_short(self) -> bool:
        """Whether processes are missing that may be started now: the first loads alone."""
        has_loaded = self._is_announced or any(child.is_ready for child in self._children.values())
        return has_loaded and len(self._children) < self._count

    def _fill(self) -> None:
        if self._is_short() and time.monotonic() >= self._next_start:
            while len(self._children) < self._count:
                self._start()
        if not self._is_announced and sum(child.is_ready for child in self._children.values()) == self._count:
            self._is_announced = True
            self._announce()

    def _hear(self, child: _Child) -> None:
        data = os.read(child.status, 1 << 16)
        child.output += data
        if child.is_ready:
            self._failures = 0
        if data:
            return
        self._remove(child)
        code = os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])
        self._ended(child.pid, child.place)
        if self._deadline is not None:
            return
        if not self._is_announced:
            raise _error_of(child, code)
        log.error("the server process %d ended with code %d and is replaced", child.pid, code)
        if not child.is_ready:
            log.error("its reason: %s", _error_of(child, code))
            self._next_start = time.monotonic() + _DELAYS[min(self._failures, len(_DELAYS) - 1)]
            self._failures += 1

    def _remove(self, child: _Child) -> None:
        self._selector.unregister(child.status)
        os.close(child.status)
        del self._children[child.pid]

    def _stop(self) -> None:
        """Tell all processes to end."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._seconds
            os.close(self._life[1])
            for child in self._children.values():
                if not child.is_ready:  # it loads, and looks at nothing else
                    os.kill(child.pid, signal.SIGTERM)

    def _await_all(self) -> None:
        assert self._deadline is not None
        while self._children:
            if time.monotonic() >= self._deadline:
                for child in self._children.values():
                    log.error("the server process %d did not end within %g seconds and is killed", child.pid, self._seconds)
                    os.kill(child.pid, signal.SIGKILL)
                self._deadline += self._seconds
            for key, _ in self._selector.select(max(0.0, self._deadline - time.monotonic())):
                if key.data is None:
                    os.read(key.fd, 1 << 10)  # further signals
                else:
                    self._hear(key.data)

    # ---- the processes -----------------------------------------------------------------------------------------------

    def _start(self) -> None:
        read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        place = min(set(range(self._count)) - {child.place for child in self._children.values()})
        pid = os.fork()
        if pid == 0:
            self._live(read, write, place)
        os.close(write)
        child = self._children[pid] = _Child(pid, read, place)
        self._selector.register(read, selectors.EVENT_READ, child)

    def _live(self, read: int, write: int, place: int) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes: the parent decides
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for end in (read, self._life[1], *self._signals, *(child.status for child in self._children.values())):
                os.close(end)
            self._selector.close()
            self._work(lambda: _write(write, _READY), self._life[0], place)
            code = 0
        except RelayError as error:
            _write(write, reports.written(error))
        except BaseException as error:  # the process must not return into its parent's code
            log.error("a server process failed", exc_info=error)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)


def _write(end: int, data: bytes) -> None:
    while data:
        data = data[os.write(end, data) :]


def _error_of(child: _Child, code: int) -> RelayError:
    data = child.output.removeprefix(_READY)
    if data:
        return reports.read(data)
    return ProcessError(f"a server process ended with code {code} before it took requests", help="its log has the reason")
