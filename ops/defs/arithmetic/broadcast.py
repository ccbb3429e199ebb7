"""Operators that combine the elements of several inputs under numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import const
from ...core.compute import Cast, Guard, Scalar, Value, apply, cast, index
from ...core.dtype_rules import BOOL, FLOATS, INTEGERS, INTEGRAL, NUMBERS, like_first, like_inputs, require_same
from ...core.input_types import vectors
from ...core.op import DTypeRule, Op, OpPattern
from ...core.tensor_types import DTYPES, is_float
from ...native.status import DIVISION_BY_ZERO
from .elementwise import floor, trunc, zero

Combine = Callable[..., Scalar]


def broadcast(value: Value, axes: Sequence[Scalar], output: Value) -> Scalar:
    """The element at ``axes`` of ``value`` broadcast to ``output``."""
    skipped = output.rank - value.rank
    at: list[Scalar] = []
    for axis, dim in enumerate(value.shape):
        wanted = output.shape[skipped + axis]
        if dim is wanted:
            at.append(axes[skipped + axis])
        elif const(dim) == 1:
            at.append(index(0))
        elif const(dim) is not None:
            at.append(axes[skipped + axis])  # a known size other than 1 equals the output's
        else:
            stays = apply("not_equal", value.size(axis), index(1), dtype="bool")
            at.append(apply("multiply", axes[skipped + axis], Cast(stays, "int64")))
    return value(*at)


def _op(name: str, doc: str, names: tuple[str, ...], combine: Combine, dtype: DTypeRule) -> Op:
    def compute(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
        return combine(*(broadcast(x, axes, output) for x in inputs))

    return Op(name=name, doc=doc, inputs=names, pattern=OpPattern.BROADCAST, dtype=dtype, compute=compute)


def _binary(name: str, doc: str, combine: Combine, supported: Sequence[str], result: str | None = None) -> Op:
    names = ("lhs", "rhs")
    return _op(name, doc, names, combine, like_inputs(name, names, supported, result))


def _function(name: str, doc: str, supported: Sequence[str] = NUMBERS) -> Op:
    """Declare an operator that applies the scalar function of the same name."""
    return _binary(name, doc, lambda x, y: apply(name, x, y), supported)


def _compare(name: str, doc: str) -> Op:
    return _binary(name, doc, lambda x, y: apply(name, x, y, dtype="bool"), DTYPES, "bool")


def _bits(name: str, doc: str, supported: Sequence[str], scalar: str) -> Op:
    return _binary(name, doc, lambda x, y: apply(scalar, x, y), supported)


# ---- arithmetic ------------------------------------------------------------------------------------------------


def _guarded(function: str, x: Scalar, y: Scalar) -> Scalar:
    """``function(x, y)`` of integers, guarded against ``y == 0``."""
    return Guard(apply("not_equal", y, zero(y.dtype), dtype="bool"), DIVISION_BY_ZERO, apply(function, x, y))


def _divide(x: Scalar, y: Scalar) -> Scalar:
    return apply("divide", x, y) if is_float(x.dtype) else _guarded("truncdiv", x, y)


def _floor_divide(x: Scalar, y: Scalar) -> Scalar:
    return floor(apply("divide", x, y)) if is_float(x.dtype) else _guarded("floordiv", x, y)


def _trunc_divide(x: Scalar, y: Scalar) -> Scalar:
    return trunc(_divide(x, y))


def _mod(x: Scalar, y: Scalar) -> Scalar:
    return apply("truncmod", x, y) if is_float(x.dtype) else _guarded("truncmod", x, y)


def _floor_mod(x: Scalar, y: Scalar) -> Scalar:
    if not is_float(x.dtype):
        return _guarded("floormod", x, y)
    return apply("floormod_of_truncmod", x, y, apply("truncmod", x, y))


ADD = _function("add", "`add([1, 2], [10]) = [11, 12]`; integers wrap.")
SUBTRACT = _function("subtract", "`subtract([1, 2], [10]) = [-9, -8]`; integers wrap.")
MULTIPLY = _function("multiply", "`multiply([1, 2], [10]) = [10, 20]`; integers wrap.")
DIVIDE = _binary(
    "divide", "`divide([7.0], [2.0]) = [3.5]`; integers round towards 0: `divide([-7], [2]) = [-3]`.", _divide, NUMBERS
)
FLOOR_DIVIDE = _binary("floor_divide", "The quotient rounded down: `floor_divide([-7], [2]) = [-4]`.", _floor_divide, NUMBERS)
TRUNC_DIVIDE = _binary(
    "trunc_divide", "The quotient rounded towards 0: `trunc_divide([-7], [2]) = [-3]`.", _trunc_divide, NUMBERS
)
_binary("mod", "The remainder with the sign of the dividend: `mod([-7], [2]) = [-1]`.", _mod, NUMBERS)
_binary("trunc_mod", "As `mod`: `trunc_mod([-7.5], [2.0]) = [-1.5]`.", _mod, NUMBERS)
_binary("floor_mod", "The remainder with the sign of the divisor: `floor_mod([-7], [2]) = [1]`.", _floor_mod, NUMBERS)
POWER = _function("power", "`power([2.0], [3.0]) = [8.0]`; floats only.", FLOATS)
MAXIMUM = _function("maximum", "The larger: `maximum([1, 5], [3]) = [3, 5]`; NaN if one is NaN.")
MINIMUM = _function("minimum", "The smaller: `minimum([1, 5], [3]) = [1, 3]`; NaN if one is NaN.")

# ---- comparison and logic -----------------------------------------------------------------------------------------

EQUAL = _compare("equal", "`equal([1, 2], [2]) = [False, True]`.")
_compare("not_equal", "`not_equal([1, 2], [2]) = [True, False]`.")
_compare("less", "`less([1, 2], [2]) = [True, False]`.")
_compare("less_equal", "`less_equal([1, 3], [2]) = [True, False]`.")
_compare("greater", "`greater([1, 3], [2]) = [False, True]`.")
_compare("greater_equal", "`greater_equal([1, 2], [2]) = [False, True]`.")
LOGICAL_AND = _bits("logical_and", "`logical_and([True, False], [True]) = [True, False]`.", BOOL, "and")
LOGICAL_OR = _bits("logical_or", "`logical_or([True, False], [False]) = [True, False]`.", BOOL, "or")
LOGICAL_XOR = _bits("logical_xor", "`logical_xor([True, False], [True]) = [False, True]`.", BOOL, "xor")
BITWISE_AND = _bits("bitwise_and", "`bitwise_and([6], [3]) = [2]`.", INTEGRAL, "and")
BITWISE_OR = _bits("bitwise_or", "`bitwise_or([6], [3]) = [7]`.", INTEGRAL, "or")
BITWISE_XOR = _bits("bitwise_xor", "`bitwise_xor([6], [3]) = [5]`.", INTEGRAL, "xor")
LEFT_SHIFT = _function(
    "left_shift", "`left_shift([1], [3]) = [8]`; 0 when all bits are shifted out or the shift is negative.", INTEGERS
)
RIGHT_SHIFT = _function("right_shift", "`right_shift([-8], [1]) = [-4]`; 0 or -1 when all bits are shifted out.", INTEGERS)

# ---- selection --------------------------------------------------------------------------------------------------------


def _where_dtype(inputs: tuple[Any, ...], attrs: Any) -> str:
    return require_same("where", inputs, (1, 2), ("condition", "x", "y"))


WHERE = _op(
    "where",
    "`x` where the condition is True, or a number other than 0, else `y`: `where([True, False], [1, 2], [3, 4]) = [1, 4]`.  Both "
    "operands are evaluated.",
    ("condition", "x", "y"),
    lambda c, x, y: apply("where", cast(c, "bool"), x, y, dtype=x.dtype),
    _where_dtype,
)

# ---- broadcasting of one input ------------------------------------------------------------------------------------


@frozen
class BroadcastToAttrs:
    """``shape``: shape of the result."""

    shape: tuple[int, ...]


@frozen
class BiasAddAttrs:
    """``axis``: the axis of the data that corresponds to the bias."""

    axis: int = 1


@frozen
class PreluAttrs:
    """``axis``: the axis of the data that corresponds to ``alpha``."""

    axis: int = 1


def first_broadcast(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
    """The ``compute`` of operators that only broadcast their first input."""
    return broadcast(inputs[0], axes, output)


def _bias_add(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: BiasAddAttrs, output: Value) -> Scalar:
    data, bias = inputs
    return data(*axes) + bias(axes[attrs.axis % output.rank])


def _prelu(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: PreluAttrs, output: Value) -> Scalar:
    data, alpha = inputs
    x = data(*axes)
    below = apply("less", x, zero(x.dtype), dtype="bool")
    return apply("where", below, x * alpha(axes[attrs.axis % output.rank]), x, dtype=x.dtype)


def _full_like(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
    return cast(inputs[1](), output.dtype)


BROADCAST_TO = Op(
    name="broadcast_to",
    doc="The data repeated to `shape`: `broadcast_to([1, 2], shape=[2, 2]) = [[1, 2], [1, 2]]`.",
    inputs=("data",),
    attrs=BroadcastToAttrs,
    pattern=OpPattern.BROADCAST,
    dtype=like_first("broadcast_to", ["data"]),
    compute=first_broadcast,
)
BROADCAST_TO_LIKE = Op(
    name="broadcast_to_like",
    doc="The data repeated to the shape of `broadcast_type`: `broadcast_to_like([1], [7, 8]) = [1, 1]`.",
    inputs=("data", "broadcast_type"),
    pattern=OpPattern.BROADCAST,
    dtype=like_first("broadcast_to_like", ["data", "broadcast_type"]),
    compute=first_broadcast,
)
BIAS_ADD = Op(
    name="nn.bias_add",
    doc="A vector added along one axis: `nn.bias_add([[1, 2]], [10, 20], axis=1) = [[11, 22]]`.",
    inputs=("data", "bias"),
    attrs=BiasAddAttrs,
    pattern=OpPattern.BROADCAST,
    dtype=like_inputs("nn.bias_add", ["data", "bias"], NUMBERS),
    compute=_bias_add,
    infer_inputs=vectors(1),
)
Op(
    name="nn.prelu",
    doc="`x` from 0 up, `alpha * x` below, `alpha` per index of one axis: `nn.prelu([[-1, -2]], [0.5, 2]) = [[-0.5, -4]]`.",
    inputs=("data", "alpha"),
    attrs=PreluAttrs,
    pattern=OpPattern.BROADCAST,
    dtype=like_inputs("nn.prelu", ["data", "alpha"], FLOATS),
    compute=_prelu,
    infer_inputs=vectors(1),
)
Op(
    name="full_like",
    doc="A tensor of the shape of `data` filled with a scalar: `full_like([1, 2], 7) = [7, 7]`.",
    inputs=("data", "fill_value"),
    pattern=OpPattern.BROADCAST,
    dtype=like_first("full_like", ["data", "fill_value"]),
    compute=_full_like,
)
