"""Arenas: blocks of known sizes with disjoint live ranges share the bytes of one storage."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import const
from ...vm.bytecode.verify import MAX_OFFSET
from .in_place_reuse import Block
from .liveness import Liveness, Path

#: The alignment of every block, in bytes.
ALIGNMENT = 64


@frozen
class Arena:
    """Blocks of known sizes with their offsets in bytes; ``path``: the branches common to all blocks."""

    blocks: tuple[Block, ...]
    offsets: tuple[int, ...]
    path: Path

    @property
    def nbytes(self) -> int:
        return max(offset + size_of(block) for block, offset in zip(self.blocks, self.offsets, strict=True))

    @property
    def start(self) -> int:
        return self.blocks[0].start


def size_of(block: Block) -> int:
    """The size in bytes of a block of known size."""
    nbytes = const(block.nbytes)
    assert nbytes is not None, block
    return nbytes


def plan_arenas(liveness: Liveness, blocks: Iterable[Block]) -> list[Arena]:
    """The arenas of a function.

    An arena's blocks are live only between two consecutive calls of functions: otherwise the whole arena would remain allocated
    during a call.  A block that escapes shares an arena only with blocks that are dead before the escaping block is written, and
    the arena is no larger than the escaping block.
    """
    inside: dict[tuple[int, str], list[Block]] = {}
    leaving: dict[tuple[int, str], list[Block]] = {}
    for block in blocks:
        if const(block.nbytes) is None or block.donor is not None:
            continue
        before = bisect_right(liveness.calls, block.start)
        if block.escapes:
            leaving.setdefault((before, block.base.device), []).append(block)
        elif bisect_right(liveness.calls, block.last) == before:
            inside.setdefault((before, block.base.device), []).append(block)
    found = []
    for key, candidates in inside.items():
        for outer in leaving.get(key, ()):
            inner = _fit_inside(outer, candidates)
            candidates = [b for b in candidates if not any(b is g for g in inner)]
            if inner:
                found.append(_arena([*inner, outer]))
        if len(candidates) > 1:
            found.append(_arena(candidates))
    # a larger arena fits no memory: the allocation of each tensor fails separately and names the tensor's type
    return [a for a in found if a.nbytes <= MAX_OFFSET]


def _fit_inside(outer: Block, blocks: Iterable[Block]) -> list[Block]:
    """The blocks, largest first, that are dead before ``outer`` is written and fit into its bytes."""
    allocator, found = _OffsetAllocator(size_of(outer)), []
    for block in sorted(blocks, key=lambda b: (-size_of(b), b.start)):
        if block.last < outer.start and allocator.reserve(block.start, block.last, size_of(block)) is not None:
            found.append(block)
    return found


def _arena(blocks: list[Block]) -> Arena:
    blocks = sorted(blocks, key=lambda b: b.start)
    path = blocks[0].base.path
    for block in blocks:
        while block.base.path[: len(path)] != path:
            path = path[:-1]
    return Arena(tuple(blocks), assign_offsets([(b.start, b.last, size_of(b)) for b in blocks]), path)


def assign_offsets(lives: Sequence[tuple[int, int, int]]) -> tuple[int, ...]:
    """The offset of each block; ``lives``: per block the first and last number of its live range, both inclusive, and its size in
    bytes.

    Blocks with overlapping live ranges do not overlap in memory.  First fit by decreasing size: the largest block first, each at
    the lowest free offset.
    """
    allocator, found = _OffsetAllocator(), dict[int, int]()
    for k in sorted(range(len(lives)), key=lambda k: (-lives[k][2], lives[k][0])):
        found[k] = allocator.reserve(*lives[k]) or 0
    return tuple(found[k] for k in range(len(lives)))


class _OffsetAllocator:
    """Byte ranges reserved for live ranges, below ``limit``."""

    def __init__(self, limit: float = math.inf) -> None:
        self.limit = limit
        self.reserved: list[tuple[int, int, int, int]] = []

    def reserve(self, start: int, last: int, size: int) -> int | None:
        """Reserve the lowest offset with ``size`` free bytes from number ``start`` to ``last``; None if no offset is free."""
        at = 0
        for low, high, _, _ in sorted(r for r in self.reserved if r[2] <= last and start <= r[3]):
            if at + size <= low:
                break
            at = max(at, (high + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
        if at + size > self.limit:
            return None
        self.reserved.append((at, at + size, start, last))
        return at
