"""One timer for all times of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """The next time that a connection must not pass, and its end by then.

    A timer for each request costs more than the request's head.  So the timer is not cancelled with its time: it looks at the
    time once it rings, and is set anew if it rang for an earlier time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._at, self._rings = loop, 0.0, 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._action: Callable[[], None] | None = None

    def set(self, seconds: float, action: Callable[[], None]) -> None:
        """Call ``action`` in so many seconds, instead of any action before."""
        self._at, self._action = self._loop.time() + seconds, action
        if self._timer is not None and self._rings > self._at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._start(seconds)

    def clear(self) -> None:
        """Call nothing."""
        self._action = None

    def cancel(self) -> None:
        """Call nothing, and free the timer."""
        self._action = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start(self, seconds: float) -> None:
        self._rings, self._timer = self._at, self._loop.call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer, action = None, self._action
        if action is None:
            return
        left = self._at - self._loop.time()
        if left > 0:
            self._start(left)
        else:
            self._action = None
            action()
