"""An innermost loop that takes its elements from here, then from there: a loop for each piece, without a choice in it.

out[i] = a[i] if i < n else b[i - n]        becomes        out[i] = a[i] up to n, out[i] = b[i - n] from n on
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...shape_funcs.dims import Dim, dim, max_, min_
from .composition import Nest
from .expression import APPLY, AXIS, LITERAL, SELECT, SIZE, Cells, resolved

#: More loops than this make a long kernel: then each element is chosen by itself.
MOST = 16


@dataclass(frozen=True)
class Piece:
    """A nest as it is where the innermost loop goes from ``start`` to ``stop``."""

    nest: Nest
    start: Dim
    stop: Dim


def pieces(nest: Nest) -> list[Piece]:
    """The pieces of the innermost loop, in order; one where there is nothing to choose, or too much."""
    whole = Piece(nest, dim(0), nest.dims[-1] if nest.dims else dim(1))
    if nest.folded or nest.columns or not nest.dims:
        return [whole]
    found, waiting = list[Piece](), [whole]
    while waiting:
        piece = waiting.pop()
        choice = next(_choices(piece.nest), None)
        if choice is None:
            found.append(piece)
        else:
            waiting += _split(piece, *choice)
        if len(found) + len(waiting) > MOST:
            return [whole]
    return found or [whole]


def _choices(nest: Nest) -> Iterator[tuple[int, Dim]]:
    """The cells that are one thing as long as the innermost loop is before some index, and another from there on.

    The last one first: others may stand within it.
    """
    cells = nest.cells
    for number, cell in reversed(list(enumerate(cells.table))):
        if cell.kind == SELECT and cells[cell.args[0]].what == "less":
            index, limit = cells[cell.args[0]].args
            bound = _size(cells, limit)
            if cells[index].kind == AXIS and cells[index].what == len(nest.dims) - 1 and bound is not None:
                yield number, bound


def _split(piece: Piece, choice: int, bound: Dim) -> list[Piece]:
    """From there on, and before: the last one is taken up first."""
    at, made = min_(max_(bound, piece.start), piece.stop), []
    for side, start, stop in ((2, at, piece.stop), (1, piece.start, at)):
        if start is stop:
            continue
        meaning = {choice: piece.nest.cells[choice].args[side]}
        cells, (element,) = resolved(piece.nest.cells, meaning, [piece.nest.element])
        made.append(Piece(replace(piece.nest, cells=cells, element=element), start, stop))
    return made


def _size(cells: Cells, number: int) -> Dim | None:
    """The size that a cell is, None where it is something else."""
    cell = cells[number]
    if cell.kind == LITERAL and cell.dtype == "int64":
        return dim(int(cell.what))
    if cell.kind == SIZE:
        return cell.what  # type: ignore[no-any-return]
    if cell.kind == APPLY and cell.what == "add" and cell.dtype == "int64":
        a, b = (_size(cells, n) for n in cell.args)
        return None if a is None or b is None else a + b
    return None
