"""Storages of equal size with disjoint live ranges, coalesced into one storage, also where the size is known at run time only."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from .in_place_reuse import Block
from .liveness import Liveness


def coalesce_storages(liveness: Liveness, blocks: Sequence[Block], arena_starts: Sequence[int]) -> list[Block]:
    """The remaining blocks; each coalesced block's storages become members of the block before it.

    Two blocks are coalesced where their sizes are equal for all values of the dims, and nothing is allocated between the end of
    the first and the start of the second.  ``arena_starts``: the numbers at which arenas are allocated.  So no other allocation
    misses the retained memory, and the peak of no run grows.
    """
    kept: list[Block] = []
    events = sorted([*liveness.calls, *liveness.unplanned, *arena_starts])
    for block in sorted(blocks, key=lambda b: b.start):
        predecessor = next((b for b in reversed(kept) if _follows(block, b, events)), None)
        if predecessor is None:
            kept.append(block)
            insort(events, block.start)
        else:
            predecessor.members += block.members
    return kept


def _follows(block: Block, before: Block, events: Sequence[int]) -> bool:
    last = before.last
    return (
        block.donor is None
        and last < block.start
        and before.nbytes is block.nbytes
        and before.base.device == block.base.device
        and before.base.is_in_scope(block.base.path)
        and bisect_right(events, last) == bisect_right(events, block.start - 1)
    )
