"""View analysis: results that are contiguous segments of a parameter, or concatenations of whole parameters.

The analysis reads the loops of a kernel, so it covers all operators and their fusions.  A *part* is a result that is a view of a
contiguous segment of a parameter (a slice along the first axis, a section of a split, an axis of size 1 added or removed).  A
*join* is a result composed of such segments (a concatenation along the first axis, a stack).  Neither needs a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import Dim, Shape, const, dim, product
from ...shape_funcs.symbolic.dim_operations import max_, min_
from ..codegen.cpu.loop_plan import plans
from ..codegen.loop_nest.expression import APPLY, AXIS, LITERAL, LOAD, SELECT, SIZE, Cell, Cells
from ..codegen.loop_nest.inlining import Nest, TooComplex
from ..core.group import Group
from ..core.op import OpPattern

#: Patterns of operators that may only move elements; the loops of other operators are not built.
_MOVES = (OpPattern.INJECTIVE, OpPattern.RESHAPE)
#: An affine index: a loop variable (None: no loop variable) plus a loop-invariant offset.
_Index = tuple[int | None, Dim]


@frozen
class Part:
    """A contiguous segment of parameter ``param``.  ``offset``: its first element, an expression over the dims of the group's
    parameters; arbitrary for an empty segment."""

    param: int
    offset: Dim


def parts(group: Group) -> tuple[Part, ...] | None:
    """Per result its segment of a parameter, if every result is a part; else None."""
    out = []
    for nest in _nests(group):
        part = _part(group, nest)
        if part is None:
            return None
        out.append(part)
    return tuple(out) or None


def joined(group: Group) -> tuple[Part, ...] | None:
    """The segments, in order, of the only result of ``group`` if it is a join; ``offset``: begin of a segment *in the result*.

    None for any other kernel, and for a result of a single segment, which is a part.
    """
    nests = _nests(group)
    if len(nests) != 1:
        return None
    leaves = list(_leaves(nests[0], nests[0].element, dim(0), None))
    if len(leaves) < 2:
        return None
    segments = [_segment(group, nests[0], *leaf) for leaf in leaves]
    return None if any(s is None for s in segments) else tuple(s for s in segments if s is not None)


def _nests(group: Group) -> Sequence[Nest]:
    """The loop nest of each result if all of them only move elements, else none."""
    if any(node.operator.kernels or node.operator.pattern not in _MOVES for node in group.nodes):
        return []
    try:
        nests = plans(group)
    except TooComplex:  # the group is never run: it will be split
        return []
    return nests if not any(n.folded or n.columns for n in nests) else []


# ---- a part --------------------------------------------------------------------------------------------------------


def _part(group: Group, nest: Nest) -> Part | None:
    load = nest.cells[nest.element]
    if load.kind != LOAD:
        return None
    indices = [_index(nest.cells, n) for n in load.args]
    offset = _segment_offset(indices, group.params[load.what].shape, nest.dims)
    if offset is not None and any(const(n) == 0 for n in nest.dims):
        offset = dim(0)  # the offset of an empty segment is arbitrary; the computed one may exceed int64
    return None if offset is None else Part(load.what, offset)


def _segment_offset(indices: Sequence[_Index | None], shape: Shape, loops: Sequence[Dim]) -> Dim | None:
    """First element that ``loops`` read by ``indices`` from a tensor of ``shape``; None unless they read a contiguous segment.

    The innermost axes are read completely; at most one axis, the *cut*, is read partially; each axis before the cut has a single
    index.
    """
    offset, stride, cut, last = dim(0), dim(1), False, len(loops)
    for index, size in zip(reversed(indices), reversed(shape), strict=True):
        if index is None:
            return None
        loop, first = index
        offset += first * stride
        stride *= size
        if loop is None or const(loops[loop]) == 1:
            cut = cut or const(size) != 1
            continue
        if cut or loop >= last or any(const(n) != 1 for n in loops[loop + 1 : last]):
            return None
        last = loop
        cut = size is not loops[loop] or first is not dim(0)
    return offset if all(const(n) == 1 for n in loops[:last]) else None


# ---- a join --------------------------------------------------------------------------------------------------------


def _leaves(nest: Nest, number: int, low: Dim, high: Dim | None, axis: int | None = None) -> Iterator[tuple[Any, ...]]:
    """``(cell, axis, low, high)`` of each element selected by comparing one loop variable, ``axis``, with bounds; high None: the
    end of the loop."""
    cell = nest.cells[number]
    condition = nest.cells[cell.args[0]] if cell.kind == SELECT else None
    if condition is None or condition.kind != APPLY or condition.what != "less":
        yield cell, axis, low, high
        return
    loop, bound = _index(nest.cells, condition.args[0]), _index(nest.cells, condition.args[1])
    if loop is None or bound is None or loop[0] is None or loop[1] is not dim(0) or bound[0] is not None:
        yield cell, axis, low, high
        return
    if axis not in (None, loop[0]):
        yield cell, axis, low, high
        return
    yield from _leaves(nest, cell.args[1], low, bound[1], loop[0])
    yield from _leaves(nest, cell.args[2], bound[1], high, loop[0])


def _segment(group: Group, nest: Nest, cell: Cell, axis: int | None, low: Dim, high: Dim | None) -> Part | None:
    """The segment of the result for ``axis`` from ``low`` to ``high``, if it is a whole parameter, else None."""
    if cell.kind != LOAD or axis is None or any(const(n) != 1 for n in nest.dims[:axis]):
        return None
    shape, length = group.params[cell.what].shape, (nest.dims[axis] if high is None else high) - low
    # the loops of the segment: the axis runs from ``low``, for ``length`` iterations
    loops = (*nest.dims[:axis], length, *nest.dims[axis + 1 :])
    indices: list[_Index | None] = []
    for index in (_index(nest.cells, n) for n in cell.args):
        if index is not None and index[0] == axis:
            index = (axis, index[1] + low)
        indices.append(index)
    if _segment_offset(indices, shape, loops) is not dim(0) or product(shape) is not product(loops):
        return None
    return Part(cell.what, low * product(nest.dims[axis + 1 :]))


# ---- indices -------------------------------------------------------------------------------------------------------

_SUM = {"add": 1, "subtract": -1}
_OF_SIZES = {"multiply": lambda a, b: a * b, "minimum": min_, "maximum": max_}


def _index(cells: Cells, number: int) -> _Index | None:
    """An index expression as a loop variable plus a loop-invariant offset; None if it is not affine in this form."""
    cell = cells[number]
    if cell.kind == AXIS:
        return cell.what, dim(0)
    if cell.kind == LITERAL and cell.dtype == "int64":
        return None, dim(int(cell.what))
    if cell.kind == SIZE:
        return None, cell.what
    if cell.kind != APPLY or len(cell.args) != 2:
        return None
    sides = [_index(cells, n) for n in cell.args]
    if sides[0] is None or sides[1] is None:
        return None
    (loop, a), (other, b) = sides[0], sides[1]
    if other is None and loop is None and cell.what in _OF_SIZES:
        return None, _OF_SIZES[cell.what](a, b)
    if cell.what not in _SUM or (other is not None and (loop is not None or cell.what == "subtract")):
        return None
    return loop if other is None else other, a + b * _SUM[cell.what]
