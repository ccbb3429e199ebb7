"""Elementwise operators of one input."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...core.compute import Cast, Literal, Scalar, Value, apply
from ...core.dtype_rules import BOOL, FLOATS, INTEGRAL, NUMBERS, from_attr, like_inputs
from ...core.op import DTypeRule, NoAttrs, Op, OpPattern, TypeRelError
from ...core.tensor_types import DTYPES, int_range, is_float

Body = Callable[[Scalar], Scalar]


def _op(
    name: str, doc: str, body: Callable[[Scalar, Any], Scalar], dtype: DTypeRule, attrs: type = NoAttrs,
    inputs: tuple[str, ...] = ("data",),
) -> Op:  # fmt: skip
    def compute(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
        return body(inputs[0](*axes), attrs)

    return Op(name=name, doc=doc, inputs=inputs, pattern=OpPattern.ELEMWISE, dtype=dtype, attrs=attrs, compute=compute)


def _unary(name: str, doc: str, body: Body, supported: Sequence[str], result: str | None = None) -> Op:
    return _op(name, doc, lambda x, attrs: body(x), like_inputs(name, ["data"], supported, result))


def _function(name: str, doc: str, supported: Sequence[str] = FLOATS, scalar: str | None = None) -> Op:
    """Declare an operator that applies the scalar function ``scalar``, by default the function of the same name."""
    return _unary(name, doc, lambda x: apply(scalar or name, x), supported)


def literal(value: float | int | bool, like: Scalar) -> Scalar:
    """The constant in the dtype of ``like``."""
    return Literal(float(value) if is_float(like.dtype) else value, like.dtype)


# ---- arithmetic ------------------------------------------------------------------------------------------------


def _absolute(x: Scalar) -> Scalar:
    return x if x.dtype.startswith("u") else apply("abs", x)


def _sign(x: Scalar) -> Scalar:
    positive, negative = apply("greater", x, literal(0, x), dtype="bool"), apply("less", x, literal(0, x), dtype="bool")
    # the last alternative is x itself: 0, or NaN
    return apply("where", positive, literal(1, x), choose_negative(negative, x), dtype=x.dtype)


def choose_negative(negative: Scalar, x: Scalar) -> Scalar:
    """-1 if ``negative``, else ``x``; always ``x`` for a dtype without -1."""
    return x if x.dtype.startswith("u") else apply("where", negative, literal(-1, x), x, dtype=x.dtype)


ABS = _unary(
    "abs", "The absolute value: `abs([-2, 3]) = [2, 3]`.  The smallest signed integer stays as it is.", _absolute, NUMBERS
)
SIGN = _unary("sign", "-1, 0 or 1: `sign([-2.5, 0, 3]) = [-1, 0, 1]`; NaN stays NaN.", _sign, NUMBERS)
NEGATIVE = _function("negative", "`negative([1, -2]) = [-1, 2]`; unsigned integers wrap.", NUMBERS)

# ---- functions of real numbers -----------------------------------------------------------------------------------

EXP = _function("exp", "`exp([0, 1]) = [1, 2.71828]`.")
LOG = _function("log", "The natural logarithm: `log([1, 2.71828]) = [0, 1]`; -inf at 0, NaN below.")
_function("log2", "The logarithm to base 2: `log2([1, 8]) = [0, 3]`.")
_function("log10", "The logarithm to base 10: `log10([1, 100]) = [0, 2]`.")
SQRT = _function("sqrt", "The square root: `sqrt([4, 9]) = [2, 3]`; NaN below 0.")
RSQRT = _unary(
    "rsqrt", "`1 / sqrt(x)`: `rsqrt([4]) = [0.5]`.", lambda x: apply("divide", literal(1, x), apply("sqrt", x)), FLOATS
)
_function("sin", "The sine of radians: `sin([0]) = [0]`.")
_function("cos", "The cosine of radians: `cos([0]) = [1]`.")
_function("tan", "The tangent of radians: `tan([0]) = [0]`.")
_function("sinh", "The hyperbolic sine: `sinh([0]) = [0]`.")
_function("cosh", "The hyperbolic cosine: `cosh([0]) = [1]`.")
_function("tanh", "The hyperbolic tangent: `tanh([0]) = [0]`.")
_function("asin", "The inverse sine: `asin([1]) = [1.5708]`; NaN outside [-1, 1].")
_function("acos", "The inverse cosine: `acos([1]) = [0]`; NaN outside [-1, 1].")
_function("atan", "The inverse tangent: `atan([1]) = [0.7854]`.")
_function("asinh", "The inverse hyperbolic sine: `asinh([1]) = [0.8814]`.")
_function("acosh", "The inverse hyperbolic cosine: `acosh([2]) = [1.317]`; NaN below 1.")
_function("atanh", "The inverse hyperbolic tangent: `atanh([0.5]) = [0.5493]`; infinite at -1 and 1, NaN outside.")
_function("erf", "The error function: `erf([0]) = [0]`.")
_function("sigmoid", "`1 / (1 + exp(-x))`: `sigmoid([0]) = [0.5]`.")
# Relay's approximations: here the exact functions
_function("fast_exp", "As `exp`, exactly: `fast_exp([0, 1]) = [1, 2.71828]`.", scalar="exp")
_function("fast_tanh", "As `tanh`, exactly: `fast_tanh([0]) = [0]`.", scalar="tanh")
_function("fast_erf", "As `erf`, exactly: `fast_erf([0]) = [0]`.", scalar="erf")

# ---- rounding: the identity on integers --------------------------------------------------------------------------


def trunc(x: Scalar) -> Scalar:
    """``x`` rounded towards 0."""
    return apply("trunc", x) if is_float(x.dtype) else x


def floor(x: Scalar) -> Scalar:
    """The largest integer not above ``x``."""
    return apply("floor_of_trunc", x, trunc(x)) if is_float(x.dtype) else x


def _ceil(x: Scalar) -> Scalar:
    return apply("ceil_of_trunc", x, trunc(x)) if is_float(x.dtype) else x


def round_away(x: Scalar) -> Scalar:
    """The nearest whole number, halves away from 0, as Relay rounds."""
    return trunc(apply("away_by_almost_half", x)) if is_float(x.dtype) else x


FLOOR = _unary("floor", "The next whole number below: `floor([-1.5, 1.5]) = [-2, 1]`.", floor, NUMBERS)
CEIL = _unary("ceil", "The next whole number above: `ceil([-1.5, 1.5]) = [-1, 2]`.", _ceil, NUMBERS)
TRUNC = _unary("trunc", "The fraction dropped: `trunc([-1.5, 1.5]) = [-1, 1]`.", trunc, NUMBERS)
ROUND = _unary(
    "round", "The nearest whole number, halves away from 0: `round([0.5, 2.5, -0.5]) = [1, 3, -1]`.", round_away, NUMBERS
)
RINT = _unary(
    "rint",
    "The nearest whole number, halves to the even one: `rint([0.5, 1.5, -0.5]) = [0, 2, -0]`.",
    lambda x: apply("round", x) if is_float(x.dtype) else x,
    NUMBERS,
)

# ---- logic and bits ----------------------------------------------------------------------------------------------

LOGICAL_NOT = _function("logical_not", "`logical_not([True, False]) = [False, True]`.", BOOL)
BITWISE_NOT = _unary(
    "bitwise_not",
    "Every bit flipped: `bitwise_not([0, 5]) = [-1, -6]`; of a bool: its opposite.",
    lambda x: apply("logical_not" if x.dtype == "bool" else "bitwise_not", x),
    INTEGRAL,
)
_unary("isnan", "`isnan([1, nan]) = [False, True]`.", lambda x: apply("not_equal", x, x, dtype="bool"), FLOATS, "bool")
_unary("isinf", "`isinf([1, -inf]) = [False, True]`.", lambda x: apply("isinf", x, dtype="bool"), FLOATS, "bool")
ISFINITE = _unary(
    "isfinite", "`isfinite([1, inf, nan]) = [True, False, False]`.", lambda x: apply("isfinite", x, dtype="bool"), FLOATS, "bool"
)

# ---- activations ---------------------------------------------------------------------------------------------------


@frozen
class LeakyReluAttrs:
    """``alpha``: the slope below 0."""

    alpha: float = 0.05


def _leaky_relu(x: Scalar, attrs: LeakyReluAttrs) -> Scalar:
    below = apply("less", x, literal(0, x), dtype="bool")
    return apply("where", below, x * literal(attrs.alpha, x), x, dtype=x.dtype)


RELU = _unary("nn.relu", "`nn.relu([-1, 2]) = [0, 2]`; NaN stays NaN.", lambda x: apply("maximum", x, literal(0, x)), NUMBERS)
_op(
    "nn.leaky_relu",
    "`x` above 0, `alpha * x` below: `nn.leaky_relu([-1, 2], alpha=0.5) = [-0.5, 2]`.",
    _leaky_relu,
    like_inputs("nn.leaky_relu", ["data"], FLOATS),
    LeakyReluAttrs,
)

# ---- conversions and constants ---------------------------------------------------------------------------------------


@frozen
class CastAttrs:
    """``dtype``: dtype of the result."""

    dtype: str


@frozen
class ClipAttrs:
    """``a_min``, ``a_max``: inclusive bounds.  For integer data they are rounded inwards and clipped to the dtype's range."""

    a_min: float
    a_max: float


def _clip(x: Scalar, attrs: ClipAttrs) -> Scalar:
    low, high = (_bound(b, x.dtype, up) for b, up in ((attrs.a_min, True), (attrs.a_max, False)))
    return apply("minimum", apply("maximum", x, Literal(low, x.dtype)), Literal(high, x.dtype))


def _clip_dtype(inputs: tuple[Any, ...], attrs: ClipAttrs) -> str:
    dtype = like_inputs("clip", ["a"], NUMBERS)(inputs, attrs)
    assert isinstance(dtype, str)
    for name, bound in (("a_min", attrs.a_min), ("a_max", attrs.a_max)):
        if math.isnan(bound) and not is_float(dtype):
            raise TypeRelError(f"{name} is NaN, which is no bound of {dtype}")
    return dtype


def _bound(bound: float, dtype: str, up: bool) -> float | int:
    if is_float(dtype):
        return float(bound)
    smallest, largest = int_range(dtype)
    if math.isinf(bound):
        return largest if bound > 0 else smallest
    return min(max(math.ceil(bound) if up else math.floor(bound), smallest), largest)


CAST = _op(
    "cast",
    'The elements in another dtype: `cast([1.7, -1.7], dtype="int32") = [1, -1]`.',
    lambda x, attrs: x if x.dtype == attrs.dtype else Cast(x, attrs.dtype),
    from_attr("cast"),
    CastAttrs,
)
CLIP = _op(
    "clip",
    "Limited to [a_min, a_max]: `clip([-1, 5], a_min=0, a_max=3) = [0, 3]`; NaN stays NaN.",
    _clip,
    _clip_dtype,
    ClipAttrs,
    ("a",),
)
COPY = _unary("copy", "The same elements in a new tensor: `copy([1, 2]) = [1, 2]`.", lambda x: x, DTYPES)
ZEROS_LIKE = _unary(
    "zeros_like", "Zeros of the same shape and dtype: `zeros_like([1, 2]) = [0, 0]`.", lambda x: zero(x.dtype), DTYPES
)
ONES_LIKE = _unary("ones_like", "Ones of the same shape and dtype: `ones_like([4, 2]) = [1, 1]`.", lambda x: one(x.dtype), DTYPES)


def zero(dtype: str) -> Scalar:
    """0 (or False) in ``dtype``."""
    return Literal(False if dtype == "bool" else 0.0 if is_float(dtype) else 0, dtype)


def one(dtype: str) -> Scalar:
    """1 (or True) in ``dtype``."""
    return Literal(True if dtype == "bool" else 1.0 if is_float(dtype) else 1, dtype)
