"""The text of loops that are divided between threads: each part of a kernel's work runs over its share of the outer loops.

    pieces = s0 * s1
    low1, high1 = first_of(share, pieces, 1), end_of(share, pieces, 1)
    low0, high0 = rows_before(share, low1, s1), rows_begun(share, high1, s1, s0)
    for i0 in range(max(low0, 0), high0):
        before1 = i0 * s1
        for i1 in range(max(low1 - before1, 0), min(high1 - before1, s1)):

The parts of a kernel have no result in common, so nothing depends on their number.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...shape_funcs.dims import Dim, const, product
from ..native.shares import WORTH_A_THREAD
from .composition import Nest
from .cost import cost_of_element
from .language import indented, loops_around
from .sizes import Sizes
from .writer import Outside

#: How many loops are divided, where there are so many: outer ones are often short.
LEVELS = 3
#: A fold along another axis than the last one is divided at multiples of so many columns, which are folded together (their
#: states take that many times 8 to 32 bytes): with fewer of them memory is gone through in steps too short.
COLUMNS = 2048
#: A flat loop is divided at multiples of this: whole cache lines, and whole steps of a loop that takes many at a time.
GRAIN = 64


def loops(outside: Outside, regions: list[list[str]], outer: Divided, extents: list[str], innermost: list[str]) -> list[str]:
    """As ``loops_around`` for the loops ``outer`` and those of ``extents`` inside them.

    If the kernel is divided, of the outer ones only the share is run through.
    """
    n = len(outer.extents)
    lines = loops_around([[], *regions[n + 1 :]], extents, innermost, n)
    if outside.divided and n == 0:
        return [*regions[0], "for _ in range(first_of(share, 1, 1), end_of(share, 1, 1)):", *indented(lines)]
    for k in reversed(range(n)):
        head = outer.head(k) if outside.divided else [f"for {outer.names[k]} in range({outer.extents[k]}):"]
        lines = [*head, *indented([*(regions[k + 1] if k + 1 < len(regions) else []), *lines])]
    return [*regions[0], *(outer.bounds() if outside.divided else []), *lines]


class Divided:
    """The loops that are divided: their extents and variables.  ``grain``: a boundary is at a multiple of it."""

    def __init__(self, extents: Sequence[str], grain: int = 1, innermost: str | None = None) -> None:
        self.extents, self.grain = extents, grain
        self.names = [f"i{k}" for k in range(len(extents))]
        if innermost is not None:
            self.names[-1] = innermost

    def bounds(self) -> list[str]:
        """Statements that find the share of each loop, in pieces of that loop and those around it."""
        last = len(self.extents) - 1
        lines = [f"pieces = {' * '.join(self.extents)}"]
        lines.append(f"low{last}, high{last} = first_of(share, pieces, {self.grain}), end_of(share, pieces, {self.grain})")
        for k in reversed(range(last)):
            inside, rows = self.extents[k + 1], " * ".join(self.extents[: k + 1])
            low, high = f"rows_before(share, low{k + 1}, {inside})", f"rows_begun(share, high{k + 1}, {inside}, {rows})"
            lines.append(f"low{k}, high{k} = {low}, {high}")
        return lines

    def head(self, k: int) -> list[str]:
        """The first line of a loop, and before it the number of pieces that lie before the loop."""
        name, extent = self.names[k], self.extents[k]
        if k == 0:
            # that no index is negative makes better code, and must be said
            return [f"for {name} in range(max(low0, 0), high0):"]
        before = f"before{k} = {'i0' if k == 1 else f'(before{k - 1} + i{k - 1})'} * {extent}"
        return [before, f"for {name} in range(max(low{k} - before{k}, 0), min(high{k} - before{k}, {extent})):"]


def question(sizes: Sizes, nests: Sequence[Nest]) -> list[str]:
    """What a kernel says first: its share, and whether it asks for threads instead.  Empty where it is never divided."""
    pieces = [product(_pieces(nest)) for nest in nests]
    work = [product(nest.dims) * cost_of_element(nest.cells, nest.roots) for nest in nests]
    if all(const(k) == 1 for k in pieces):
        return []
    known = [const(w) for w in work]
    if None not in known and sum(w for w in known if w is not None) <= WORTH_A_THREAD:
        return []
    total = " + ".join(_work(sizes, nest) for nest in nests)
    each = [_number_of_pieces(sizes, nest) for nest in nests]
    most = each[0] if len(each) == 1 else f"max({', '.join(each)})"
    return asked(total, most)


def asked(work: str, most: str) -> list[str]:
    """The share, and the question for threads: ``work`` units of work, which at most ``most`` threads can do."""
    lines = ["share = load_i64(argv + 8 * n + 8)", f"wanted = threads_wanted(share, {work}, {most})"]
    return [*lines, "if wanted != 0:", *indented(["return -wanted"])]


def _work(sizes: Sizes, nest: Nest) -> str:
    return f"{_times(sizes, nest.dims)} * {cost_of_element(nest.cells, nest.roots)}"


def _times(sizes: Sizes, dims: Sequence[Dim]) -> str:
    """A product, size by size: of a whole product nobody would know that the result's shape has its factors, and it would be
    computed from data, which need not be there."""
    return " * ".join(sizes.size(d) for d in dims) or "1"


def _number_of_pieces(sizes: Sizes, nest: Nest) -> str:
    if not nest.columns:
        return _times(sizes, _pieces(nest))
    outer = [f"{_times(sizes, nest.dims[: -nest.folded - 1])} * "] if len(nest.dims) > nest.folded + 1 else []
    return "".join([*outer, f"(({sizes.size(nest.dims[-1])} + {COLUMNS - 1}) // {COLUMNS})"])


def _pieces(nest: Nest) -> Sequence[Dim]:
    """The extents of what can be divided: of the loops that no fold runs through."""
    if nest.columns:
        return (*nest.dims[: -nest.folded - 1], (nest.dims[-1] + (COLUMNS - 1)) // COLUMNS)
    return nest.dims[: len(nest.dims) - nest.folded]
