"""The end of a server that a signal asks for, at any moment: also before the server runs."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

#: The signals that end a server.
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Ending:
    """Whether a server shall end.  ``hurry`` is called for SIGINT after another signal: nothing is awaited then."""

    def __init__(self) -> None:
        self.is_asked = False
        self.hurry: Callable[[], None] = lambda: None

    def ask(self) -> None:
        """Ask for the end; the server ends once it looks."""
        self.is_asked = True

    def handle(self, number: int, _: FrameType | None) -> None:
        """The handler of a signal."""
        if self.is_asked and number == signal.SIGINT:
            self.hurry()
        self.ask()


@contextlib.contextmanager
def ended_by(numbers: Sequence[signal.Signals]) -> Iterator[Ending]:
    """An ending that these signals ask for.  The handlers before return at the end; no signal of the time between is lost."""
    ending = Ending()
    before = {number: signal.signal(number, ending.handle) for number in numbers}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
