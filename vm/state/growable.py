"""Growable blocks of words, as machine code: the stack, queues, the trace."""

from __future__ import annotations

from ...ops.native.memory import alloc, copy_bytes, free, native


@native
def grow(block: int, used: int, capacity: int) -> int:
    """Replace ``block`` (0: none) by a block of ``capacity`` words, and copy the first ``used`` words.

    0 if there is no memory; then ``block`` is unchanged.
    """
    larger = alloc(8 * capacity)
    if larger != 0 and block != 0:
        copy_bytes(larger, block, 8 * used)
        free(block)
    return larger
