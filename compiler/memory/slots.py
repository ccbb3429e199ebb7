"""Slots: storages for tensors of different sizes, known at run time only, whose live ranges are disjoint.

The sizes of a slot's tensors are multiples of one expression, such as the number of pictures of a batch, so the largest is the
same for all values of the dims.  A slot is allocated at its first tensor, with the size of the largest.  A program that writes
the same few bytes again finds them in the cache, unlike bytes of another storage for each tensor.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from ...shape_funcs.symbolic.dim import RESULT, Dim, const, content, postorder
from .in_place_reuse import Block
from .known_sizes import KnownSizes
from .liveness import Liveness, Path

#: The most bytes that the slots of a cluster hold at once, for each byte that its blocks would hold at their peak.
MAX_GROWTH = 1.25


def share_slots(liveness: Liveness, sizes: KnownSizes, blocks: Sequence[Block]) -> list[Block]:
    """The remaining blocks; a slot is one block, with the size of its largest.

    A slot's blocks are live only between two consecutive calls of functions, in the same branches, and do not escape.  Blocks
    that hold memory without interruption form a cluster; the peak of a cluster grows by MAX_GROWTH at most.
    """
    groups: dict[tuple[int, str, Path, Dim], list[Block]] = {}
    rest = []
    for block in blocks:
        before = bisect_right(liveness.calls, block.start)
        inside = not block.escapes and bisect_right(liveness.calls, block.last) == before
        if inside and block.donor is None and _is_open(block.nbytes):
            key = before, block.base.device, block.base.path, content(block.nbytes)[1]
            groups.setdefault(key, []).append(block)
        else:
            rest.append(block)
    return rest + [slot for group in groups.values() for cluster in _clusters(group) for slot in _slots(sizes, cluster)]


def _is_open(nbytes: Dim) -> bool:
    """Whether a size is not constant, and no count that a kernel reports."""
    return const(nbytes) is None and all(d.op != RESULT for d in postorder([nbytes]))


def _clusters(blocks: Iterable[Block]) -> list[list[Block]]:
    """The blocks, divided where none of them is live."""
    found: list[list[Block]] = []
    last = -1
    for block in sorted(blocks, key=lambda b: b.start):
        if block.start > last:
            found.append([])
        found[-1].append(block)
        last = max(last, block.last)
    return found


def _slots(sizes: KnownSizes, cluster: Sequence[Block]) -> list[Block]:
    """The slots of a cluster, or its blocks if slots hold too much."""
    lives = [(b.start, b.last, content(b.nbytes)[0]) for b in cluster]
    slots = assign_slots(lives)
    spans = [(min(lives[k][0] for k in s), max(lives[k][1] for k in s), lives[s[0]][2]) for s in slots]
    if _peak(spans) > MAX_GROWTH * _peak(lives):
        return list(cluster)
    found: list[Block] = []
    for slot in slots:
        blocks = [cluster[k] for k in sorted(slot, key=lambda k: lives[k])]
        first, nbytes = blocks[0], cluster[slot[0]].nbytes
        shared = Block([m for block in blocks for m in block.members], nbytes, first.why)
        is_known = nbytes is first.nbytes or sizes.are_known(shared.largest.ty.shape, first.start, first.base.path)
        found += [shared] if is_known else blocks
    return found


def assign_slots(lives: Sequence[tuple[int, int, int]]) -> list[list[int]]:
    """The slots, as indices of blocks, the largest block first; ``lives``: per block the first and last number of its live range,
    both inclusive, and its size.

    The largest block first, each in the smallest slot that is free while the block is live.
    """
    slots: list[list[int]] = []
    for k in sorted(range(len(lives)), key=lambda k: (-lives[k][2], lives[k][0])):
        start, last, _ = lives[k]
        free = (s for s in reversed(slots) if all(last < lives[j][0] or lives[j][1] < start for j in s))
        slot = next(free, None)
        if slot is None:
            slots.append([k])
        else:
            slot.append(k)
    return slots


def _peak(lives: Sequence[tuple[int, int, int]]) -> int:
    """The most that is held at once."""
    return max(sum(size for first, last, size in lives if first <= at <= last) for at, _, _ in lives)
