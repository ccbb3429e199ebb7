"""Split an innermost loop whose elements come from different sources into one loop per source, without a branch.

out[i] = a[i] if i < n else b[i - n]           becomes  out[i] = a[i] up to n, out[i] = b[i - n] from n on
out[j, i] = a[j, i] if j < n else b[j - n, i]  becomes, for each j, one of two loops over i
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, dim
from ....shape_funcs.symbolic.dim_operations import max_, min_
from ...core.group import Group
from ..loop_nest.expression import APPLY, AXIS, CAST, LITERAL, SELECT, SIZE, Cells, substituted
from ..loop_nest.inlining import Nest
from ..loop_nest.linear_index import Lowered, over_runs

#: The largest number of loops.  Above it the kernel would be long, and each element is selected individually.
MAX_SEGMENTS = 16
#: The largest number of loops after a split by conditions on outer loops.
MAX_GUARDED = 8


@frozen
class Segment:
    """A nest specialised to the indices ``start`` to ``stop`` of the innermost loop.

    ``guards``: conditions on the indices of outer loops, cells of the nest, each with its value; the loop runs if all have it.
    """

    nest: Nest
    start: Dim
    stop: Dim
    guards: tuple[tuple[int, bool], ...] = ()


def segments(nest: Nest) -> list[Segment]:
    """The segments of the innermost loop, in order; a single one without a select, or instead of too many."""
    whole = Segment(nest, dim(0), nest.dims[-1] if nest.dims else dim(1))
    if nest.reduces or nest.columns or not nest.dims:
        return [whole]
    by_index = _split_all([whole], _by_index, MAX_SEGMENTS)
    return _split_all(by_index, _by_outer_loops, MAX_GUARDED)


def joined_segments(group: Group, parts: Sequence[Segment]) -> list[Lowered] | None:
    """The segments with one loop for the axes behind the last that a guard depends on, or None.

    A part of a concatenation along the channels is a run for each channel, not as many runs as there are rows.  All segments
    have whole loops, and each operand has the elements of these axes in their order.
    """
    nest = parts[0].nest
    guarded = [part.nest.cells.axes([cell]) for part in parts for cell, _ in part.guards]
    lead = max((axis for axes in guarded for axis in axes), default=-1) + 1
    if lead + 1 >= len(nest.dims) or not all(part.start is dim(0) and part.stop is nest.dims[-1] for part in parts):
        return None
    found = [over_runs(group, part.nest, lead, own=-1) for part in parts]
    return None if None in found else [lowered for lowered in found if lowered is not None]


def _split_all(parts: list[Segment], split: Callable[[Segment], list[Segment] | None], most: int) -> list[Segment]:
    """The parts, each split until ``split`` gives None; ``parts`` as they are if that makes more than ``most``."""
    finished, pending = list[Segment](), parts[::-1]
    while pending:
        segment = pending.pop()
        found = split(segment)
        if found is None:
            finished.append(segment)
        else:
            pending += found[::-1]
        if len(finished) + len(pending) > most:
            return parts
    return finished or parts


def _by_index(segment: Segment) -> list[Segment] | None:
    """The segments before and after the bound of a select by the innermost index; None without such a select."""
    select, bound = next(_selects(segment.nest), (None, dim(0)))
    if select is None:
        return None
    split = min_(max_(bound, segment.start), segment.stop)
    sides = ((1, segment.start, split), (2, split, segment.stop))
    return [replace(_chosen(segment, select, side), start=start, stop=stop) for side, start, stop in sides if start is not stop]


def _by_outer_loops(segment: Segment) -> list[Segment] | None:
    """Both sides of a select by the indices of outer loops, which the innermost loop would decide again and again.

    The last select comes first: other selects may be nested in it.
    """
    cells, guards = segment.nest.cells, segment.guards
    for number, cell in reversed(list(enumerate(cells.table))):
        if cell.kind == SELECT and _is_outside(cells, cell.args[0], len(segment.nest.dims) - 1):
            known = dict(guards).get(cell.args[0])
            values = (True, False) if known is None else (known,)
            parts = [replace(segment, guards=(*guards, (cell.args[0], value)) if known is None else guards) for value in values]
            return [_chosen(part, number, 1 if value else 2) for part, value in zip(parts, values, strict=True)]
    return None


def _is_outside(cells: Cells, number: int, innermost: int) -> bool:
    """Whether a cell is computed from sizes and the indices of outer loops only, and depends on some index."""
    indices, stack = 0, [number]
    while stack:
        cell = cells[stack.pop()]
        if cell.kind not in (AXIS, APPLY, SIZE, LITERAL, CAST) or (cell.kind == AXIS and cell.what == innermost):
            return False
        indices += cell.kind == AXIS
        stack += cell.args
    return indices > 0


def _chosen(segment: Segment, select: int, side: int) -> Segment:
    """The segment with one side of a select instead of the select."""
    nest, guards = segment.nest, segment.guards
    substitution = {select: nest.cells[select].args[side]}
    cells, (element, *conditions) = substituted(nest.cells, substitution, [nest.element, *(cell for cell, _ in guards)])
    values = [value for _, value in guards]
    return replace(
        segment, nest=replace(nest, cells=cells, element=element), guards=tuple(zip(conditions, values, strict=True))
    )  # fmt: skip


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
