"""The open connections of each process of a server, in memory that the processes share: all get equal numbers of them.

The kernel wakes any process that waits for a connection, mostly the same one.  A process with more than its share leaves a
connection to the others for a while, then takes it: the others may be stopped.
"""

from __future__ import annotations

import mmap

import numpy as np

#: The number of connections of a place without a process that takes requests.
_NONE = -1


class ConnectionCounts:
    """``count`` places.  The parent makes this before it forks, and gives places to processes."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, 8 * count)
        self._open = np.frombuffer(self._memory, np.int64)
        self._open[:] = _NONE

    def leave(self, place: int) -> None:
        """No process has this place from now on."""
        self._open[place] = _NONE

    def share(self, place: int) -> Share:
        """The share of the process that has this place."""
        return Share(self._open, place)


class Share:
    """The connections of one process among those of all."""

    def __init__(self, connections: np.ndarray, place: int) -> None:
        self._open, self._place = connections, place

    def set(self, connections: int) -> None:
        """Tell the other processes how many connections this process has."""
        self._open[self._place] = connections

    def end(self) -> None:
        """This process takes no more connections."""
        self._open[self._place] = _NONE

    def is_next(self) -> bool:
        """Whether no other process has fewer connections."""
        others = self._open[self._open != _NONE]
        return not len(others) or bool(self._open[self._place] <= others.min())
