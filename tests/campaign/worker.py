"""A child process that checks cases of one part, and its other end: who crashes or hangs is known by its seed."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from .part import load

#: Trials that a worker is given at once: a message costs a tenth of a millisecond.
BATCH = 64
_STARTING = -1


@dataclass(frozen=True)
class Finding:
    """What a trial showed.  ``kind``: wrong, error, crash or hang."""

    seed: int
    kind: str
    what: str

    def same_kind(self, other: Finding | None) -> bool:
        """Whether another finding is likely to be of the same cause."""
        if other is None or self.kind != other.kind:
            return False
        return self.kind != "error" or self.what.partition(":")[0] == other.what.partition(":")[0]


def _checked(part: Any, case: Any, seed: int) -> Finding | None:
    try:
        what = part.check(case)
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        place = f" ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})" if at is not None else ""
        return Finding(seed, "error", f"{type(error).__name__}: {str(error)[:500]}{place}")
    return None if what is None else Finding(seed, "wrong", what)


def _serve(name: str, pipe: Connection, current: Any) -> None:
    """The child: answer each batch of seeds, or one case, with the findings and what was seen."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    part = load(name)
    while (asked := pipe.recv()) is not None:
        found = []
        if isinstance(asked, range):
            for seed in asked:
                current.value = seed
                finding = _checked(part, part.draw(seed), seed)
                found += [finding] if finding else []
        else:
            current.value, case = asked
            finding = _checked(part, case, asked[0])
            found += [finding] if finding else []
        pipe.send((found, part.seen))
        part.seen = Counter()


class Worker:
    """A child process for one part.  It is started anew when it crashed or hung."""

    def __init__(self, name: str) -> None:
        self.name, self.part = name, load(name)
        self.seen: Counter[str] = Counter()
        self._asked: Any = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._current = context.Value("q", _STARTING, lock=False)
        self._process = context.Process(target=_serve, args=(self.name, theirs, self._current), daemon=True)
        self._process.start()
        theirs.close()
        self._watched = (_STARTING, time.monotonic())

    def close(self) -> None:
        """End the child, whatever it does."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    @property
    def idle(self) -> bool:
        """Whether the child waits for work."""
        return self._asked is None

    def ask(self, asked: range | tuple[int, Any]) -> None:
        """Give the child seeds, or one case with its seed."""
        self._asked = asked
        self._current.value = _STARTING
        self._watched = (_STARTING, time.monotonic())
        self._pipe.send(asked)

    def poll(self, seconds: float) -> list[Finding] | None:
        """The findings of what was asked, None while the child is at it.  After a crash or hang the rest is asked again."""
        if self._pipe.poll(seconds):
            try:
                found, seen = self._pipe.recv()
            except EOFError:
                return self._fallen("crash")
            self.seen += seen
            self._asked = None
            return found  # type: ignore[no-any-return]
        now = self._current.value
        if now != self._watched[0]:
            self._watched = (now, time.monotonic())
        # who starts may have to compile the machine first
        elif time.monotonic() - self._watched[1] > self.part.hang_seconds + (120 if now == _STARTING else 0):
            return self._fallen("hang")
        return None

    def _fallen(self, kind: str) -> list[Finding] | None:
        seed, asked = int(self._current.value), self._asked
        self._process.kill() if kind == "hang" else None
        self._process.join()
        code = self._process.exitcode or 0
        self.close()
        self._start()
        what = f"no answer for {self.part.hang_seconds} s" if kind == "hang" else _ending(code)
        self._asked = None
        if isinstance(asked, range) and seed != _STARTING and seed + 1 < asked.stop:
            self.ask(range(seed + 1, asked.stop))
        return [Finding(seed, kind, what)]


def _ending(code: int) -> str:
    return f"the process ended by {signal.Signals(-code).name}" if code < 0 else f"the process ended with exit code {code}"
