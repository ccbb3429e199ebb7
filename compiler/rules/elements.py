"""Known elements of small integer tensors: of shapes that a program takes apart and assembles.

An element is known as a Dim: the elements of ``shape_of`` a ``Tensor[(?n, 4), float32]`` are ``n`` and 4.  Other operators are
evaluated by their own ``compute`` expressions for each element of the result, so every operator that moves or computes integers
(``take``, ``strided_slice``, ``concatenate``, ``add`` ...) is covered.  An element is unknown if an element that it depends on is
unknown, or if its expression uses a function that ``scalar_values`` does not have.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...ops.core.compute import Axis, Value
from ...ops.core.op import Op, OpPattern
from ...ops.core.tensor_types import TensorType, TupleType, Type, is_float, tensors
from ...ops.defs.movement.transform import ShapeOfAttrs
from ...shape_funcs.symbolic.dim import Dim, const, dim, is_static, product, total
from ..ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, type_of
from .scalar_values import WHOLE, LoadElement, evaluate, number_of, numbered_value, wrapped

#: The most elements of a tensor that is analysed: shapes have fewer.
MAX_ELEMENTS = 64
#: The elements of a tensor, row-major, None for an unknown element; for a tuple, the elements of its fields.
Known = tuple[Any, ...]
_FOLDS: dict[str, Callable[[Sequence[Dim]], Dim]] = {"sum": total, "prod": product}


class ElementTable:
    """The known elements of the values of a function, filled binding by binding.

    ``whole``: the dtypes that are taken to hold every size; other integers hold numbers only.
    """

    def __init__(self, whole: Collection[str] = WHOLE) -> None:
        self._known: dict[Expr, Known] = {}
        self.whole = whole

    def of(self, atom: Expr) -> Known | None:
        """The elements of an atom; None if nothing is known."""
        if not isinstance(atom, Constant):
            return self._known.get(atom)
        data = atom.data
        if data.size > MAX_ELEMENTS or data.dtype.kind not in "iub":
            return None
        return tuple(dim(int(v)) for v in data.reshape(-1))

    def bind(self, var: Expr, value: Expr) -> Known | None:
        """Record the known elements of ``var``, which is bound to ``value``, and return them."""
        found = self._elements(value)
        if found is not None:
            self._known[var] = found
        return found

    def _elements(self, value: Expr) -> Known | None:
        match value:
            case Tuple():
                fields = tuple(map(self.of, value.fields))
                return fields if any(f is not None for f in fields) else None
            case TupleGetItem():
                whole = self._known.get(value.tuple_value)
                return None if whole is None else whole[value.index]
            case Call(op=Op()) if isinstance(value.attrs, ShapeOfAttrs):
                shape = value.args[0].ty
                assert isinstance(shape, TensorType)
                return tuple(wrapped(d, value.attrs.dtype, self.whole) for d in shape.shape)
            case Call(op=Op() as op) if _is_small(value.ty):
                return self._call_elements(value, op)
        return None

    def _call_elements(self, call: Call, op: Op) -> Known | None:
        """The elements of a call's result, by the operator's ``compute``."""
        given = [self.of(a) for a in call.args]
        if op.pattern is OpPattern.RESHAPE:
            return given[0]
        if op.compute is None:
            return None
        loads: list[tuple[TensorType, Any]] = []
        inputs = tuple(numbered_value(a.ty, known, loads) for a, known in zip(call.args, given, strict=True))
        if len(loads) > MAX_ELEMENTS:
            return None
        if op.reduction is not None:
            return _reduced(call, op, inputs, loads, self.whole)
        load = _loader(loads)
        types = tensors(type_of(call))
        outputs = tuple(Value(t.dtype, t.shape, len(loads) + k) for k, t in enumerate(types))
        results = []
        for k, ty in enumerate(types):
            axes = tuple(Axis(a) for a in range(ty.rank))
            element = op.compute(inputs, axes, call.attrs, outputs if isinstance(call.ty, TupleType) else outputs[0])
            element = element[k] if isinstance(element, tuple) else element
            at_each = (evaluate(element, at, load, self.whole) for at in _indices(ty))
            results.append(tuple(wrapped(e, ty.dtype, self.whole) for e in at_each))
        if all(e is None for r in results for e in r):
            return None
        return tuple(results) if isinstance(call.ty, TupleType) else results[0]


def _is_small(ty: Type | None) -> bool:
    """Whether a type is a tensor, or a tuple of tensors, of few integers or bools."""
    if isinstance(ty, TupleType):
        return bool(ty.fields) and all(isinstance(t, TensorType) and _is_small(t) for t in ty.fields)
    if not isinstance(ty, TensorType) or is_float(ty.dtype) or not is_static(ty.shape):
        return False
    return int(const(product(ty.shape)) or 0) <= MAX_ELEMENTS


def _indices(ty: TensorType) -> itertools.product[tuple[int, ...]]:
    sizes = [const(d) or 0 for d in ty.shape]
    # product materialises its ranges: an axis beside an empty one may have any size
    return itertools.product(*map(range, sizes if all(sizes) else (0,)))


def _reduced(
    call: Call, op: Op, inputs: tuple[Any, ...], loads: list[tuple[TensorType, Known | None]], whole: Collection[str] = WHOLE
) -> Known | None:
    """The only element of a full sum or product."""
    assert op.reduction is not None and op.compute is not None and isinstance(call.ty, TensorType)
    source, known = loads[0]
    fold = _FOLDS.get(op.reduction.combine)
    if fold is None or op.reduction.finish is not None or known is None or const(product(call.ty.shape)) != 1:
        return None
    element = op.compute(inputs, tuple(Axis(a) for a in range(source.rank)), call.attrs, None)
    load = _loader(loads)
    parts = [evaluate(element, at, load, whole) for at in _indices(source)]
    return None if None in parts else (wrapped(fold([dim(p) for p in parts if p is not None]), call.ty.dtype, whole),)


def _loader(loads: Sequence[tuple[TensorType, Known | None]]) -> LoadElement:
    return lambda param, at: _load(at, *loads[param])


def _load(at: Sequence[int | Dim | None], ty: TensorType, known: Known | None) -> Dim | None:
    """An element of an argument, if index and element are known."""
    position = 0
    for index, axis in zip(at, ty.shape, strict=True):
        number, size = number_of(index), const(axis)
        if number is None or size is None or not 0 <= number < size:
            return None
        position = position * size + number
    element: Dim | None = None if known is None else known[position]
    return element
