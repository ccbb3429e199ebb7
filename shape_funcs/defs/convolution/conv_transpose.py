"""Shapes of transposed convolution: the inverse of the shape function of convolution."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import need_rank, same_size
from ...symbolic.dim import Dim, Shape, dim
from ...symbolic.dim_operations import eq, le
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func
from .conv import SPATIAL, data_layouts, in_layout, layout_in, per_axis, shape_in_layout, sides


def transposed_layouts(rank: int) -> tuple[str, str]:
    """The layouts of a transposed convolution's kernel with ``rank`` spatial axes; I is the channel axis of the data."""
    return f"IO{SPATIAL[rank]}", f"{SPATIAL[rank]}OI"


def _conv_transpose(rank: int) -> None:
    @register_shape_func(f"nn.conv{rank}d_transpose")
    def conv_transpose(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
        """``(size - 1) * stride - padding + span + output_padding`` along each spatial axis, also for a size of 0."""
        data, weight = inputs
        need_rank(data, rank + 2, "the data", 0)
        need_rank(weight, rank + 2, "the weight", 1)
        data_layout = layout_in(attrs.data_layout, data_layouts(rank), "data_layout")
        kernel_layout = layout_in(attrs.kernel_layout, transposed_layouts(rank), "kernel_layout")
        out_layout = layout_in(attrs.out_layout or data_layout, data_layouts(rank), "out_layout")
        batch, channels, spatial = in_layout(data.shape, data_layout)
        given, taken, window = in_layout(weight.shape, kernel_layout)
        out_channels = _channels(channels, given, taken, attrs)
        if attrs.kernel_size is not None:
            stated = per_axis(attrs.kernel_size, rank, "kernel_size")
            message = "kernel_size says {}, the weight has {}"
            window = tuple(same_size(dim(k), own, message, 1) for k, own in zip(stated, window, strict=True))
        return shape_in_layout(batch, out_channels, _sizes(spatial, window, attrs, rank), out_layout)


def _channels(channels: Dim, given: Dim, taken: Dim, attrs: Any) -> Dim:
    """The number of output channels.  ``given``: output channels per group; ``taken``: input channels of the kernel."""
    groups = attrs.groups
    if groups < 1:
        raise ShapeError(f"groups must be at least 1, not {groups}")
    same_size(channels, taken, "the data has {} channels, the weight takes {}", 1)
    check(eq(channels % groups, 0), f"{{}} channels of the data do not make {groups} groups", channels, input=0)
    out_channels: Dim = given * groups
    if attrs.channels is not None:
        out_channels = same_size(dim(attrs.channels), out_channels, "channels says {}, the weight gives {}", 1)
    return out_channels


def _sizes(spatial: Shape, window: Shape, attrs: Any, rank: int) -> Shape:
    strides, dilation = per_axis(attrs.strides, rank, "strides"), per_axis(attrs.dilation, rank, "dilation")
    more = per_axis(attrs.output_padding, rank, "output_padding", 0)
    before, after = sides(attrs.padding, rank)
    out = []
    for k, size in enumerate(spatial):
        letter = SPATIAL[rank][k]
        check(le(1, window[k]), f"the window is empty along {letter}", input=1)
        full = (size - 1) * strides[k] + (window[k] - 1) * dilation[k] + 1 + more[k]
        none = f"along {letter} the data is empty, and a stride of {strides[k]} is longer than the window"
        check(le(0, full), none, input=0)  # true of all data for strides that are no longer
        removed = before[k] + after[k]
        check(le(removed, full), f"along {letter} the padding removes {{}} of {{}} elements", removed, full, input=0)
        out.append(full - removed)
    return tuple(out)


for _rank in SPATIAL:
    _conv_transpose(_rank)
