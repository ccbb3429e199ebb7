"""Integers of one scale and zero point as integers of others: products with fixed-point numbers, exact in int64."""

from __future__ import annotations

from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ...composition.composite import Term, call, cast, composite, number
from ...core.dtype_rules import INTEGERS, one_of, require
from ...core.op import get
from ..arithmetic.broadcast import BITWISE_AND, BITWISE_OR, LEFT_SHIFT, MAXIMUM, MINIMUM, RIGHT_SHIFT, WHERE
from ..arithmetic.elementwise import FLOOR, ROUND, CastAttrs
from .quantisation import QUANTISED, check_parameters, limited, parameters, spread

Rounding = Literal["None", "UPWARD", "TONEAREST"]


@frozen
class RequantizeAttrs:
    """``axis``: the axis of the data that corresponds to vectors of scales and zero points; ``rounding``: of halves,
    ``UPWARD`` to the larger number (so does ``None``), ``TONEAREST`` away from 0; ``compute_dtype``: ``float32`` for a product
    of floats, all others are exact; ``out_dtype``: dtype of the result."""

    axis: int = -1
    rounding: Rounding = "None"
    compute_dtype: Literal["None", "int32", "int64", "float32"] = "None"
    out_dtype: str = "int8"


#: Bits of a float64's fraction, and of the significand of a fixed-point number.
_FRACTION, _BITS = 52, 31
#: The largest shift to the right of a product of 32 and 31 bits that needs a rounding term.
_LARGEST_SHIFT = 63


def fixed_point(ratio: Term) -> tuple[Term, Term]:
    """``(significand, shift)`` of positive float64 numbers: each is ``significand / 2 ** shift``, rounded to 31 bits.

    Both are int64.  The shift is 1 to 63; a number below 2**-33, which takes any int32 to less than a half, is 0.
    """
    bits = call(get("reinterpret"), ratio, attrs=CastAttrs("int64"))
    exponent = call(RIGHT_SHIFT, bits, number(_FRACTION, "int64")) - (1 << 10) + 2
    ones = number((1 << _FRACTION) - 1, "int64")
    fraction = call(BITWISE_OR, call(BITWISE_AND, bits, ones), number(1 << _FRACTION, "int64"))
    dropped = _FRACTION + 1 - _BITS
    significand: Term = call(RIGHT_SHIFT, fraction + (1 << (dropped - 1)), number(dropped, "int64"))
    shift = call(MAXIMUM, -exponent + _BITS, number(1, "int64"))
    is_small = call(get("greater"), shift, number(_LARGEST_SHIFT, "int64"))
    significand = call(WHERE, is_small, number(0, "int64"), significand)
    return significand, call(MINIMUM, shift, number(_LARGEST_SHIFT, "int64"))


def scaled(x: Term, significand: Term, shift: Term, rounding: Rounding = "None") -> Term:
    """``x * significand / 2 ** shift`` of int64 numbers, rounded to a whole number."""
    half: Term = call(LEFT_SHIFT, number(1, "int64"), shift - 1)
    if rounding == "TONEAREST":
        half = half - cast(call(get("less"), x, number(0, "int64")), "int64")
    result: Term = call(RIGHT_SHIFT, x * significand + half, shift)
    return result


def ratio_of(input_scale: Term, output_scale: Term) -> Term:
    """``input_scale / output_scale`` of the two numbers as float32, in float64."""
    first, second = (cast(cast(t, "float32"), "float64") for t in (input_scale, output_scale))
    return first / second


def rescaled(x: Term, ratio: Term, rounding: Rounding = "None") -> Term:
    """Integers times positive float64 numbers, as int64; ``ratio`` broadcasts to ``x``."""
    return scaled(cast(x, "int64"), *fixed_point(ratio), rounding)


def _rescaled_as_floats(x: Term, ratio: Term, rounding: Rounding) -> Term:
    product = cast(x, "float32") * cast(ratio, "float32")
    return cast(call(ROUND, product) if rounding == "TONEAREST" else call(FLOOR, product + 0.5), "int64")


_INPUTS = ("data", "input_scale", "input_zero_point", "output_scale", "output_zero_point")


def requantized(op: str, inputs: tuple[Term, ...], attrs: RequantizeAttrs) -> Term:
    """``qnn.requantize`` within the composite operator ``op``, whose inputs these are."""
    data, *rest = inputs
    spreads = [spread(op, t, data, attrs.axis, _INPUTS[n], n) for n, t in enumerate(rest, 1)]
    input_scale, input_zero_point, output_scale, output_zero_point = spreads
    x: Term = cast(data, "int64") - cast(input_zero_point, "int64")
    ratio, rounding = ratio_of(input_scale, output_scale), attrs.rounding
    x = _rescaled_as_floats(x, ratio, rounding) if attrs.compute_dtype == "float32" else rescaled(x, ratio, rounding)
    return limited(x + cast(output_zero_point, "int64"), attrs.out_dtype)


def _requantize(inputs: tuple[Term, ...], attrs: RequantizeAttrs) -> Term:
    return requantized("qnn.requantize", inputs, attrs)


def _rule(dtypes: tuple[Any, ...], attrs: RequantizeAttrs) -> str:
    require("qnn.requantize", dtypes[0], INTEGERS, 0, "data")
    check_parameters("qnn.requantize", _INPUTS, dtypes)
    one_of("qnn.requantize", "out_dtype", attrs.out_dtype, QUANTISED)
    return attrs.out_dtype


composite(
    name="qnn.requantize",
    doc="`round((data - input_zero_point) * input_scale / output_scale) + output_zero_point`, clipped to the range of "
    "`out_dtype`; the quotient of the scales is rounded to 31 bits, the product is exact: "
    "`qnn.requantize([8, -3], 0.5, 0, 1.0, 1) = [5, 0]`.",
    inputs=_INPUTS,
    attrs=RequantizeAttrs,
    dtype=_rule,
    expand=_requantize,
    python=parameters(*_INPUTS, "axis", "rounding", "compute_dtype", "out_dtype"),
)
