"""Gathers whose indices are the positions of the elements themselves: each element of the result is the data's, in order.

Exporters write masks by indices that ``arange`` makes: ``x[i, j]`` with ``i = arange(n)[:, None]`` and ``j = arange(m)`` is ``x``
for a ``Tensor[(?n, ?m)]``.  An index is followed through the calls that compute it, by their ``compute`` expressions, to a Dim
of the symbols that stand for the position in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops.core.compute import Axis, Guard, Load, Scalar, Value
from ...ops.core.effect import Role
from ...ops.core.op import Op, OpPattern, get
from ...ops.core.tensor_types import TensorType, TupleType, is_integer
from ...ops.defs.movement.transform import RESHAPE, ReshapeAttrs, ShapeOfAttrs
from ...shape_funcs.symbolic.dim import Dim, Shape, const, dim, unnamed
from ..ir.expr import Call, Constant, Expr, tensor_type
from .movement_rules import VIEWS, as_newshape
from .rewriting import Definitions, Rules, operator_call
from .scalar_values import evaluate, number_of, numbered_value
from .value_ranges import MAX_DEPTH

RULES = Rules()
Index = tuple[int | Dim | None, ...]


@RULES.on(*map(get, ("take", "gather", "gather_nd", "adv_index")))
def _gather_in_order(call: Call, scope: Definitions) -> Expr | None:
    """``adv_index((x, positions of axis 0, positions of axis 1))`` is a view of ``x``, likewise the other gathers."""
    data, shape = _data(call, scope), tensor_type(call).shape
    if data is None:
        return None
    at = _positions(shape)
    wanted = _index_in_order(at, shape, tensor_type(data).shape)
    if wanted is None or _PositionValues(scope, wanted).loaded_at(call, at) != wanted:
        return None
    return _view(data, shape, scope)


def _data(call: Call, scope: Definitions) -> Expr | None:
    """The tensor whose elements a gather takes."""
    fields = (call.args[0],) if isinstance(call.args[0].ty, TensorType) else scope.fields(call.args[0])
    return fields[0] if fields else None


def _positions(shape: Shape) -> Index:
    """The index of an element: a symbol for each axis, 0 for an axis of size 1."""
    return tuple(0 if const(d) == 1 else unnamed(f"position {axis}") for axis, d in enumerate(shape))


def _index_in_order(at: Index, shape: Shape, data: Shape) -> Index | None:
    """The index into ``data`` of the element that has the row-major number of the element at ``at`` of ``shape``.

    None unless each axis of the data is an axis, or several axes one after the other, of the result.
    """
    rest = [(dim(p), d) for p, d in zip(at, shape, strict=True) if p is not None and const(d) != 1]
    index: list[int | Dim | None] = []
    for size in reversed(data):
        number, stride = dim(0), dim(1)
        while stride != size and rest:
            position, extent = rest.pop()
            number, stride = number + position * stride, stride * extent
        if stride != size:
            return None
        index.insert(0, const(number) if const(number) is not None else number)
    return None if rest else tuple(index)


def _view(data: Expr, shape: Shape, scope: Definitions) -> Expr | None:
    """``data``, or the tensor that it is a view of, in another shape; None if a reshape cannot say so."""
    while True:
        newshape = as_newshape(shape, tensor_type(data).shape)
        if newshape is not None:
            return operator_call(RESHAPE, (data,), ReshapeAttrs(newshape))
        inner = scope.call(data, *VIEWS)
        if inner is None:
            return None
        data = inner.args[0]


class _PositionValues:
    """Values of integers at positions, as Dims of the positions' symbols.

    ``exact``: an index in range of a tensor in memory; sums and products of positions that have one as their value do not wrap.
    """

    def __init__(self, scope: Definitions, exact: Index) -> None:
        self.scope = scope
        self.exact = frozenset(d for d in exact if isinstance(d, Dim))
        self.found: dict[tuple[Expr, Index], int | Dim | None] = {}

    def loaded_at(self, call: Call, at: Index) -> Index | None:
        """The index of the element that a gather loads for its element at ``at``, if it is in range."""
        element, atoms = _element(call, self.scope)
        while isinstance(element, Guard):
            element = element.value
        if not isinstance(element, Load) or element.param != 0:
            return None
        return tuple(_plain(self._evaluate(i, at, atoms, 0)) for i in element.index)

    def _evaluate(self, scalar: Scalar, at: Index, atoms: Sequence[Expr | None], depth: int) -> int | Dim | None:
        known = [dim(i) for i in at if i is not None]
        if len(known) < len(at):
            return None
        return evaluate(scalar, known, lambda n, index: self._value(atoms[n], tuple(map(_plain, index)), depth), exact=self.exact)

    def _value(self, atom: Expr | None, at: Index, depth: int) -> int | Dim | None:
        """The element of ``atom`` at ``at``."""
        if atom is None or isinstance(atom, Constant):
            return None if atom is None else _constant_at(atom, at)
        key = (atom, at)
        if key not in self.found:
            self.found[key] = None  # for the time that it is computed
            self.found[key] = self._computed(atom, at, depth)
        return self.found[key]

    def _computed(self, atom: Expr, at: Index, depth: int) -> int | Dim | None:
        call = self.scope.values.get(atom)
        if depth > MAX_DEPTH or None in at or not isinstance(call, Call) or not isinstance(call.op, Op) or not _is_whole(call):
            return None
        if isinstance(call.attrs, ShapeOfAttrs):
            axis = number_of(at[0])
            return None if axis is None else tensor_type(call.args[0]).shape[axis]
        if _is_check(call, call.op):
            return self._value(call.args[0], at, depth + 1)
        if call.op.pattern is OpPattern.RESHAPE:
            source = tensor_type(call.args[0]).shape
            index = _index_in_order(at, tensor_type(call).shape, source)
            return None if index is None else self._value(call.args[0], index, depth + 1)
        element, atoms = _element(call, self.scope)
        return None if element is None else self._evaluate(element, at, atoms, depth + 1)


def _element(call: Call, scope: Definitions) -> tuple[Scalar | None, list[Expr | None]]:
    """An element of a call's result, and the tensors that its ``Load`` numbers; None if the operator does not say it."""
    assert isinstance(call.op, Op)
    loads: list[tuple[TensorType, Any]] = []
    given = [scope.fields(a) if isinstance(a.ty, TupleType) else a for a in call.args]
    inputs = tuple(numbered_value(a.ty, g, loads) for a, g in zip(call.args, given, strict=True))
    atoms = [atom for _, atom in loads]
    if call.op.compute is None or call.op.reduction is not None:
        return None, atoms
    ty = tensor_type(call)
    axes = tuple(Axis(a) for a in range(ty.rank))
    element = call.op.compute(inputs, axes, call.attrs, Value(ty.dtype, ty.shape, len(atoms)))
    return (element if isinstance(element, Scalar) else None), atoms


def _is_check(call: Call, op: Op) -> bool:
    """Whether the result is the first input, after a check of its sizes."""
    first = call.args[0].ty if call.args else None
    kept = isinstance(first, TensorType) and first.rank == tensor_type(call).rank
    return kept and op.effect.roles[:1] == (Role.ALIASED,) and Role.SHAPE not in op.effect.roles and not op.effect.moves


def _is_whole(call: Call) -> bool:
    return isinstance(call.ty, TensorType) and (is_integer(call.ty.dtype) or call.ty.dtype == "bool")


def _plain(value: int | Dim | None) -> int | Dim | None:
    """A Dim that is a number as the number."""
    number = number_of(value)
    return value if number is None else number


def _constant_at(atom: Constant, at: Index) -> int | None:
    index = [number_of(i) for i in at]
    numbers = [i for i in index if i is not None]
    in_range = len(numbers) == len(index) and all(0 <= i < n for i, n in zip(numbers, atom.data.shape, strict=True))
    return int(atom.data[tuple(numbers)]) if in_range and atom.data.dtype.kind in "iub" else None
