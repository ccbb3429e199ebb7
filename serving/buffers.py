"""Memory for the bodies of requests, kept for later requests: fresh memory costs as much as the copy of a body into it."""

from __future__ import annotations

import mmap
import threading
from typing import Any

import numpy as np

#: Shorter memory is left to numpy, which keeps such itself.
_LEAST = 1 << 16
#: Most bytes that are kept while no request uses the memory.
_MOST_KEPT = 64 << 20


class Buffers:
    """Memory that returns to its rooms when the last array over it has gone, in whatever thread that is."""

    def __init__(self, most_kept: int = _MOST_KEPT) -> None:
        self._most, self._free = most_kept, dict[int, list[np.ndarray]]()
        self._lock = threading.RLock()  # the collector may return memory while this thread takes some
        self.kept_bytes = 0

    def take(self, nbytes: int) -> np.ndarray:
        """An array of at least so many bytes, with arbitrary values."""
        if nbytes < _LEAST:
            return np.empty(nbytes, np.uint8)
        size = 1 << (nbytes - 1).bit_length()
        with self._lock:
            free = self._free.get(size)
            memory = free.pop() if free else None
            if memory is not None:
                self.kept_bytes -= size
        return np.asarray(_Lent(self, _fresh(size) if memory is None else memory))

    def give(self, memory: np.ndarray) -> None:
        """Keep the memory of arrays that have gone."""
        with self._lock:
            if self.kept_bytes + memory.nbytes <= self._most:
                self._free.setdefault(memory.nbytes, []).append(memory)
                self.kept_bytes += memory.nbytes


def _fresh(size: int) -> np.ndarray:
    """Memory of the system, which gets it back at once: in the heap, small objects between rooms would keep them."""
    return np.frombuffer(mmap.mmap(-1, size), np.uint8)


class _Lent:
    """The owner of an array's memory, as numpy sees it."""

    def __init__(self, buffers: Buffers, memory: np.ndarray) -> None:
        self._buffers, self._memory = buffers, memory
        self.__array_interface__: dict[str, Any] = memory.__array_interface__

    def __del__(self) -> None:
        self._buffers.give(self._memory)
