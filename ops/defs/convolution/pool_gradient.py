"""Gradients of pooling with respect to the data.

An element's gradient is the sum of its shares in the windows that contain the element.  Along an axis these are at most
``pool_size / strides``, rounded up.
"""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import per_axis, sides
from ...composition.composite import Term, call, cast, composite, number, widened
from ...core.compute import Cast, Literal, Scalar, Select, Value, apply, index
from ...core.dtype_rules import FLOATS, INDICES, NUMBERS, like_inputs, require, require_same
from ...core.op import Op, OpPattern, get
from ...core.tensor_types import computed_in, is_float
from ..axes.reduce import SUM, ArgReduceAttrs, ReduceAttrs
from ..movement.blocked_layouts import plain, relaid
from ..movement.indexing import as_index
from ..movement.pad import PadAttrs
from .conv import Numbers

_NCHW = "NCHW"


@frozen
class PoolPortionsAttrs:
    """``pool_size``, ``strides``, ``padding``, ``ceil_mode``: those of the pooling, over the last two axes."""

    pool_size: Numbers = 1
    strides: Numbers = 1
    padding: Numbers = 0
    ceil_mode: bool = False


@frozen
class AvgPoolPortionsAttrs(PoolPortionsAttrs):
    """As PoolSharesAttrs; ``count_include_pad``: whether the mean includes the padding."""

    count_include_pad: bool = False


@frozen
class MaxPool2dGradAttrs:
    """The attributes of the pooling: ``out_layout``: the layout of ``out_grad``, "" for that of the data."""

    pool_size: Numbers = 1
    strides: Numbers = 1
    padding: Numbers = 0
    layout: str = _NCHW
    out_layout: str = ""
    ceil_mode: bool = False


@frozen
class AvgPool2dGradAttrs(MaxPool2dGradAttrs):
    """As MaxPool2dGradAttrs; ``count_include_pad``: whether the mean includes the padding, as zeros."""

    count_include_pad: bool = False


# ---- the shares ----------------------------------------------------------------------------------------------------------


@frozen
class _Window:
    """Along an axis, the window that contains an element: its number, the element's position in it, its number of elements
    inside the data, and whether there is such a window."""

    number: Scalar
    position: Scalar
    inside: Scalar
    exists: Scalar


def _window(attrs: PoolPortionsAttrs, k: int, at: Scalar, number: Scalar, windows: Scalar, size: Scalar) -> _Window:
    """The window that begins as the ``number``-th last before element ``at``."""
    stride, length = per_axis(attrs.strides, 2, "strides")[k], per_axis(attrs.pool_size, 2, "pool_size")[k]
    before = sides(attrs.padding, 2)[0][k]
    window = apply("floordiv", at + before, index(stride)) - number
    start = window * stride - before
    position = at - start
    inside = apply("minimum", start + length, size) - apply("maximum", start, index(0))
    exists = apply("and", apply("and", window >= 0, window < windows), position < length)
    return _Window(window, position, inside, exists)


def _both(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: PoolPortionsAttrs) -> tuple[_Window, _Window]:
    gradient, data = inputs[:2]
    rows, columns = (_window(attrs, k, axes[2 + k], axes[4 + k], gradient.size(2 + k), data.size(2 + k)) for k in range(2))
    return rows, columns


def _avg_portions(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: AvgPoolPortionsAttrs, output: Value) -> Scalar:
    rows, columns = _both(inputs, axes, attrs)
    dtype = computed_in(output.dtype)
    found = inputs[0](*axes[:2], rows.number, columns.number)
    height, width = per_axis(attrs.pool_size, 2, "pool_size")
    count = index(height * width) if attrs.count_include_pad else rows.inside * columns.inside
    share = apply("divide", found if found.dtype == dtype else Cast(found, dtype), Cast(count, dtype))
    share = share if dtype == output.dtype else Cast(share, output.dtype)
    return Select(apply("and", rows.exists, columns.exists), share, Literal(0.0, output.dtype))


def _max_portions(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: PoolPortionsAttrs, output: Value) -> Scalar:
    rows, columns = _both(inputs, axes, attrs)
    gradient, _, largest = inputs
    at = (*axes[:2], rows.number, columns.number)
    own = rows.position * per_axis(attrs.pool_size, 2, "pool_size")[1] + columns.position
    zero = Literal(0.0 if is_float(output.dtype) else 0, output.dtype)
    share = Select(apply("equal", as_index(largest(*at)), own, dtype="bool"), gradient(*at), zero)
    return Select(apply("and", rows.exists, columns.exists), share, zero)


def _max_portions_rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
    name, names = "nn.max_pool2d_portions", ("out_grad", "data", "largest")
    require(name, dtypes[2], INDICES, 2, names[2])
    dtype = require_same(name, dtypes, (0, 1), names)
    require(name, dtype, NUMBERS, 0, names[0])  # of any bits: elements are chosen, so halves move as words
    return dtype


Op(
    name="nn.avg_pool2d_portions",
    doc="For each element the share of the gradient of each window that contains the element, 0 where there is no window: "
    "`nn.avg_pool2d_portions([[[[2.0, 4.0]]]], [[[[0.0, 0.0, 0.0]]]], pool_size=[1, 2])[0, 0, 0] = "
    "[[[1.0, 0.0]], [[2.0, 1.0]], [[0.0, 2.0]]]`.",
    inputs=("out_grad", "data"),
    attrs=AvgPoolPortionsAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=like_inputs("nn.avg_pool2d_portions", ("out_grad", "data"), FLOATS),
    compute=_avg_portions,
)
Op(
    name="nn.max_pool2d_portions",
    doc="For each element the gradient of each window whose largest element is this, 0 for others; `largest`: the position in "
    "each window: `nn.max_pool2d_portions([[[[2.0, 4.0]]]], [[[[0.0, 0.0, 0.0]]]], [[[[1, 0]]]], pool_size=[1, 2])[0, 0, 0] = "
    "[[[0.0, 0.0]], [[4.0, 2.0]], [[0.0, 0.0]]]`.",
    inputs=("out_grad", "data", "largest"),
    attrs=PoolPortionsAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_max_portions_rule,
    compute=_max_portions,
)


# ---- their sums ----------------------------------------------------------------------------------------------------------


def _in_nchw(inputs: tuple[Term, Term], attrs: MaxPool2dGradAttrs) -> tuple[Term, ...]:
    for layout, what in ((attrs.layout, "layout"), (attrs.out_layout or attrs.layout, "out_layout")):
        plain(layout, what)
    gradient = relaid(inputs[0], attrs.out_layout or attrs.layout, _NCHW)
    return widened(gradient, relaid(inputs[1], attrs.layout, _NCHW))


def _gathered(portions: Term, inputs: tuple[Term, Term], attrs: MaxPool2dGradAttrs) -> Term:
    summed = cast(call(SUM, portions, attrs=ReduceAttrs((4, 5))), inputs[1].dtype)
    return relaid(summed, _NCHW, attrs.layout)


def _avg_pool2d_grad(inputs: tuple[Term, Term], attrs: AvgPool2dGradAttrs) -> Term:
    own = AvgPoolPortionsAttrs(attrs.pool_size, attrs.strides, attrs.padding, attrs.ceil_mode, attrs.count_include_pad)
    return _gathered(call(get("nn.avg_pool2d_portions"), *_in_nchw(inputs, attrs), attrs=own), inputs, attrs)


def _max_pool2d_grad(inputs: tuple[Term, Term], attrs: MaxPool2dGradAttrs) -> Term:
    gradient, data = _in_nchw(inputs, attrs)
    window, strides = per_axis(attrs.pool_size, 2, "pool_size"), per_axis(attrs.strides, 2, "strides")
    before, after = sides(attrs.padding, 2)
    extra = [stride - 1 if attrs.ceil_mode else 0 for stride in strides]
    width = ((0, 0), (0, 0), *((before[k], after[k] + extra[k]) for k in range(2)))
    padded = call(get("nn.pad"), data, number(-float("inf"), data.dtype), attrs=PadAttrs(width))
    sliding = get("sliding_window")
    windows = call(sliding, padded, attrs=sliding.attrs(2, window, strides))
    largest = call(get("argmax"), windows, attrs=ArgReduceAttrs((4, 5)))
    own = PoolPortionsAttrs(attrs.pool_size, attrs.strides, attrs.padding, attrs.ceil_mode)
    return _gathered(call(get("nn.max_pool2d_portions"), gradient, data, largest, attrs=own), inputs, attrs)


composite(
    name="nn.avg_pool2d_grad",
    doc="The gradient of `nn.avg_pool2d` with respect to the data, from that of the result: "
    "`nn.avg_pool2d_grad([[[[2.0, 4.0]]]], [[[[0.0, 0.0, 0.0]]]], pool_size=[1, 2]) = [[[[1.0, 3.0, 2.0]]]]`.",
    inputs=("out_grad", "data"),
    attrs=AvgPool2dGradAttrs,
    dtype=like_inputs("nn.avg_pool2d_grad", ("out_grad", "data"), FLOATS),
    expand=_avg_pool2d_grad,
)
composite(
    name="nn.max_pool2d_grad",
    doc="The gradient of `nn.max_pool2d` with respect to the data, from that of the result; the first of equal elements has it: "
    "`nn.max_pool2d_grad([[[[2.0, 4.0]]]], [[[[0.0, 5.0, 1.0]]]], pool_size=[1, 2]) = [[[[0.0, 6.0, 0.0]]]]`.",
    inputs=("out_grad", "data"),
    attrs=MaxPool2dGradAttrs,
    dtype=like_inputs("nn.max_pool2d_grad", ("out_grad", "data"), FLOATS),
    expand=_max_pool2d_grad,
)
