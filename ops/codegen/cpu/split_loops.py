"""Split an innermost loop whose elements come from different sources into one loop per segment, without a branch.

out[i] = a[i] if i < n else b[i - n]        becomes        out[i] = a[i] up to n, out[i] = b[i - n] from n on
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....shape_funcs.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, dim, max_, min_
from ..loop_nest.expression import APPLY, AXIS, LITERAL, SELECT, SIZE, Cells, substituted
from ..loop_nest.inlining import Nest

#: The largest number of loops.  Above it the kernel would be long, and each element is selected individually.
MAX_SEGMENTS = 16


@frozen
class Segment:
    """A nest specialised to the indices ``start`` to ``stop`` of the innermost loop."""

    nest: Nest
    start: Dim
    stop: Dim


def segments(nest: Nest) -> list[Segment]:
    """The segments of the innermost loop, in order; a single one without a select, or instead of more than MAX_SEGMENTS."""
    whole = Segment(nest, dim(0), nest.dims[-1] if nest.dims else dim(1))
    if nest.reduces or nest.columns or not nest.dims:
        return [whole]
    finished, pending = list[Segment](), [whole]
    while pending:
        segment = pending.pop()
        select = next(_selects(segment.nest), None)
        if select is None:
            finished.append(segment)
        else:
            pending += _split(segment, *select)
        if len(finished) + len(pending) > MAX_SEGMENTS:
            return [whole]
    return finished or [whole]


def _selects(nest: Nest) -> Iterator[tuple[int, Dim]]:
    """The selects between two values by whether the innermost index is below a bound, each with its bound.

    The last select comes first: other selects may be nested in it.
    """
    cells = nest.cells
    for number, cell in reversed(list(enumerate(cells.table))):
        if cell.kind == SELECT and cells[cell.args[0]].what == "less":
            index, limit = cells[cell.args[0]].args
            bound = _size(cells, limit)
            if cells[index].kind == AXIS and cells[index].what == len(nest.dims) - 1 and bound is not None:
                yield number, bound


def _split(segment: Segment, select: int, bound: Dim) -> list[Segment]:
    """The segments before and after ``bound``.  They are popped from the end, so the segment after comes first."""
    split, parts = min_(max_(bound, segment.start), segment.stop), []
    for side, start, stop in ((2, split, segment.stop), (1, segment.start, split)):
        if start is stop:
            continue
        substitution = {select: segment.nest.cells[select].args[side]}
        cells, (element,) = substituted(segment.nest.cells, substitution, [segment.nest.element])
        parts.append(Segment(replace(segment.nest, cells=cells, element=element), start, stop))
    return parts


def _size(cells: Cells, number: int) -> Dim | None:
    """The size that a cell holds; None for any other cell."""
    cell = cells[number]
    if cell.kind == LITERAL and cell.dtype == "int64":
        return dim(int(cell.what))
    if cell.kind == SIZE:
        size: Dim = cell.what
        return size
    if cell.kind == APPLY and cell.what == "add" and cell.dtype == "int64":
        a, b = (_size(cells, n) for n in cell.args)
        return None if a is None or b is None else a + b
    return None
