"""One storage for many: where sizes are known, blocks that live at different times lie at the same place of an arena."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...shape_funcs.dims import const
from ...vm.verify import MAX_OFFSET
from .storage_roots import Path, StorageRoots
from .taking_place import Block

#: Every block begins at a multiple of so many bytes.
ALIGNMENT = 64


@dataclass(frozen=True)
class Arena:
    """Blocks of known sizes with their offsets; ``path``: the branches that all of them are in."""

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
    """The bytes of a block whose size is known."""
    nbytes = const(block.nbytes)
    assert nbytes is not None, block
    return nbytes


def arenas(roots: StorageRoots, blocks: Iterable[Block]) -> list[Arena]:
    """The arenas of a function.

    An arena holds what lives between two calls of functions: it would else be held, as a whole, for as long as they run.  What
    leaves the function is in none but one that it fills alone in the end: until then its memory serves others.
    """
    inside: dict[tuple[int, str], list[Block]] = {}
    leaving: dict[tuple[int, str], list[Block]] = {}
    for block in blocks:
        if const(block.nbytes) is None or block.over is not None:
            continue
        before = bisect_right(roots.calls, block.start)
        if block.escapes:
            leaving.setdefault((before, block.base.device), []).append(block)
        elif bisect_right(roots.calls, block.last) == before:
            inside.setdefault((before, block.base.device), []).append(block)
    found = []
    for key, together in inside.items():
        for host in leaving.get(key, ()):
            guests = _guests(host, together)
            together = [b for b in together if not any(b is g for g in guests)]
            if guests:
                found.append(_arena([*guests, host]))
        if len(together) > 1:
            found.append(_arena(together))
    # what is larger is no place in any memory: each tensor fails by itself, with its own type
    return [a for a in found if a.nbytes <= MAX_OFFSET]


def _guests(host: Block, blocks: Iterable[Block]) -> list[Block]:
    """The blocks that lie in the memory of ``host`` before it is filled, the largest first."""
    space, found = _Space(size_of(host)), []
    for block in sorted(blocks, key=lambda b: (-size_of(b), b.start)):
        if block.last < host.start and space.place(block.start, block.last, size_of(block)) is not None:
            found.append(block)
    return found


def _arena(blocks: list[Block]) -> Arena:
    blocks = sorted(blocks, key=lambda b: b.start)
    path = blocks[0].base.path
    for block in blocks:
        while block.base.path[: len(path)] != path:
            path = path[:-1]
    return Arena(tuple(blocks), offsets([(b.start, b.last, size_of(b)) for b in blocks]), path)


def offsets(lives: Sequence[tuple[int, int, int]]) -> tuple[int, ...]:
    """Where blocks lie that live from a number to a number, both included, and have a size: no two that are alive together
    overlap.  The largest come first, each at the lowest place that is free."""
    space, found = _Space(), dict[int, int]()
    for k in sorted(range(len(lives)), key=lambda k: (-lives[k][2], lives[k][0])):
        found[k] = space.place(*lives[k]) or 0
    return tuple(found[k] for k in range(len(lives)))


class _Space:
    """Bytes that are given out for a time; no more than ``limit``."""

    def __init__(self, limit: float = math.inf) -> None:
        self.limit = limit
        self.given: list[tuple[int, int, int, int]] = []

    def place(self, start: int, last: int, size: int) -> int | None:
        """The lowest offset at which ``size`` bytes are free from ``start`` to ``last``, given out from now on; None: nowhere."""
        at = 0
        for low, high, _, _ in sorted(g for g in self.given if g[2] <= last and start <= g[3]):
            if at + size <= low:
                break
            at = max(at, (high + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
        if at + size > self.limit:
            return None
        self.given.append((at, at + size, start, last))
        return at
