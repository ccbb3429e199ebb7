"""Evaluations: the number of times that a fused kernel computes each element of an inner value.

    let %s = sigmoid(%x); repeat(%s, repeats=2, axis=1)    // out[i, j] = sigmoid(x[i, j // 2]): each element of %s twice

An element is computed once for each iteration of the loops that its index depends on, and of the loops around these (on a GPU,
whose threads compute one element each: of all loops).  Their number over the number of the value's elements is the mean count of
evaluations.  An index that differs in each iteration, such as those of ``transpose`` or ``concatenate``, evaluates an element at
most once.  A size that is unknown counts as MANY.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.defs.axes.reduce import reduced_axes
from ...shape_funcs.symbolic.dim import INT, POLY, Dim, const, product
from ...shape_funcs.symbolic.int_operations import FLOORDIV, MAX, SCALED, as_float
from ..codegen.cpu import epilogue
from ..codegen.loop_nest.cost import MEMORY, cost_of
from ..codegen.loop_nest.expression import APPLY, AXIS, CAST, LOAD, SELECT
from ..codegen.loop_nest.inlining import OpenNest, TooComplex, open_nest
from ..codegen.loop_nest.reduction import fold_dtype
from ..codegen.loop_nest.row_passes import open_rows, uses_folds
from ..core.group import Group, Ref
from ..core.group_memo import per_group
from ..core.implementation import GPU
from ..core.op import OpPattern

#: The number of evaluations, or of iterations, where a size is unknown.
MANY = 64
#: The cost of a load or a store on a GPU, whose arithmetic is far ahead of its memory.
_MEMORY_ON_GPU = 8 * MEMORY
#: A value is stored if computing its elements again takes this many times as long: another kernel has a cost of its own.
_GAIN, _GAIN_ON_GPU = 1.5, 2.5
#: The most arithmetic of an element that is not computed ahead of a choice by indices, which may leave it out.
_CHEAP = 8


@frozen
class Evaluated:
    """An inner value: the mean number of evaluations of an element, and the costs of one.

    ``arithmetic``: in units of ``ops.codegen.loop_nest.cost``, without the loads of parameters, whose number is ``loads``.  Cells
    that loops further out compute are left out.
    """

    value: Ref
    times: float
    arithmetic: int
    loads: int

    def is_better_stored(self, machine: str, follows: bool) -> bool:
        """Whether another kernel on ``machine`` should compute the value.

        ``follows``: this kernel exists, and stores an operand of the value, to which it can apply the arithmetic before.
        """
        if follows or not self.arithmetic:  # as much is stored, by loops that are long wherever they are computed
            return self.times >= 1 and self.arithmetic > 0
        memory, gain = (_MEMORY_ON_GPU, _GAIN_ON_GPU) if machine == GPU else (MEMORY, _GAIN)
        # on a GPU, operands after the first are taken for small ones, which stay in its caches
        element = self.arithmetic + memory * (min(self.loads, 1) if machine == GPU else self.loads)
        return self.times * element > gain * (element + memory + memory * self.times)


@per_group
def evaluations(group: Group) -> tuple[Evaluated, ...]:
    """The inner values of a group whose kernel runs on the CPU, operands before their users."""
    return _evaluations(group, hoists=True)


@per_group
def evaluations_by_threads(group: Group) -> tuple[Evaluated, ...]:
    """As ``evaluations``, of a kernel for GPUs, whose threads share no value."""
    return _evaluations(group, hoists=False)


def _evaluations(group: Group, hoists: bool) -> tuple[Evaluated, ...]:
    if len(group.nodes) == 1 or group.has_prologue or _is_elementwise(group) or _follows_elementwise(group):
        return ()
    # the operators after a kernel have the same numbers of values in a group of their own
    return _of(epilogue.elementwise(group) if group.has_epilogue else group, hoists)


def _is_elementwise(group: Group) -> bool:
    """Whether all values of a group have one shape and every operator reads the elements at the index of its result."""
    shapes = {t.shape for t in (*group.params, *(t for n in group.nodes for t in n.outputs))}
    return len(shapes) == 1 and all(n.operator.pattern <= OpPattern.BROADCAST for n in group.nodes)


def _follows_elementwise(group: Group) -> bool:
    """Whether all values after a kernel have its shape and every operator reads them at the index of its result: once."""
    shapes = {t.shape for n in group.nodes for t in n.outputs}
    return group.has_epilogue and len(shapes) == 1 and all(n.operator.pattern <= OpPattern.BROADCAST for n in group.nodes[1:])


def _of(group: Group, hoists: bool) -> tuple[Evaluated, ...]:
    (ref,) = group.results
    try:
        nest = open_rows(group, ref, fold_dtype) if uses_folds(group, ref) else open_nest(group, ref, _keeps_columns(group, ref))
        nest.inliner.expand()
    except TooComplex:  # the group will be split
        return ()
    return _Reads(nest, hoists).found(group)


def _keeps_columns(group: Group, ref: Ref) -> bool:
    """Whether a value is a reduction that keeps the innermost axis: its columns are the innermost loop."""
    node = group.nodes[-1]
    if node.operator.pattern is not OpPattern.COMM_REDUCE or ref != len(group.values()) - 1:
        return False
    rank = len(group.values()[node.args[0]].shape)
    folded = reduced_axes(node.attrs, rank)
    return bool(folded) and rank - 1 not in folded


class _Reads:
    """The reads of inner values in the cells of a nest."""

    def __init__(self, nest: OpenNest, hoists: bool) -> None:
        self.cells, self.substitution = nest.inliner.cells, nest.inliner.substitution
        self.dims, self.hoists = nest.dims, hoists
        self._axes: dict[int, frozenset[int]] = {}
        self._weights: dict[int, int] = {}

    def found(self, group: Group) -> tuple[Evaluated, ...]:
        """Every inner value with its evaluations."""
        reads: dict[Ref, list[int]] = {}
        for number, cell in enumerate(self.cells.table):
            if cell.kind == LOAD and number in self.substitution:
                reads.setdefault(cell.what, []).append(number)
        first, values = len(group.params) + len(group.literals), group.values()
        out = []
        for ref in sorted(reads):
            if ref >= first and ref not in group.results:
                arithmetic, loads = self._costs(reads[ref][0])
                chosen = arithmetic <= _CHEAP
                times = sum(
                    1.0 if chosen and self._is_chosen(read) else self._times(read, values[ref].shape) for read in reads[ref]
                )
                out.append(Evaluated(ref, min(float(MANY), times), arithmetic, loads))
        return tuple(out)

    def axes(self, number: int) -> frozenset[int]:
        """The loops on whose indices a cell depends, those of inlined values included."""
        if number not in self._axes:
            self._axes[number] = frozenset(self.cells.axes([number]))
        return self._axes[number]

    def _times(self, read: int, shape: Iterable[Dim]) -> float:
        """The evaluations of an element by one read."""
        indices = self.cells[read].args
        used = frozenset[int]().union(*map(self.axes, indices))
        around = range(max(used, default=-1) + 1) if self.hoists else range(len(self.dims))
        own = {axis for axis in map(self._moved, indices) if axis is not None}
        if used <= own:
            return _ratio([self.dims[a] for a in around if a not in used], ())
        return _ratio([self.dims[a] for a in around], shape)

    def _is_chosen(self, read: int) -> bool:
        """Whether data, such as the indices of ``take``, decide which element is read."""
        return any(self.cells[number].kind == LOAD for number in self.cells.reached(self.cells[read].args))

    def _moved(self, number: int) -> int | None:
        """The loop of which each iteration has another value of this index; None if there is none, or if it is unknown."""
        cell, axes = self.cells[number], self.axes(number)
        if len(axes) != 1:
            return None
        if cell.kind == AXIS:
            return int(cell.what)
        args = [a for a in cell.args if self.axes(a)]
        if cell.kind == CAST or (cell.kind == APPLY and cell.what in ("add", "subtract", "multiply") and len(args) == 1):
            return self._moved(args[0])
        # a size of 1 that is found at run time has the index 0
        if (cell.kind == SELECT or cell.what == "where") and len(args) == 1 and args[0] != cell.args[0]:
            return self._moved(args[0])
        return None

    def _costs(self, read: int) -> tuple[int, int]:
        """The cost of the arithmetic of an element, and the number of its loads; its index is computed in any case."""
        level = self._level(read) if self.hoists else -1
        arithmetic, loads, seen, stack = 0, 0, self.cells.reached(self.cells[read].args), [read]
        while stack:
            number = stack.pop()
            if number in seen or self._level(number) < level:
                continue
            seen.add(number)
            cell = self.cells[number]
            if number in self.substitution:
                stack.append(self.substitution[number])
            elif cell.kind == SELECT:
                stack += [cell.args[0], max(cell.args[1:], key=self._weight)]
            else:
                stack += cell.args
                loads += cell.kind == LOAD
            if cell.kind in (APPLY, CAST) and "int64" not in (cell.dtype, self.cells[cell.args[0]].dtype):
                arithmetic += cost_of(cell)
        return arithmetic, loads

    def _weight(self, root: int) -> int:
        """The cost of a cell in which shared parts count as often as they are used: an order of the branches of a select."""
        stack = [root]
        while stack:
            number = stack[-1]
            args = (self.substitution[number],) if number in self.substitution else self.cells[number].args
            missing = [a for a in args if a not in self._weights]
            stack += missing
            if not missing:
                cell = self.cells[stack.pop()]
                self._weights[number] = cost_of(cell) + sum(self._weights[a] for a in args)
        return self._weights[root]

    def _level(self, number: int) -> int:
        """The innermost loop on whose index a cell depends; -1 if there is none."""
        return max(self.axes(number), default=-1)


def _ratio(counts: Iterable[Dim], elements: Iterable[Dim]) -> float:
    """The product of ``counts`` over the product of ``elements``; MANY where it is unknown and may exceed 1."""
    above, below = _leading(product(counts)), _leading(product(elements))
    atoms = above[1].copy()
    atoms.subtract(below[1])
    factor = above[0] / below[0] if below[0] else Fraction(1)
    if any(n > 0 for n in atoms.values()):
        return MANY
    if any(n < 0 for n in atoms.values()):
        return MANY if factor > 1 else float(factor)
    return float(factor)


def _leading(size: Dim) -> tuple[Fraction, Counter[Dim]]:
    """A size, where it is large, as the product of a factor and unknown sizes."""
    if size.op == INT:
        return Fraction(size.args[0]), Counter()
    if size.op == POLY:
        most = max(len(atoms) for _, atoms in size.args)
        highest = [term for term in size.args if len(term[1]) == most]
        if len(highest) == 1:
            ((coefficient, atoms),) = highest
            factor, unknown = Fraction(coefficient), Counter[Dim]()
            for atom in atoms:
                more = _leading(atom)
                factor, unknown = factor * more[0], unknown + more[1]
            return factor, unknown
    if size.op == FLOORDIV and const(size.args[1]):
        factor, unknown = _leading(size.args[0])
        return factor / size.args[1].args[0], unknown
    scale = as_float(const(size.args[1]) or 0) if size.op == SCALED else 0.0
    if 0 < scale < MANY:
        factor, unknown = _leading(size.args[0])
        return factor * Fraction(scale), unknown
    if size.op == MAX and any(const(a) is not None for a in size.args):
        return _leading(next(a for a in size.args if const(a) is None))
    return Fraction(1), Counter([size])
