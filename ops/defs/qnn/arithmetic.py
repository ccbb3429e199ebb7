"""Sums, products, joins and means of quantised integers, as composite operators; results are exact before their one rounding."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, cast, composite, number
from ...core.dtype_rules import require, require_same
from ...core.op import DTypeRule, TypeRelError, get
from ..arithmetic.broadcast import WHERE
from ..convolution.conv import Numbers
from ..convolution.pool import AvgPool2dAttrs
from ..movement.transform import AxisAttrs
from .quantisation import QUANTISED, check_parameters, limited, parameters, spread
from .requantisation import RequantizeAttrs, ratio_of, requantized, rescaled


@frozen
class BinaryAttrs:
    """``lhs_axis``, ``rhs_axis``: the axis of each operand that corresponds to vectors of scales and zero points."""

    lhs_axis: int = -1
    rhs_axis: int = -1


@frozen
class LeakyReluAttrs:
    """``alpha``: the slope below 0."""

    alpha: float


@frozen
class QnnAvgPool2dAttrs:
    """As AvgPool2dAttrs, in the order and with the defaults of Relay's function."""

    pool_size: Numbers
    strides: Numbers
    padding: Numbers
    dilation: Numbers
    ceil_mode: bool = False
    count_include_pad: bool = True
    layout: str = "NHWC"
    out_layout: str = ""


def _rule(op: str, names: tuple[str, ...], same: tuple[int, ...] = (0,)) -> DTypeRule:
    """Rule: the inputs at ``same`` have one quantised dtype, which the result has, too."""

    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        dtype = require_same(op, dtypes, same, names)
        require(op, dtype, QUANTISED, 0, names[0])
        check_parameters(op, names, dtypes)
        return dtype

    return rule


# ---- two operands ----------------------------------------------------------------------------------------------------

_BINARY = (
    "lhs", "rhs", "lhs_scale", "lhs_zero_point", "rhs_scale", "rhs_zero_point", "output_scale", "output_zero_point",
)  # fmt: skip


@frozen
class _Operand:
    """An operand, its scale and its zero point, which broadcast to it."""

    data: Term
    scale: Term
    zero_point: Term

    @property
    def centred(self) -> Term:
        """The data without its zero point, as int64."""
        return cast(self.data, "int64") - cast(self.zero_point, "int64")


def _operands(op: str, inputs: tuple[Term, ...], attrs: BinaryAttrs) -> tuple[_Operand, _Operand]:
    def parameter(n: int, data: Term, axis: int) -> Term:
        return spread(op, inputs[n], data, axis, _BINARY[n], n)

    lhs, rhs = inputs[:2]
    return (
        _Operand(lhs, *(parameter(n, lhs, attrs.lhs_axis) for n in (2, 3))),
        _Operand(rhs, *(parameter(n, rhs, attrs.rhs_axis) for n in (4, 5))),
    )


def _add(inputs: tuple[Term, ...], attrs: BinaryAttrs) -> Term:
    return _sum("qnn.add", inputs, attrs, negated=False)


def _subtract(inputs: tuple[Term, ...], attrs: BinaryAttrs) -> Term:
    return _sum("qnn.subtract", inputs, attrs, negated=True)


def _sum(op: str, inputs: tuple[Term, ...], attrs: BinaryAttrs, *, negated: bool) -> Term:
    scale, zero_point = inputs[6:]
    lhs, rhs = (rescaled(o.centred, ratio_of(o.scale, scale)) for o in _operands(op, inputs, attrs))
    return limited((lhs - rhs if negated else lhs + rhs) + cast(zero_point, "int64"), inputs[0].dtype)


def _mul(inputs: tuple[Term, ...], attrs: BinaryAttrs) -> Term:
    scale, zero_point = inputs[6:]
    lhs, rhs = _operands("qnn.mul", inputs, attrs)
    ratio = ratio_of(cast(lhs.scale, "float32") * cast(rhs.scale, "float32"), scale)
    return limited(rescaled(lhs.centred * rhs.centred, ratio) + cast(zero_point, "int64"), inputs[0].dtype)


# ---- several operands ------------------------------------------------------------------------------------------------

_JOINED = ("data*", "input_scales*", "input_zero_points*", "output_scale", "output_zero_point")


def _concatenate(inputs: tuple[Any, ...], attrs: AxisAttrs) -> Term:
    fields, scales, zero_points, scale, zero_point = inputs
    for input, given in ((1, scales), (2, zero_points)):
        if len(given) != len(fields):
            text = f"{_JOINED[input].rstrip('*')} has {len(given)} fields, but data has {len(fields)}"
            raise ShapeError(text, input=input)
    same = RequantizeAttrs(out_dtype=fields[0].dtype)
    parts = tuple(
        requantized("qnn.concatenate", (x, s, z, scale, zero_point), same)
        for x, s, z in zip(fields, scales, zero_points, strict=True)
    )
    joined: Term = call(get("concatenate"), parts, attrs=attrs)
    return joined


def _concatenate_rule(dtypes: tuple[Any, ...], attrs: AxisAttrs) -> str:
    fields = dtypes[0]
    if not fields:
        raise TypeRelError("qnn.concatenate: the tuple is empty; it needs at least one tensor", input=0)
    if len(set(fields)) > 1:
        raise TypeRelError(f"qnn.concatenate: the fields have several dtypes: {', '.join(fields)}", input=0)
    require("qnn.concatenate", fields[0], QUANTISED, 0, "field 0 of data")
    check_parameters("qnn.concatenate", _JOINED, dtypes)
    return str(fields[0])


# ---- one operand -----------------------------------------------------------------------------------------------------

_SCALED = ("input_scale", "input_zero_point", "output_scale", "output_zero_point")
_LEAKY, _POOLED = ("x", *_SCALED), ("data", *_SCALED)


def _leaky_relu(inputs: tuple[Term, ...], attrs: LeakyReluAttrs) -> Term:
    """Relay's two steps: ``alpha * x + (1 - alpha) * zero_point`` below the zero point, each rounded; then requantized."""
    x, zero_point = (cast(t, "int64") for t in (inputs[0], inputs[2]))
    slope, rest = (number(value, "float64") for value in (attrs.alpha, 1 - attrs.alpha))
    below = rescaled(x, slope) + rescaled(zero_point, rest)
    leaky = call(WHERE, call(get("less"), x, zero_point), below, x)
    return requantized("qnn.leaky_relu", (leaky, *inputs[1:]), RequantizeAttrs(out_dtype=inputs[0].dtype))


def _leaky_rule(dtypes: tuple[Any, ...], attrs: LeakyReluAttrs) -> str | tuple[str, ...]:
    if not 0 <= attrs.alpha <= 1:
        raise TypeRelError(f"qnn.leaky_relu: alpha is {attrs.alpha}; it must be at least 0 and at most 1")
    return _rule("qnn.leaky_relu", _LEAKY)(dtypes, attrs)


def _avg_pool2d(inputs: tuple[Term, ...], attrs: QnnAvgPool2dAttrs) -> Term:
    """The mean of the data without its zero point, rounded towards 0, requantized: padding is the real number 0."""
    data, scale, zero_point, *output = inputs
    centred = cast(data, "int32") - cast(zero_point, "int32")
    pooled = call(get("nn.avg_pool2d"), centred, attrs=AvgPool2dAttrs(**vars(attrs)))
    terms = (pooled, scale, number(0, "int32"), *output)
    return requantized("qnn.avg_pool2d", terms, RequantizeAttrs(out_dtype=data.dtype))


# ---- the operators ---------------------------------------------------------------------------------------------------

for _name, _text, _expand, _example in (
    ("add", "the sum", _add, "qnn.add([4], [2], 0.5, 0, 1.0, 0, 0.5, 1) = [9]"),
    ("subtract", "the difference", _subtract, "qnn.subtract([4], [2], 0.5, 0, 1.0, 0, 0.5, 1) = [1]"),
    ("mul", "the product", _mul, "qnn.mul([4], [2], 0.5, 0, 1.0, 0, 0.5, 1) = [9]"),
):
    composite(
        name=f"qnn.{_name}",
        doc=f"Of two quantised tensors {_text}, quantised, under numpy's broadcasting: `{_example}`.",
        inputs=_BINARY,
        attrs=BinaryAttrs,
        dtype=_rule(f"qnn.{_name}", _BINARY, (0, 1)),
        expand=_expand,
        python=parameters(*_BINARY, "lhs_axis", "rhs_axis"),
    )
composite(
    name="qnn.concatenate",
    doc="Quantised tensors joined along an axis, each requantized to the scale and zero point of the result: "
    "`qnn.concatenate(([4], [2]), (0.5, 1.0), (0, 0), 0.5, 1, axis=0) = [5, 5]`.",
    inputs=_JOINED,
    attrs=AxisAttrs,
    dtype=_concatenate_rule,
    expand=_concatenate,
    python=parameters(*(name.rstrip("*") for name in _JOINED), "axis"),
)
composite(
    name="qnn.leaky_relu",
    doc="`nn.leaky_relu` of a quantised tensor, quantised: `qnn.leaky_relu([4, -4], 1.0, 0, 1.0, 0, alpha=0.5) = [4, -2]`.",
    inputs=_LEAKY,
    attrs=LeakyReluAttrs,
    dtype=_leaky_rule,
    expand=_leaky_relu,
    python=parameters("x", "alpha", *_SCALED),
)
composite(
    name="qnn.avg_pool2d",
    doc="`nn.avg_pool2d` of a quantised tensor, each mean rounded towards 0, requantized.",
    inputs=_POOLED,
    attrs=QnnAvgPool2dAttrs,
    dtype=_rule("qnn.avg_pool2d", _POOLED),
    expand=_avg_pool2d,
    python=parameters(*_POOLED, *QnnAvgPool2dAttrs.__dataclass_fields__),
)
