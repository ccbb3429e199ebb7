"""Blocks of words that grow, as machine code: the stack, queues, the trace."""

from __future__ import annotations

from ..ops.native.memory import alloc, copy_bytes, free, native


@native
def grown(block, used, capacity):
    """A block of ``capacity`` words in the place of ``block`` (0: there is none yet), whose first ``used`` words it has.

    0: there is no memory, and ``block`` is as it was.
    """
    larger = alloc(8 * capacity)
    if larger != 0 and block != 0:
        copy_bytes(larger, block, 8 * used)
        free(block)
    return larger
