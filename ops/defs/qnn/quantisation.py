"""Conversions between real numbers and quantised integers, as composite operators (see ``composite``).

A scale or a zero point is a scalar, or a vector with one element per index of the axis ``axis`` of the data; a tensor of the
data's rank broadcasts.
"""

from __future__ import annotations

from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.argument_checks import axis_in
from ....shape_funcs.symbolic.dim import const
from ...composition.composite import Term, along, call, cast, composite, widened
from ...core.dtype_rules import FLOATS, INTEGERS, one_of, require
from ...core.op import DTypeRule, get
from ...core.parameters import Parameter, Parameters
from ...core.tensor_types import ITEMSIZE, int_range
from ..arithmetic.elementwise import CLIP, RINT, ROUND, ClipAttrs
from ..movement.transform import SqueezeAttrs

#: The dtypes of quantised tensors.
QUANTISED = ("int8", "uint8", "int16", "uint16", "int32")


@frozen
class QuantizeAttrs:
    """``axis``: the axis of the data that corresponds to vectors of scales and zero points; ``out_dtype``: dtype of the result;
    ``ties``: the rounding of halves, ``away`` from 0 or to the ``even`` number."""

    axis: int = -1
    out_dtype: str = "int8"
    ties: Literal["away", "even"] = "away"


@frozen
class DequantizeAttrs:
    """``axis``: as in QuantizeAttrs; ``out_dtype``: dtype of the result, a float."""

    axis: int = -1
    out_dtype: str = "float32"


@frozen
class SimulatedQuantizeAttrs:
    """``axis``: as in QuantizeAttrs; ``out_dtype``: the simulated dtype, ``disable`` for none."""

    axis: int = -1
    out_dtype: Literal["disable", "int8", "uint8", "int32"] = "int8"


@frozen
class SimulatedDequantizeAttrs:
    """``axis``: as in QuantizeAttrs; ``in_dtype``: the simulated dtype, ``disable`` for none."""

    axis: int = -1
    in_dtype: Literal["disable", "int8", "uint8", "int32"] = "int8"


# ---- scales and zero points ------------------------------------------------------------------------------------------


def parameters(*names: str) -> Parameters:
    """The parameters of the Python function: a number given for a scale is a float32, for a zero point an int32."""

    def dtype(name: str) -> str:
        return "float32" if name.endswith("scale") else "int32" if name.endswith("zero_point") else ""

    return Parameters.of(*(Parameter(name, dtype=dtype(name)) for name in names))


def check_parameters(op: str, names: tuple[str, ...], dtypes: tuple[Any, ...]) -> None:
    """Raise TypeRelError unless scales are floats and zero points integers; the names of the inputs say their kinds."""
    for input, (name, given) in enumerate(zip(names, dtypes, strict=True)):
        kinds = (("scale", FLOATS), ("zero_point", INTEGERS))
        for kind in (kind for end, kind in kinds if name.rstrip("*").rstrip("s").endswith(end)):
            for dtype in given if isinstance(given, tuple) else (given,):
                require(op, dtype, kind, input, name.rstrip("*"))


def spread(op: str, value: Term, data: Term, axis: int, what: str, input: int) -> Term:
    """A scale or zero point, reshaped to broadcast to the data; a vector known to have one element is a scalar, a tensor of the
    data's rank, if that is more than 1, broadcasts as it is.

    Raises ShapeError; sizes known only at run time are checked at run time.
    """
    if data.rank:
        axis_in(axis, data.rank)
    if value.rank == 0:
        return value
    if value.rank == 1 and const(value.shape[0]) == 1:
        scalar: Term = call(get("squeeze"), value, attrs=SqueezeAttrs((0,)))
        return scalar
    if value.rank == data.rank > 1:
        return value
    return along(op, value, data, axis, what, input)


def limited(x: Term, dtype: str) -> Term:
    """Integers clipped to the range of ``dtype``, as ``dtype``."""
    low, high = int_range(dtype)
    return cast(call(CLIP, x, attrs=ClipAttrs(low, high)), dtype)


def as_quantised(x: Term, scale: Term, zero_point: Term, dtype: str, ties: str = "away") -> Term:
    """``round(x / scale) + zero_point`` clipped to the range of ``dtype``; both parameters broadcast to ``x``.

    The sum is limited before it becomes an integer: a float of 32 bits holds the numbers of 16 bits, one of 64 bits all others.
    """
    (x,) = widened(x)
    quotient = call(ROUND if ties == "away" else RINT, x / cast(scale, x.dtype))
    if ITEMSIZE[dtype] > 2:
        quotient = cast(quotient, "float64")
    low, high = int_range(dtype)
    moved = quotient + cast(zero_point, quotient.dtype)
    # a number that becomes 0: the larger one of a number and 0, which has two signs, takes a CPU two instructions
    lowest = float(low) if low else -0.25
    return cast(call(CLIP, moved, attrs=ClipAttrs(lowest, float(high))), dtype)


def as_real(x: Term, scale: Term, zero_point: Term, dtype: str = "float32") -> Term:
    """``(x - zero_point) * scale``, computed in float32 or wider; both parameters broadcast to ``x``."""
    wide = "float64" if dtype == "float64" else "float32"
    whole = cast(x, "int32") - cast(zero_point, "int32")
    return cast(cast(whole, wide) * cast(scale, wide), dtype)


# ---- the operators ---------------------------------------------------------------------------------------------------

_QUANTIZE = ("data", "output_scale", "output_zero_point")
_DEQUANTIZE = ("data", "input_scale", "input_zero_point")


def _quantize(inputs: tuple[Term, ...], attrs: QuantizeAttrs) -> Term:
    data, *rest = inputs
    scale, zero_point = (spread("qnn.quantize", t, data, attrs.axis, _QUANTIZE[n], n) for n, t in enumerate(rest, 1))
    return as_quantised(data, scale, zero_point, attrs.out_dtype, attrs.ties)


def _dequantize(inputs: tuple[Term, ...], attrs: DequantizeAttrs) -> Term:
    data, *rest = inputs
    scale, zero_point = (spread("qnn.dequantize", t, data, attrs.axis, _DEQUANTIZE[n], n) for n, t in enumerate(rest, 1))
    return as_real(data, scale, zero_point, attrs.out_dtype)


def _simulated_quantize(inputs: tuple[Term, ...], attrs: SimulatedQuantizeAttrs) -> Term:
    data, *rest = inputs
    name = "qnn.simulated_quantize"
    scale, zero_point = (spread(name, t, data, attrs.axis, _QUANTIZE[n], n) for n, t in enumerate(rest, 1))
    if attrs.out_dtype == "disable":
        return data
    (x,) = widened(data)
    moved = call(ROUND, x / cast(scale, x.dtype)) + cast(zero_point, x.dtype)
    low, high = int_range(attrs.out_dtype)
    return cast(call(CLIP, moved, attrs=ClipAttrs(float(low), float(high))), data.dtype)


def _simulated_dequantize(inputs: tuple[Term, ...], attrs: SimulatedDequantizeAttrs) -> Term:
    data, *rest = inputs
    name = "qnn.simulated_dequantize"
    scale, zero_point = (spread(name, t, data, attrs.axis, _DEQUANTIZE[n], n) for n, t in enumerate(rest, 1))
    if attrs.in_dtype == "disable":
        return data
    (x,) = widened(data)
    return cast((x - cast(zero_point, x.dtype)) * cast(scale, x.dtype), data.dtype)


def _rule(op: str, names: tuple[str, ...], own: tuple[str, ...], results: tuple[str, ...] = ()) -> DTypeRule:
    """Rule: the data has a dtype of ``own``; the result that of ``out_dtype``, one of ``results``, without these the data's."""

    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        require(op, dtypes[0], own, 0, names[0])
        check_parameters(op, names, dtypes)
        if not results:
            return str(dtypes[0])
        one_of(op, "out_dtype", attrs.out_dtype, results)
        return str(attrs.out_dtype)

    return rule


composite(
    name="qnn.quantize",
    doc="`round(data / output_scale) + output_zero_point`, clipped to the range of `out_dtype`: "
    '`qnn.quantize([0.5, -1.0], 0.5, 3, out_dtype="uint8") = [4, 1]`.',
    inputs=_QUANTIZE,
    attrs=QuantizeAttrs,
    dtype=_rule("qnn.quantize", _QUANTIZE, FLOATS, QUANTISED),
    expand=_quantize,
    python=parameters(*_QUANTIZE, "axis", "out_dtype", "ties"),
)
composite(
    name="qnn.dequantize",
    doc="`(data - input_zero_point) * input_scale`: `qnn.dequantize([4, 1], 0.5, 3) = [0.5, -1.0]`.",
    inputs=_DEQUANTIZE,
    attrs=DequantizeAttrs,
    dtype=_rule("qnn.dequantize", _DEQUANTIZE, QUANTISED, FLOATS),
    expand=_dequantize,
    python=parameters(*_DEQUANTIZE, "axis", "out_dtype"),
)
composite(
    name="qnn.simulated_quantize",
    doc="As `qnn.quantize`, the integers as floats; with `disable` the data: `qnn.simulated_quantize([0.6], 0.5, 3) = [4.0]`.",
    inputs=_QUANTIZE,
    attrs=SimulatedQuantizeAttrs,
    dtype=_rule("qnn.simulated_quantize", _QUANTIZE, FLOATS),
    expand=_simulated_quantize,
    python=parameters(*_QUANTIZE, "axis", "out_dtype"),
)
composite(
    name="qnn.simulated_dequantize",
    doc="As `qnn.dequantize` of integers that are floats; with `disable` the data: "
    "`qnn.simulated_dequantize([4.0], 0.5, 3) = [0.5]`.",
    inputs=_DEQUANTIZE,
    attrs=SimulatedDequantizeAttrs,
    dtype=_rule("qnn.simulated_dequantize", _DEQUANTIZE, FLOATS),
    expand=_simulated_dequantize,
    python=parameters(*_DEQUANTIZE, "axis", "in_dtype"),
)
