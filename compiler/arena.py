"""One storage for many: where sizes are known, blocks that live at different times lie at the same place of an arena."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..shape_funcs.dims import const
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
    leaves the function is in none, and a block alone is its own.
    """
    together: dict[tuple[int, str], list[Block]] = {}
    for block in blocks:
        before = bisect_right(roots.calls, block.start)
        alone = block.escapes or block.over is not None
        if const(block.nbytes) is not None and not alone and bisect_right(roots.calls, block.last) == before:
            together.setdefault((before, block.base.device), []).append(block)
    return [_arena(found) for found in together.values() if len(found) > 1]


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
    found: dict[int, int] = {}
    for k in sorted(range(len(lives)), key=lambda k: (-lives[k][2], lives[k][0])):
        start, last, size = lives[k]
        taken = sorted((at, at + lives[j][2]) for j, at in found.items() if lives[j][0] <= last and start <= lives[j][1])
        place = 0
        for low, high in taken:
            if place + size <= low:
                break
            place = max(place, (high + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT)
        found[k] = place
    return tuple(found[k] for k in range(len(lives)))
