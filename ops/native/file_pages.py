"""Pages of files in memory: arrays over mapped files occupy memory from their first use on.

The operating system counts the pages of a mapped file to a process until it needs them for others.  Weights that are read once,
to be stored in another form, would so occupy memory twice.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np


def mapping_of(array: np.ndarray) -> mmap.mmap | None:
    """The mapping that cannot be written, and has the elements of an array; None for an array in other memory."""
    owner: Any = array
    while isinstance(owner, (np.ndarray, memoryview)):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return owner if isinstance(owner, mmap.mmap) and memoryview(owner).readonly else None


def release_pages(array: np.ndarray) -> int:
    """Let go of the memory of an array over a mapped file; the number of bytes.  A later use reads the file again.

    Pages that the array shares with its neighbours stay.  Arrays in other memory stay as they are.
    """
    mapping = mapping_of(array)
    if mapping is None or not hasattr(mmap, "MADV_DONTNEED") or not array.nbytes:
        return 0
    first, end = np.lib.array_utils.byte_bounds(array)
    begin = np.frombuffer(mapping, np.uint8).ctypes.data
    low = -(-(first - begin) // mmap.PAGESIZE) * mmap.PAGESIZE
    high = end - begin if end - begin == len(mapping) else (end - begin) // mmap.PAGESIZE * mmap.PAGESIZE
    if high <= low:
        return 0
    mapping.madvise(mmap.MADV_DONTNEED, low, high - low)
    return int(high - low)
