"""Known elements of small integer tensors: of shapes that a program takes apart and assembles.

An element is known as a Dim: the elements of ``shape_of`` a ``Tensor[(?n, 4), float32]`` are ``n`` and 4.  Other operators are
evaluated by their own ``compute`` expressions for each element of the result, so every operator that moves or computes integers
(``take``, ``strided_slice``, ``concatenate``, ``add`` ...) is covered.  An element is unknown if an element that it depends on is
unknown, or if its expression uses a function without an entry here.  A condition on sizes is known as the Dim that is 1 where it
holds, else 0.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...ops.core.compute import Apply, Axis, Cast, Guard, Literal, Load, Scalar, Select, Size, Value
from ...ops.core.op import Op, OpPattern
from ...ops.core.tensor_types import ITEMSIZE, TensorType, TupleType, Type, is_float, tensors
from ...ops.defs.movement.transform import ShapeOfAttrs
from ...shape_funcs.symbolic.dim import INT, Dim, const, dim, is_static, product, total
from ...shape_funcs.symbolic.dim_operations import eq, lt, max_, min_, not_, where
from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ..ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, type_of

#: The most elements of a tensor that is analysed: shapes have fewer.
MAX_ELEMENTS = 64
#: The depth of the deepest size expressions that are compared.
MAX_DEPTH = 8
#: The dtypes that hold every size.
WHOLE = ("int64",)
#: The elements of a tensor, row-major, None for an unknown element; for a tuple, the elements of its fields.
Known = tuple[Any, ...]


def _unless_wrapping(relation: Callable[[Dim, Dim], Dim]) -> Callable[[Dim, Dim], Dim | None]:
    """The relation, or None if its operands may wrap in int64: a kernel compares the wrapped sums and products of sizes."""
    return lambda a, b: relation(a, b) if _cannot_wrap(a) and _cannot_wrap(b) else None


#: Functions of Dims.  Sums, differences and products equal the kernel's for all sizes: wrapping commutes with them.
_FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim | None]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "minimum": _unless_wrapping(min_),
    "maximum": _unless_wrapping(max_),
    "equal": _unless_wrapping(eq),
    "not_equal": _unless_wrapping(lambda a, b: not_(eq(a, b))),
    "less": _unless_wrapping(lt),
    "greater": _unless_wrapping(lambda a, b: lt(b, a)),
    "greater_equal": _unless_wrapping(lambda a, b: not_(lt(a, b))),
    "less_equal": _unless_wrapping(lambda a, b: not_(lt(b, a))),
}
#: Functions of numbers only.  Zero divisors are guarded.
_OF_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a // b if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
    "truncdiv": lambda a, b: (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else 0,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    # those of Dims, for numbers
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "minimum": min,
    "maximum": max,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "less_equal": operator.le,
}
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
                return tuple(_wrapped(d, value.attrs.dtype, self.whole) for d in shape.shape)
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
        loads: list[tuple[TensorType, Known | None]] = []
        inputs = tuple(_value(a.ty, known, loads) for a, known in zip(call.args, given, strict=True))
        if len(loads) > MAX_ELEMENTS:
            return None
        if op.reduction is not None:
            return _reduced(call, op, inputs, loads, self.whole)
        types = tensors(type_of(call))
        outputs = tuple(Value(t.dtype, t.shape, len(loads) + k) for k, t in enumerate(types))
        results = []
        for k, ty in enumerate(types):
            axes = tuple(Axis(a) for a in range(ty.rank))
            element = op.compute(inputs, axes, call.attrs, outputs if isinstance(call.ty, TupleType) else outputs[0])
            element = element[k] if isinstance(element, tuple) else element
            at_each = (_evaluate(element, at, loads, self.whole) for at in _indices(ty))
            results.append(tuple(_wrapped(e, ty.dtype, self.whole) for e in at_each))
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


def _value(ty: Type | None, known: Known | None, loads: list[tuple[TensorType, Known | None]]) -> Any:
    """The Value of an argument (a tuple of them for a tuple); its known elements are appended to ``loads``."""
    if isinstance(ty, TupleType):
        each = known if known is not None else (None,) * len(ty.fields)
        return tuple(_value(t, k, loads) for t, k in zip(ty.fields, each, strict=True))
    assert isinstance(ty, TensorType)
    number, dtype = len(loads), ty.dtype
    loads.append((ty, known))
    return Value(dtype, ty.shape, number, lambda at: Load(number, at, dtype))


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
    parts = [_evaluate(element, at, loads, whole) for at in _indices(source)]
    return None if None in parts else (_wrapped(fold([dim(p) for p in parts if p is not None]), call.ty.dtype, whole),)


# ---- scalar expressions ----------------------------------------------------------------------------------------------


def _wrapped(value: int | Dim | None, dtype: str, whole: Collection[str] = WHOLE) -> Dim | None:
    """``value`` as an element of ``dtype``; an expression that is no number is an element of the dtypes ``whole`` only."""
    found = _in_dtype(value, dtype, whole)
    return dim(found) if isinstance(found, int) else found


def _in_dtype(value: int | Dim | None, dtype: str, whole: Collection[str]) -> int | Dim | None:
    """``_wrapped`` with numbers as ints: most elements, and all indices, are numbers."""
    number = _number(value)
    if number is None:
        assert not isinstance(value, int)
        is_condition = dtype == "bool" and value is not None and value.depth <= MAX_DEPTH and _range(value) == (0, 1)
        return value if is_condition or dtype in whole else None
    if dtype == "bool":
        return int(number != 0)
    bits = 8 * ITEMSIZE[dtype]
    number &= (1 << bits) - 1
    return number - (1 << bits) if not dtype.startswith("u") and number >> (bits - 1) else number


def _evaluate(
    scalar: Scalar, at: tuple[int, ...], loads: Sequence[tuple[TensorType, Known | None]], whole: Collection[str] = WHOLE
) -> int | Dim | None:
    """The value of ``scalar`` for the element at ``at`` of the result."""

    def of(part: Scalar) -> int | Dim | None:
        if isinstance(part, Axis):
            return at[part.number]
        if isinstance(part, Literal):
            return None if isinstance(part.value, float) else int(part.value)
        if isinstance(part, Load):
            return _load([of(i) for i in part.index], *loads[part.param])
        if isinstance(part, Size):
            return part.dim
        if isinstance(part, Cast):
            return None if is_float(part.dtype) or is_float(part.value.dtype) else _in_dtype(of(part.value), part.dtype, whole)
        if isinstance(part, Guard):
            return of(part.value) if _number(of(part.condition)) else None
        if isinstance(part, Select) or (isinstance(part, Apply) and part.function == "where"):
            condition, then, otherwise = _operands(part)
            is_so = of(condition)
            chosen = _number(is_so)
            if chosen is not None:
                return of(then if chosen else otherwise)
            return _either(is_so, of(then), of(otherwise))
        if isinstance(part, Apply):
            return None if is_float(part.args[0].dtype) else _apply(part, [of(a) for a in part.args], whole)
        return None

    return of(scalar)


def _either(condition: int | Dim | None, then: int | Dim | None, otherwise: int | Dim | None) -> Dim | None:
    """The element that an unknown condition selects, as an expression; None if a part of it is not known."""
    return None if condition is None or then is None or otherwise is None else where(dim(condition), dim(then), dim(otherwise))


def _operands(part: Select | Apply) -> Sequence[Scalar]:
    return part.args if isinstance(part, Apply) else (part.condition, part.then, part.otherwise)


def _number(value: int | Dim | None) -> int | None:
    return value if value is None or isinstance(value, int) else const(value)


def _load(at: Sequence[int | Dim | None], ty: TensorType, known: Known | None) -> Dim | None:
    """An element of an argument, if index and element are known."""
    position = 0
    for index, axis in zip(at, ty.shape, strict=True):
        number, size = _number(index), const(axis)
        if number is None or size is None or not 0 <= number < size:
            return None
        position = position * size + number
    element: Dim | None = None if known is None else known[position]
    return element


def _cannot_wrap(d: Dim) -> bool:
    """Whether ``d`` equals its value in int64 arithmetic for all sizes in it."""
    if d.depth > MAX_DEPTH:
        return False
    low, high = _range(d)
    # a number is already an element of a dtype, perhaps uint64
    return d.op == INT or (low >= -INT64_MAX - 1 and high <= INT64_MAX)


def _range(d: Dim) -> tuple[float, float]:
    """The least and the greatest value of ``d``; a size is any int64 from 0."""
    match d.op:
        case "int":
            return d.args[0], d.args[0]
        case "sym" if d.nonneg:
            return 0, INT64_MAX
        case "eq" | "lt":
            return 0, 1
        case "where":
            (low, high), (low2, high2) = map(_range, d.args[1:])
            return min(low, low2), max(high, high2)
        case "min" | "max":
            choose = min if d.op == "min" else max
            (low, high), (low2, high2) = map(_range, d.args)
            return choose(low, low2), choose(high, high2)
        case "poly":
            low = high = 0
            for coefficient, atoms in d.args:
                least, most = coefficient, coefficient
                for ends in map(_range, atoms):
                    products = [x * y if y else 0 for x in (least, most) for y in ends]
                    least, most = min(products), max(products)
                low, high = low + least, high + most
            return low, high
    return -math.inf, math.inf


def _apply(part: Apply, args: Sequence[int | Dim | None], whole: Collection[str] = WHOLE) -> int | Dim | None:
    """A function of known arguments, in its dtype."""
    if len(args) != 2:
        return None
    a, b = args
    if a is None or b is None:
        return None
    x, y = _number(a), _number(b)
    if x is not None and y is not None and part.function in _OF_NUMBERS:
        return _in_dtype(_OF_NUMBERS[part.function](x, y), part.dtype, whole)
    if part.function in _FUNCTIONS:
        return _in_dtype(_FUNCTIONS[part.function](dim(a), dim(b)), part.dtype, whole)
    return None
