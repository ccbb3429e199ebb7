"""A child process that checks cases of one part, seen from its parent: who crashes or hangs is known by its seed."""

from __future__ import annotations

import mmap
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from .part import load

ROOT = Path(__file__).resolve().parents[2]
#: Trials that a child is given at once: a message costs a tenth of a millisecond.
BATCH = 64
#: The seed that a child is at, in memory that it shares with its parent.
WORD = struct.Struct("q")
_STARTING = -1
#: A child that starts may have to compile the machine first.
_START_SECONDS = 120.0


@dataclass(frozen=True)
class Finding:
    """The result of a trial that failed.  ``kind``: wrong, error, refused, crash or hang."""

    seed: int
    kind: str
    what: str

    def same_kind(self, other: Finding | None) -> bool:
        """Whether another finding is likely to be of the same cause."""
        if other is None or self.kind != other.kind:
            return False
        return self.kind != "error" or self.what.partition(":")[0] == other.what.partition(":")[0]


class Worker:
    """A child process for one part.  It is started anew when it crashed or hung."""

    def __init__(self, name: str) -> None:
        self.name, self.part = name, load(name)
        self.seen: Counter[str] = Counter()
        self._asked: Any = None
        self._start()

    def _start(self) -> None:
        self._pipe, theirs = Pipe()
        with tempfile.TemporaryFile() as file:
            file.write(WORD.pack(_STARTING))
            file.flush()
            self._current = mmap.mmap(file.fileno(), WORD.size)
            numbers = theirs.fileno(), file.fileno()
            command = [sys.executable, "-m", f"tests.{__package__.rpartition('.')[2]}.child", self.name, *map(str, numbers)]
            self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=numbers)
        theirs.close()
        self._at, self._since = _STARTING, time.monotonic()

    def close(self) -> None:
        """End the child in any state."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()

    @property
    def idle(self) -> bool:
        """Whether the child waits for work."""
        return self._asked is None

    def ask(self, asked: range | tuple[int, Any]) -> None:
        """Give the child seeds, or one case with its seed."""
        self._asked = asked
        self._current[:] = WORD.pack(_STARTING)
        self._at, self._since = _STARTING, time.monotonic()
        self._pipe.send(asked)

    def poll(self, seconds: float) -> list[Finding]:
        """Findings that came since; ``idle`` says whether the child is done.  After a crash or hang the rest is asked again."""
        found: list[Finding] = []
        try:
            while self._pipe.poll(0 if found else seconds):
                message = self._pipe.recv()
                if isinstance(message, Counter):
                    self.seen += message
                    self._asked = None
                    return found
                found.append(message)
        except (EOFError, ConnectionResetError):
            return [*found, self._fallen("crash")]
        at = WORD.unpack(self._current[:])[0]
        if at != self._at:
            self._at, self._since = at, time.monotonic()
        elif time.monotonic() - self._since > self.part.hang_seconds + (_START_SECONDS if at == _STARTING else 0):
            return [*found, self._fallen("hang")]
        return found

    def _fallen(self, kind: str) -> Finding:
        """Start another child, for what comes after the seed at which this one fell."""
        seed, asked = WORD.unpack(self._current[:])[0], self._asked
        if kind == "hang":
            self._process.kill()
        code = self._process.wait()
        self.close()
        if seed == _STARTING:
            raise RuntimeError(f"a child of {self.name} ended before its first trial: {_ending(code)}")
        self._start()
        self._asked = None
        if isinstance(asked, range) and seed + 1 < asked.stop:
            self.ask(range(seed + 1, asked.stop))
        return Finding(seed, kind, f"no answer for {self.part.hang_seconds} s" if kind == "hang" else _ending(code))


def _ending(code: int) -> str:
    return f"the process ended by {signal.Signals(-code).name}" if code < 0 else f"the process ended with exit code {code}"
