"""Normalisation as composite operators (see ``composite``); float16 and bfloat16 are computed in float32 throughout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import data_layouts
from ....shape_funcs.symbolic.argument_checks import axes_in, axis_in, need_rank
from ....shape_funcs.symbolic.dim_operations import eq
from ....shape_funcs.symbolic.registry import ShapeError, check
from ...composition.composite import Term, along, call, cast, composite, equal_sizes, number, widened
from ...core.dtype_rules import FLOATS, like_inputs
from ...core.input_types import vectors
from ...core.op import DTypeRule, get
from ...core.tensor_types import DTYPES, HALVES
from ..arithmetic.broadcast import MAXIMUM, POWER
from ..arithmetic.elementwise import ONES_LIKE, RSQRT, SQRT
from ..axes.reduce import MEAN, SUM, VARIANCE, ReduceAttrs
from ..convolution.pool import AvgPool1dAttrs
from ..movement.transform import ExpandDimsAttrs, ReshapeAttrs, SliceAttrs
from ..products.nn import SoftmaxAttrs


@frozen
class LayerNormAttrs:
    """``axis``: the normalised axis, which corresponds to gamma and beta; ``epsilon``: added to the variance; ``center``: whether
    beta is added; ``scale``: whether gamma multiplies."""

    axis: int = -1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@frozen
class ChannelNormAttrs(LayerNormAttrs):
    """``axis``: the axis of the channels, which corresponds to the vectors; ``epsilon``: added to the variance; ``center``:
    whether beta is added; ``scale``: whether gamma multiplies."""

    axis: int = 1


@frozen
class GroupNormAttrs:
    """As ChannelNormAttrs; ``num_groups``: number of groups of channels."""

    num_groups: int
    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


@frozen
class L2NormalizeAttrs:
    """``eps``: lower bound of the sum of squares in the divisor; ``axis``: the summed axes, None for all."""

    eps: float
    axis: int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.axis, int):
            object.__setattr__(self, "axis", (self.axis,))


@frozen
class LrnAttrs:
    """``size``: odd size of the window along ``axis``; ``bias``, ``alpha``, ``beta``: see the operator."""

    size: int = 5
    axis: int = 1
    bias: float = 2.0
    alpha: float = 1e-5
    beta: float = 0.75


@frozen
class DropoutAttrs:
    """``rate``: the fraction of elements dropped in training; without effect in inference."""

    rate: float = 0.5


Inputs = tuple[Term, ...]
_BATCH = ("data", "gamma", "beta", "moving_mean", "moving_var")


def _normalised(x: Term, axes: tuple[int, ...], epsilon: float) -> Term:
    """``(x - mean) / sqrt(variance + epsilon)`` with mean and variance over ``axes``."""
    over = ReduceAttrs(axes, keepdims=True)
    away = x - call(MEAN, x, attrs=over)
    normalised: Term = away * call(RSQRT, call(VARIANCE, x, attrs=over) + epsilon)
    return normalised


def _scaled(op: str, x: Term, inputs: Inputs, attrs: LayerNormAttrs | GroupNormAttrs) -> Term:
    """``x * gamma + beta``, each if enabled in ``attrs``, in the dtype of the data.

    Sizes are checked on the inputs themselves: the operands of a check cannot be inside a fused kernel.
    """
    data, gamma, beta = inputs
    if attrs.scale:
        x = x * widened(along(op, gamma, data, attrs.axis, "gamma", 1))[0]
    if attrs.center:
        x = x + widened(along(op, beta, data, attrs.axis, "beta", 2))[0]
    return cast(x, data.dtype)


def _layer_norm(inputs: Inputs, attrs: LayerNormAttrs) -> Term:
    (data,) = widened(inputs[0])
    x = _normalised(data, (axis_in(attrs.axis, data.rank),), attrs.epsilon)
    return _scaled("nn.layer_norm", x, inputs, attrs)


def _instance_norm(inputs: Inputs, attrs: ChannelNormAttrs) -> Term:
    (data,) = widened(inputs[0])
    need_rank(data.operand, 2, "the data", 0, at_least=True)
    channels = _channels(data, attrs.axis)
    x = _normalised(data, tuple(a for a in range(1, data.rank) if a != channels), attrs.epsilon)
    return _scaled("nn.instance_norm", x, inputs, attrs)


def _channels(data: Term, axis: int) -> int:
    """The axis of the channels as a nonnegative index.  Raises ShapeError if it is the axis of the batch."""
    channels = axis_in(axis, data.rank)
    if channels == 0:
        raise ShapeError("axis 0 is that of the batch; the channels lie along another")
    return channels


def _group_norm(inputs: Inputs, attrs: GroupNormAttrs) -> Term:
    (data,) = inputs[:1]
    need_rank(data.operand, 2, "the data", 0, at_least=True)
    channels = _channels(data, attrs.axis)
    size, groups = data.shape[channels], attrs.num_groups
    if groups < 1:
        raise ShapeError(f"num_groups is {groups}; it must be at least 1")
    check(eq(size % groups, 0), f"axis {channels} of the data has size {{}}, not a multiple of {groups} groups", size, input=0)
    split = ReshapeAttrs((*(0,) * channels, -4, groups, -1, -2))
    (x,) = widened(call(get("reshape"), data, attrs=split))
    x = _normalised(x, tuple(a for a in range(1, x.rank) if a != channels), attrs.epsilon)
    x = call(get("reshape_like"), x, data)
    return _scaled("nn.group_norm", x, inputs, attrs)


def _batch_norm(inputs: Inputs, attrs: ChannelNormAttrs) -> tuple[Term, ...]:
    data, *vectors = inputs
    # the vectors are combined first: if they are constants, so are the scale and the shift
    need_rank(vectors[3].operand, 1, _BATCH[4], 4)
    same = (_as_long(v, vectors[3], n) for n, v in enumerate(vectors[:3], 1))
    gamma, beta, mean, variance = widened(*same, vectors[3])
    scale = call(RSQRT, variance + attrs.epsilon)
    scale = scale * gamma if attrs.scale else scale
    shift = -mean * scale
    shift = shift + beta if attrs.center else shift
    scale, shift = (along("nn.batch_norm", v, data, attrs.axis, _BATCH[4], 4) for v in (scale, shift))
    return cast(widened(data)[0] * scale + shift, data.dtype), inputs[3], inputs[4]


def _as_long(vector: Term, variance: Term, input: int) -> Term:
    """Input ``input`` of batch_norm, checked to have as many elements as the variance."""
    what = _BATCH[input]
    need_rank(vector.operand, 1, what, input)
    return equal_sizes(vector, 0, variance, 0, f"nn.batch_norm: {what} has {{}} elements, but {_BATCH[4]} has {{}}", input)


def _l2_normalize(inputs: Inputs, attrs: L2NormalizeAttrs) -> Term:
    (data,) = widened(*inputs)
    if attrs.axis is not None:
        axes_in(attrs.axis, data.rank)
    squares = call(SUM, data * data, attrs=ReduceAttrs(attrs.axis, keepdims=True))
    length = call(SQRT, call(MAXIMUM, squares, number(attrs.eps, data.dtype)))
    if inputs[0].dtype in HALVES:  # one division for all elements: the product in float32 has bits to spare
        return cast(data * (number(1.0, data.dtype) / length), inputs[0].dtype)
    return cast(data / length, inputs[0].dtype)


def _lrn(inputs: Inputs, attrs: LrnAttrs) -> Term:
    (data,) = widened(*inputs)
    axis = axis_in(attrs.axis, data.rank)
    if attrs.size < 1:
        raise ShapeError(f"size is {attrs.size}; it must be at least 1")
    x, half = _three_axes(data, axis), attrs.size // 2
    # one more window than channels, so that there is a window even without channels
    window = AvgPool1dAttrs(attrs.size, padding=(half, attrs.size - half), layout=data_layouts(1)[1], count_include_pad=True)
    means = call(get("nn.avg_pool1d"), x * x, attrs=window)
    means = call(get("strided_slice"), means, attrs=SliceAttrs((0,), (-1,), axes=(1,)))
    x = x / call(POWER, means * attrs.alpha + attrs.bias, number(attrs.beta, data.dtype))
    return cast(call(get("reshape_like"), x, data), inputs[0].dtype)


def _three_axes(x: Term, axis: int) -> Term:
    """``x`` reshaped to three axes: the axes before ``axis`` merged, ``axis``, the axes after it merged."""
    expand, reshape = get("expand_dims"), get("reshape")
    if axis == 0:
        x, axis = call(expand, x, attrs=ExpandDimsAttrs(0)), 1
    while axis > 1:
        x, axis = call(reshape, x, attrs=ReshapeAttrs((-3, -2))), axis - 1
    while x.rank > 3:
        x = call(reshape, x, attrs=ReshapeAttrs((0, 0, -3, -2)))
    return x if x.rank == 3 else call(expand, x, attrs=ExpandDimsAttrs(2))


def _dropout(inputs: Inputs, attrs: DropoutAttrs) -> tuple[Term, ...]:
    (data,) = inputs
    if not 0 <= attrs.rate < 1:
        raise ShapeError(f"rate is {attrs.rate}; it must be at least 0 and less than 1")
    return data, call(ONES_LIKE, data)


def _fast_softmax(inputs: Inputs, attrs: Any) -> Term:
    softmax: Term = call(get("nn.softmax"), *inputs, attrs=attrs)
    return softmax


def _norm(name: str, doc: str, expand: Callable[..., Any], attrs: type) -> None:
    inputs = ("data", "gamma", "beta")
    dtype = like_inputs(name, inputs, FLOATS)
    composite(name=name, doc=doc, inputs=inputs, attrs=attrs, dtype=dtype, expand=expand, infer_inputs=vectors(2))


def _several(rule: DTypeRule, count: int) -> DTypeRule:
    """Rule for a tuple of ``count`` results, each with the dtype of ``rule``."""

    def each(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, ...]:
        dtype = rule(dtypes, attrs)
        assert isinstance(dtype, str)
        return (dtype,) * count

    return each


_norm(
    "nn.layer_norm",
    "`(x - mean) / sqrt(variance + epsilon) * gamma + beta`, mean and variance over one axis: "
    "`nn.layer_norm([[1.0, 3.0]], [1.0, 1.0], [0.0, 0.0], epsilon=0.0) = [[-1.0, 1.0]]`.",
    _layer_norm,
    LayerNormAttrs,
)
_norm(
    "nn.instance_norm",
    "As `nn.layer_norm`, mean and variance over all axes but the first and that of the channels: "
    "`nn.instance_norm([[[1.0, 3.0]]], [2.0], [0.5], epsilon=0.0) = [[[-1.5, 2.5]]]`.",
    _instance_norm,
    ChannelNormAttrs,
)
_norm(
    "nn.group_norm",
    "As `nn.instance_norm`, mean and variance over a group of channels, too: "
    "`nn.group_norm([[1.0, 3.0]], [1.0, 1.0], [0.0, 0.0], num_groups=1, epsilon=0.0) = [[-1.0, 1.0]]`.",
    _group_norm,
    GroupNormAttrs,
)
composite(
    name="nn.batch_norm",
    doc="As in inference: `(x - moving_mean) / sqrt(moving_var + epsilon) * gamma + beta` per channel, and the two moving "
    "vectors as they are: `nn.batch_norm([[3.0]], [2.0], [1.0], [2.0], [1.0], epsilon=0.0) = ([[3.0]], [2.0], [1.0])`.",
    inputs=_BATCH,
    attrs=ChannelNormAttrs,
    dtype=_several(like_inputs("nn.batch_norm", _BATCH, FLOATS), 3),
    expand=_batch_norm,
    infer_inputs=vectors(4),
)
composite(
    name="nn.l2_normalize",
    doc="`x / sqrt(max(sum(x * x), eps))`: `nn.l2_normalize([3.0, 4.0], eps=0.0) = [0.6, 0.8]`.",
    inputs=("data",),
    attrs=L2NormalizeAttrs,
    dtype=like_inputs("nn.l2_normalize", ["data"], FLOATS),
    expand=_l2_normalize,
)
composite(
    name="nn.lrn",
    doc="`x / (bias + alpha / size * s) ** beta`, `s` the sum of squares over the `size` channels around it, of an even number "
    "one more before than after it: "
    "`nn.lrn([[2.0]], size=1, bias=0.0, alpha=1.0, beta=0.5) = [[1.0]]`.",
    inputs=("data",),
    attrs=LrnAttrs,
    dtype=like_inputs("nn.lrn", ["data"], FLOATS),
    expand=_lrn,
)
composite(
    name="nn.dropout",
    doc="As in inference: the data as it is, and a mask of ones, which Python's `relay.nn.dropout` leaves out: "
    "`nn.dropout([1.0, 2.0]) = ([1.0, 2.0], [1.0, 1.0])`.",
    inputs=("data",),
    attrs=DropoutAttrs,
    dtype=_several(like_inputs("nn.dropout", ["data"], DTYPES), 2),
    expand=_dropout,
)
composite(
    name="nn.fast_softmax",
    doc="As `nn.softmax`, exactly: `nn.fast_softmax([0.0, 0.0]) = [0.5, 0.5]`.",
    inputs=("data",),
    attrs=SoftmaxAttrs,
    dtype=like_inputs("nn.fast_softmax", ["data"], FLOATS),
    expand=_fast_softmax,
)
