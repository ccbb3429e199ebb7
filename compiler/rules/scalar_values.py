"""Values of scalar expressions, of an operator's ``compute``, whose indices and operands are numbers or Dims.

The functions are those of integers and conditions.  A condition on sizes is the Dim that is 1 where it holds, else 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...ops.core.compute import Apply, Axis, Cast, Guard, Literal, Load, Scalar, Select, Size, Value
from ...ops.core.tensor_types import ITEMSIZE, TensorType, TupleType, Type, is_float
from ...shape_funcs.symbolic.dim import INT, Dim, const, dim
from ...shape_funcs.symbolic.dim_operations import eq, lt, max_, min_, not_, where
from ...shape_funcs.symbolic.int_operations import INT64_MAX

#: The depth of the deepest size expressions that are compared.
MAX_DEPTH = 8
#: The dtypes that hold every size.
WHOLE = ("int64",)
#: ``(input, index) -> element``; None for an element that is not known.
LoadElement = Callable[[int, Sequence[int | Dim | None]], int | Dim | None]
#: Functions of Dims.  Sums, differences and products equal the kernel's for all sizes: wrapping commutes with them.
_FUNCTIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "minimum": min_,
    "maximum": max_,
    "equal": eq,
    "not_equal": lambda a, b: not_(eq(a, b)),
    "less": lt,
    "greater": lambda a, b: lt(b, a),
    "greater_equal": lambda a, b: not_(lt(a, b)),
    "less_equal": lambda a, b: not_(lt(b, a)),
}
#: Functions for which wrapping makes a difference: a kernel compares the wrapped sums and products of sizes.
_COMPARING = _FUNCTIONS.keys() - {"add", "subtract", "multiply"}
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


def numbered_value(ty: Type | None, given: Any, loads: list[tuple[TensorType, Any]]) -> Any:
    """The Value of an argument, a tuple of Values for a tuple; each of its tensors is appended to ``loads`` beside its ``given``.

    ``given``: the fact that the caller keeps of a tensor; for a tuple a sequence of the fields' facts, or None.
    """
    if isinstance(ty, TupleType):
        each = given if given is not None else (None,) * len(ty.fields)
        return tuple(numbered_value(t, g, loads) for t, g in zip(ty.fields, each, strict=True))
    assert isinstance(ty, TensorType)
    number, dtype = len(loads), ty.dtype
    loads.append((ty, given))
    return Value(dtype, ty.shape, number, lambda at: Load(number, at, dtype))


def wrapped(value: int | Dim | None, dtype: str, whole: Collection[str] = WHOLE) -> Dim | None:
    """``value`` as an element of ``dtype``; an expression that is no number is an element of the dtypes ``whole`` only."""
    found = _in_dtype(value, dtype, whole)
    return dim(found) if isinstance(found, int) else found


def _in_dtype(value: int | Dim | None, dtype: str, whole: Collection[str]) -> int | Dim | None:
    """``wrapped`` with numbers as ints: most elements, and all indices, are numbers."""
    number = number_of(value)
    if number is None:
        assert not isinstance(value, int)
        is_condition = dtype == "bool" and value is not None and value.depth <= MAX_DEPTH and _range(value) == (0, 1)
        return value if is_condition or dtype in whole else None
    if dtype == "bool":
        return int(number != 0)
    bits = 8 * ITEMSIZE[dtype]
    number &= (1 << bits) - 1
    return number - (1 << bits) if not dtype.startswith("u") and number >> (bits - 1) else number


def evaluate(
    scalar: Scalar, at: Sequence[int | Dim], load: LoadElement, whole: Collection[str] = WHOLE, exact: Collection[Dim] = ()
) -> int | Dim | None:
    """The value of ``scalar`` for the element at ``at`` of the result, each index a number or a Dim; None if it is not known.

    ``load``: the element of an input, by the input's number and the index.  ``whole``: the dtypes that are taken to hold every
    size.  ``exact``: expressions that are known not to wrap in int64.
    """

    def of(part: Scalar) -> int | Dim | None:
        if isinstance(part, Axis):
            return at[part.number]
        if isinstance(part, Literal):
            return None if isinstance(part.value, float) else int(part.value)
        if isinstance(part, Load):
            return load(part.param, [of(i) for i in part.index])
        if isinstance(part, Size):
            return part.dim
        if isinstance(part, Cast):
            return None if is_float(part.dtype) or is_float(part.value.dtype) else _in_dtype(of(part.value), part.dtype, whole)
        if isinstance(part, Guard):
            return of(part.value) if number_of(of(part.condition)) else None
        if isinstance(part, Select) or (isinstance(part, Apply) and part.function == "where"):
            condition, then, otherwise = _operands(part)
            is_so = of(condition)
            chosen = number_of(is_so)
            if chosen is not None:
                return of(then if chosen else otherwise)
            return _either(is_so, of(then), of(otherwise))
        if isinstance(part, Apply):
            return None if is_float(part.args[0].dtype) else _apply(part, [of(a) for a in part.args], whole, exact)
        return None

    return of(scalar)


def _either(condition: int | Dim | None, then: int | Dim | None, otherwise: int | Dim | None) -> Dim | None:
    """The element that an unknown condition selects, as an expression; None if a part of it is not known."""
    return None if condition is None or then is None or otherwise is None else where(dim(condition), dim(then), dim(otherwise))


def _operands(part: Select | Apply) -> Sequence[Scalar]:
    return part.args if isinstance(part, Apply) else (part.condition, part.then, part.otherwise)


def number_of(value: int | Dim | None) -> int | None:
    """The number that ``value`` is; None for another Dim, or none."""
    return value if value is None or isinstance(value, int) else const(value)


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


def _apply(
    part: Apply, args: Sequence[int | Dim | None], whole: Collection[str] = WHOLE, exact: Collection[Dim] = ()
) -> int | Dim | None:
    """A function of known arguments, in its dtype."""
    if len(args) != 2:
        return None
    a, b = args
    if a is None or b is None:
        return None
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None and part.function in _OF_NUMBERS:
        return _in_dtype(_OF_NUMBERS[part.function](x, y), part.dtype, whole)
    if part.function in _COMPARING and not all(x in exact or _cannot_wrap(x) for x in (dim(a), dim(b))):
        return None
    if part.function in _FUNCTIONS:
        return _in_dtype(_FUNCTIONS[part.function](dim(a), dim(b)), part.dtype, whole)
    return None
