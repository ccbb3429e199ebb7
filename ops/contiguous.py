"""Kernels that only move elements from one place to another that lie the same way: their results need no kernel at all.

Derived from the loops of a kernel, so that it holds for every operator and every chain of them: a *part* is a result that is a
run of elements of a parameter, in their order (a slice along the first axis, a part of a split, an axis of size 1 more or less);
a *join* is a result made of such runs (a concatenation along the first axis, a stack).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..shape_funcs.dims import Dim, Shape, const, dim, max_, min_, product
from .group import Group
from .kernels.composition import Nest, TooComplex
from .kernels.expression import APPLY, AXIS, LITERAL, LOAD, SELECT, SIZE, Cell, Cells
from .kernels.plan import plans
from .op import OpPattern

#: The patterns of operators that may move elements only; of the others no loops need be made.
_MOVES = (OpPattern.INJECTIVE, OpPattern.RESHAPE)
#: An index that is a loop (None: none of them counts here) plus a number that no loop changes.
_Index = tuple[int | None, Dim]


@dataclass(frozen=True)
class Part:
    """A result that is a run of elements of parameter ``param``, from element ``offset`` on: an expression in the dims of the
    group's parameters.  An empty one may have any offset."""

    param: int
    offset: Dim


def parts(group: Group) -> tuple[Part, ...] | None:
    """Per result the part that it is, if every result is one; None otherwise."""
    found = []
    for nest in _nests(group):
        part = _part(group, nest)
        if part is None:
            return None
        found.append(part)
    return tuple(found) or None


def joined(group: Group) -> tuple[Part, ...] | None:
    """The runs, in order, that the one result of ``group`` is made of: ``offset`` is where a run begins *in the result*.

    None for any other kernel, and for one whose runs are all one: a part.
    """
    nests = _nests(group)
    if len(nests) != 1:
        return None
    leaves = list(_leaves(nests[0], nests[0].element, dim(0), None))
    if len(leaves) < 2:
        return None
    found = [_run(group, nests[0], *leaf) for leaf in leaves]
    return None if any(run is None for run in found) else tuple(run for run in found if run is not None)


def _nests(group: Group) -> list[Nest]:
    """The loops of each result, where they move elements only."""
    if any(node.operator.kernels or node.operator.pattern not in _MOVES for node in group.nodes):
        return []
    try:
        nests = plans(group)
    except TooComplex:  # nobody runs it: it will be split
        return []
    return nests if not any(n.folded or n.columns for n in nests) else []


# ---- a part --------------------------------------------------------------------------------------------------------


def _part(group: Group, nest: Nest) -> Part | None:
    load = nest.cells[nest.element]
    if load.kind != LOAD:
        return None
    indices = [_index(nest.cells, n) for n in load.args]
    offset = _run_from(indices, group.params[load.what].shape, nest.dims)
    return None if offset is None else Part(load.what, offset)


def _run_from(indices: Sequence[_Index | None], shape: Shape, loops: Sequence[Dim]) -> Dim | None:
    """Where in a tensor of ``shape`` the run begins that loops read, in their order, by these indices; None if it is no run.

    From the last axis on, axes are read whole; at most one, the *cut*, is read in part, and those before it have one index.
    """
    offset, stride, cut, last = dim(0), dim(1), False, len(loops)
    for found, size in zip(reversed(indices), reversed(shape), strict=True):
        if found is None:
            return None
        loop, first = found
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


def _leaves(nest: Nest, number: int, low: Dim, high: Dim | None, axis: int | None = None) -> Iterator[tuple]:
    """``(cell, axis, low, high)`` of each element that is chosen by comparing one loop, ``axis``, with bounds; None: its end."""
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


def _run(group: Group, nest: Nest, cell: Cell, axis: int | None, low: Dim, high: Dim | None) -> Part | None:
    """The run that is chosen where ``axis`` is from ``low`` to ``high``, if it is the whole of a parameter."""
    if cell.kind != LOAD or axis is None or any(const(n) != 1 for n in nest.dims[:axis]):
        return None
    shape, length = group.params[cell.what].shape, (nest.dims[axis] if high is None else high) - low
    # the result's loops as they run here: the axis counts from ``low``, and only so far
    loops = (*nest.dims[:axis], length, *nest.dims[axis + 1 :])
    indices: list[_Index | None] = []
    for found in (_index(nest.cells, n) for n in cell.args):
        if found is not None and found[0] == axis:
            found = (axis, found[1] + low)
        indices.append(found)
    if _run_from(indices, shape, loops) is not dim(0) or product(shape) is not product(loops):
        return None
    return Part(cell.what, low * product(nest.dims[axis + 1 :]))


# ---- indices -------------------------------------------------------------------------------------------------------

_SUM = {"add": 1, "subtract": -1}
_OF_SIZES = {"multiply": lambda a, b: a * b, "minimum": min_, "maximum": max_}


def _index(cells: Cells, number: int) -> _Index | None:
    """An index as a loop and what is added to it; None where it is not of this kind."""
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
