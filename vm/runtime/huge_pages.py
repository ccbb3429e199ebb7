"""Constants in huge pages, which a product reads without a wait for the address of each small page.

Weights of some megabytes take thousands of pages of 4 KiB; a CPU keeps the addresses of fewer (in its TLB).  The operating system
decides whether it gives huge pages (Linux: ``/sys/kernel/mm/transparent_hugepage/enabled``); results do not depend on it.

New memory may take longer than the copy itself, so a machine does not wait for constants that a file maps: it reads the
pages of the file until the copies are there.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence

import numpy as np

from ...ops.native.file_pages import mapping_of, release_pages
from ...ops.native.memory import HAS_HUGE_PAGES, HUGE_PAGE_BYTES
from .huge_blocks import LINE_BYTES, bytes_of, in_block, of_size

#: The most bytes of constants that are moved.  100 MB take some 40 ms, and processes do not share them as they share a file.
MOST_BYTES = 256 << 20
#: The bytes of constants that take longer to copy than a thread takes to start.
_MANY_BYTES = 8 << 20
#: The least bytes of an array for which numpy asks for huge pages.
NUMPY_HUGE_BYTES = 4 << 20


class Moving:
    """Constants that are moved to huge pages, in a thread if there are many: ``result`` waits for them.

    ``in_thread``: whether the constants may be moved by a thread beside the caller.
    """

    def __init__(self, arrays: Sequence[np.ndarray], in_thread: bool) -> None:
        self._arrays = arrays
        self._moved: list[np.ndarray] | None = None
        self._thread: threading.Thread | None = None
        if in_thread and sum(array.nbytes for array in arrays) >= _MANY_BYTES:
            self._thread = threading.Thread(target=self._move)
            self._thread.start()

    def _move(self) -> None:
        self._moved = in_huge_pages(self._arrays)

    def result(self) -> list[np.ndarray]:
        """The arrays of ``in_huge_pages``."""
        if self._thread is not None:
            self._thread.join()
        # without a result the thread found no memory: this thread meets the error again, and raises it
        return in_huge_pages(self._arrays) if self._moved is None else self._moved


class MovingMeanwhile:
    """Constants of a mapped file that a thread moves to huge pages while machines run.

    ``keep``: called in the thread with the copies.  The thread ends with the process, if not before.
    """

    def __init__(self, arrays: Sequence[np.ndarray], keep: Callable[[list[np.ndarray]], None]) -> None:
        self._arrays, self._told = arrays, [keep]
        self._lock, self._is_done, self._is_over = threading.Lock(), False, threading.Event()
        self._thread = threading.Thread(target=self._move, daemon=True)
        self._thread.start()
        atexit.register(self._end)  # before Python's objects go, whose memory the thread reads

    @staticmethod
    def suits(arrays: Sequence[np.ndarray]) -> bool:
        """Whether these constants are many, though not too many to be moved, and all in mapped files."""
        is_many = HAS_HUGE_PAGES and _MANY_BYTES <= sum(array.nbytes for array in arrays) < MOST_BYTES - LINE_BYTES * len(arrays)
        return is_many and all(mapping_of(array) is not None for array in arrays)

    def tell(self, use: Callable[[list[np.ndarray]], None]) -> bool:
        """Let the thread call ``use``, too; False, without a call, if it has ended."""
        with self._lock:
            if not self._is_done:
                self._told.append(use)
            return not self._is_done

    def wait(self) -> None:
        """Wait until the thread ends."""
        self._thread.join()

    def _move(self) -> None:
        try:
            moved = in_huge_pages(self._arrays, self._is_over.is_set)
        except (MemoryError, OSError):  # the constants stay in their file
            moved = []
        with self._lock:
            self._is_done = True
            for use in self._told if moved else ():
                use(moved)
            self._told.clear()
        for array in self._arrays if moved else ():
            release_pages(array)
        atexit.unregister(self._end)

    def _end(self) -> None:
        self._is_over.set()
        self._thread.join()


def in_huge_pages(arrays: Sequence[np.ndarray], is_over: Callable[[], bool] = lambda: False) -> list[np.ndarray]:
    """The arrays, those in small pages as copies in huge pages, contiguous and read-only.

    The same arrays where the system has no huge pages, or the copies would have too few or too many bytes; no arrays where
    ``is_over`` says that nobody needs the copies any more.
    """
    moved = [n for n, array in enumerate(arrays) if not _is_huge(array)]
    positions, size = [], 0
    for n in moved:
        positions.append(size)
        size += (arrays[n].nbytes + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES
    found = list(arrays)
    if not HAS_HUGE_PAGES or not HUGE_PAGE_BYTES <= size <= MOST_BYTES:
        return found
    memory = bytes_of(of_size(size))
    for n, at in zip(moved, positions, strict=True):
        if is_over():
            return []
        array = arrays[n]
        view = memory[at : at + array.nbytes].view(array.dtype).reshape(array.shape)
        view[...] = array
        view.flags.writeable = False
        found[n] = view
    return found


def _is_huge(array: np.ndarray) -> bool:
    """Whether an array is in huge pages already: in a block, or large in memory of numpy, which asks for huge pages, too."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return in_block(array) or (owner.flags.owndata and owner.nbytes >= NUMPY_HUGE_BYTES)
