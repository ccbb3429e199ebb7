"""Storages of equal size used one after the other: one storage, also where the size is known at run time only."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

from .storage_roots import StorageRoots
from .taking_place import Block


def share_storages(roots: StorageRoots, blocks: Sequence[Block], taken: Sequence[int]) -> list[Block]:
    """The blocks that are left when one takes over what another left before it; the others are members of these.

    A block may do so where both have the same size for all sizes, and nothing took memory in between (``taken``: the numbers at
    which arenas do): what is kept for the next one is then never kept from somebody else, and no run needs more than without.
    """
    left: list[Block] = []
    events = sorted([*roots.calls, *roots.others, *taken])
    for block in sorted(blocks, key=lambda b: b.start):
        found = next((b for b in reversed(left) if _follows(block, b, events)), None)
        if found is None:
            left.append(block)
            insort(events, block.start)
        else:
            found.members += block.members
    return left


def _follows(block: Block, before: Block, events: Sequence[int]) -> bool:
    last = before.last
    return (
        block.over is None
        and last < block.start
        and before.nbytes is block.nbytes
        and before.base.device == block.base.device
        and before.base.is_in_scope(block.base.path)
        and bisect_right(events, last) == bisect_right(events, block.start - 1)
    )
