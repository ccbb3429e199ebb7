"""Deformable convolution: each element of a window is taken beside its place, by an offset of its own.

The elements of all windows are columns, sampled linearly; a convolution with windows of one element multiplies them with the
weight.
"""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import data_layouts, kernel_layouts, layout_in, per_axis, sides
from ....shape_funcs.symbolic.argument_checks import need_rank
from ....shape_funcs.symbolic.dim import const
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, cast, composite, number
from ...core.compute import Scalar, Value, apply, index
from ...core.dtype_rules import FLOATS, one_of, require, require_same
from ...core.op import DTypeRule, Op, OpPattern, get
from ..convolution.conv import Conv2dAttrs, Numbers
from ..movement.blocked_layouts import relaid
from ..movement.transform import ExpandDimsAttrs, ReshapeAttrs
from .grid_sample import SampledAxis, sum_of_taps
from .interpolation import accumulation_dtype, as_number, clamp, position, stored


@frozen
class DeformableColumnsAttrs:
    """``kernel_size``: of a window; ``strides``, ``padding``, ``dilation``: as of a convolution; ``deformable_groups``: number of
    groups of channels with offsets of their own."""

    kernel_size: Numbers
    strides: Numbers = 1
    padding: Numbers = 0
    dilation: Numbers = 1
    deformable_groups: int = 1


@frozen
class DeformableConv2dAttrs:
    """As Conv2dAttrs; ``deformable_groups``: number of groups of channels with offsets of their own."""

    strides: Numbers = 1
    padding: Numbers = 0
    dilation: Numbers = 1
    deformable_groups: int = 1
    groups: int = 1
    channels: int | None = None
    kernel_size: Numbers | None = None
    data_layout: str = data_layouts(2)[0]
    kernel_layout: str = kernel_layouts(2)[0]
    out_layout: str = ""
    out_dtype: str = ""


def _columns(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: DeformableColumnsAttrs, output: Value) -> Scalar:
    data, offset, mask = inputs
    batch, column, *place = axes
    kernel, groups = per_axis(attrs.kernel_size, 2, "kernel_size"), attrs.deformable_groups
    elements = kernel[0] * kernel[1]
    channel, element = apply("floordiv", column, index(elements)), apply("floormod", column, index(elements))
    slot = element
    if groups > 1:
        slot = apply("floordiv", channel, apply("floordiv", data.size(1), index(groups))) * elements + element
    window = apply("floordiv", element, index(kernel[1])), apply("floormod", element, index(kernel[1]))
    strides, dilation = per_axis(attrs.strides, 2, "strides"), per_axis(attrs.dilation, 2, "dilation")
    taps = []
    for k in range(2):
        size = data.size(2 + k)
        begin = place[k] * strides[k] - sides(attrs.padding, 2)[0][k] + window[k] * dilation[k]
        at = position(begin) + position(offset(batch, slot * 2 + k, *place))
        # far outside and NaN become places just outside
        at = clamp(at, position(-4), position(size) + position(4))
        taps.append(SampledAxis(size, "zeros", True).taps(at, "bilinear"))
    compute = accumulation_dtype(data.dtype, output.dtype)
    found = sum_of_taps(data, [batch, channel], taps, None, compute)
    scale = as_number(mask(batch, slot, *place) if mask.rank else mask(), compute)
    return stored(found * scale, output.dtype)


_COLUMNS = ("data", "offset", "mask")


def _columns_rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
    for n, name in enumerate(_COLUMNS):
        require("nn.deformable_im2col", dtypes[n], FLOATS, n, name)
    return str(dtypes[0])


COLUMNS = Op(
    name="nn.deformable_im2col",
    doc="The elements of the windows of a deformable convolution, times their factors in the mask, which may be a scalar: "
    "`[batch, channels * elements of a window, rows, columns]`. `offset` has for each element of a window its offsets along "
    "rows and columns; outside the data is 0.",
    inputs=_COLUMNS,
    attrs=DeformableColumnsAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_columns_rule,
    compute=_columns,
)


def _convolved(inputs: tuple[Term, Term, Term, Term], attrs: DeformableConv2dAttrs) -> Term:
    data, offset, mask, weight = inputs
    need_rank(data.operand, 4, "the data", 0)
    need_rank(offset.operand, 4, "the offsets", 1)
    need_rank(weight.operand, 4, "the weight", 3 if mask.rank else 2)
    layout = layout_in(attrs.data_layout, data_layouts(2), "data_layout")
    out_layout = layout_in(attrs.out_layout or layout, data_layouts(2), "out_layout")
    plain, plain_kernel = data_layouts(2)[0], kernel_layouts(2)[0]
    data, offset = (relaid(t, layout, plain) for t in (data, offset))
    mask = relaid(mask, layout, plain) if mask.rank else mask
    weight = relaid(weight, layout_in(attrs.kernel_layout, kernel_layouts(2), "kernel_layout"), plain_kernel)
    given = {name: getattr(attrs, name) for name in ("strides", "padding", "dilation", "deformable_groups")}
    columns = call(COLUMNS, data, offset, mask, attrs=DeformableColumnsAttrs(_window(attrs, weight), **given))
    reshape = get("reshape")
    flat = call(reshape, call(reshape, weight, attrs=ReshapeAttrs((0, -3, -2))), attrs=ReshapeAttrs((0, -3)))
    flat = call(get("expand_dims"), flat, attrs=ExpandDimsAttrs(2, 2))
    of_one = Conv2dAttrs(groups=attrs.groups, channels=attrs.channels, out_dtype=attrs.out_dtype)
    return relaid(call(get("nn.conv2d"), columns, cast(flat, columns.dtype), attrs=of_one), plain, out_layout)


def _window(attrs: DeformableConv2dAttrs, weight: Term) -> tuple[int, int]:
    """The sizes of a window, stated or those of the weight.  Raises ShapeError if both are known only at run time, or differ."""
    known = [const(d) for d in weight.shape[2:]]
    stated = known if attrs.kernel_size is None else list(per_axis(attrs.kernel_size, 2, "kernel_size"))
    if None in stated:
        raise ShapeError("kernel_size must be stated if the sizes of the weight are known at run time only")
    for size, own in zip(stated, known, strict=True):
        if own not in (None, size):
            raise ShapeError(f"kernel_size says {size}, the weight has {own}")
    rows, columns = stated
    assert rows is not None and columns is not None
    return rows, columns


def _rule(op: str, names: tuple[str, ...]) -> DTypeRule:
    def rule(dtypes: tuple[Any, ...], attrs: DeformableConv2dAttrs) -> str:
        own = require_same(op, dtypes, range(len(names)), names)
        require(op, own, FLOATS, 0, names[0])
        if attrs.out_dtype:
            one_of(op, "out_dtype", attrs.out_dtype, FLOATS)
        return attrs.out_dtype or own

    return rule


def _plain(inputs: tuple[Term, Term, Term], attrs: DeformableConv2dAttrs) -> Term:
    data, offset, weight = inputs
    return _convolved((data, offset, number(1.0, data.dtype), weight), attrs)


for _name, _names, _expand, _text in (
    ("nn.deformable_conv2d", ("data", "offset", "weight"), _plain, ""),
    ("nn.modulated_deformable_conv2d", (*_COLUMNS, "weight"), _convolved, ", times its factor in `mask`"),
):
    composite(
        name=_name,
        doc="Convolution over 2 spatial axes, where each element of a window is taken beside its place, by the offsets along "
        f"rows and columns in `offset[N, 2 * groups * elements of a window, rows, columns]`, interpolated linearly{_text}.",
        inputs=_names,
        attrs=DeformableConv2dAttrs,
        dtype=_rule(_name, _names),
        expand=_expand,
    )
