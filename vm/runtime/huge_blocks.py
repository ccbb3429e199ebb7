"""Private memory in huge pages: blocks, in which the arrays of one program are neighbours.

An array alone leaves the rest of its last huge page without use, or has small pages there.
"""

from __future__ import annotations

import mmap
import threading
import weakref

import numpy as np

from ...ops.native.memory import HUGE_PAGE_BYTES, MADV_HUGEPAGE

#: The bytes of a block.  Pages that no array has yet take no memory.
BLOCK_BYTES = 32 << 20
#: Arrays begin at a cache line, as they do in a file.
LINE_BYTES = 64


class Block(mmap.mmap):
    """Private memory that asks for huge pages."""


class _Open:
    """The block that the next array is in, as long as an array lives in it, and the position of that array."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._block: weakref.ref[Block] | None = None
        self._at = 0

    def part(self, nbytes: int) -> tuple[Block, int]:
        """A block and the position of ``nbytes`` bytes in it that no array has."""
        with self._lock:
            block = None if self._block is None else self._block()
            if block is None or self._at + nbytes > len(block):
                block = of_size(max(nbytes, BLOCK_BYTES))
                self._block, self._at = weakref.ref(block), -_address(block) % HUGE_PAGE_BYTES
            at = self._at
            self._at = at + (nbytes + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES
            return block, at


_open = _Open()


def of_size(nbytes: int) -> Block:
    """A block of its own, with ``nbytes`` bytes from the beginning of a huge page on."""
    block = Block(-1, nbytes + HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.madvise(MADV_HUGEPAGE)
    return block


def bytes_of(block: Block) -> np.ndarray:
    """The bytes of a block from the beginning of a huge page on."""
    whole = np.frombuffer(block, np.uint8)
    return whole[-whole.ctypes.data % HUGE_PAGE_BYTES :]


def new_bytes(nbytes: int) -> tuple[np.ndarray, np.ndarray]:
    """``nbytes`` bytes that begin with a cache line, beside the arrays that were made before: to be written, and read-only."""
    block, at = _open.part(nbytes)
    return np.frombuffer(block, np.uint8, nbytes, at), np.frombuffer(memoryview(block).toreadonly(), np.uint8, nbytes, at)


def in_block(array: np.ndarray) -> bool:
    """Whether the elements of an array are in a block."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner.obj if isinstance(owner, memoryview) else owner, Block)


def _address(block: Block) -> int:
    return int(np.frombuffer(block, np.uint8).ctypes.data)
