"""Shape of the elements that deformable windows take from an image."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import need_rank, same_size
from ...symbolic.dim import Shape, dim
from ...symbolic.dim_operations import eq
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func
from ..convolution.conv import per_axis, sides, window_positions


@register_shape_func("nn.deformable_im2col")
def deformable_im2col(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """``(batch, channels * elements of a window, rows, columns)``; the offsets and the mask have one window per result."""
    data, offset, mask = inputs
    need_rank(data, 4, "the data", 0)
    need_rank(offset, 4, "the offsets", 1)
    kernel, groups = per_axis(attrs.kernel_size, 2, "kernel_size"), attrs.deformable_groups
    if groups < 1:
        raise ShapeError(f"deformable_groups is {groups}; it must be at least 1")
    batch, channels, *spatial = data.shape
    text = f"axis 1 of the data has size {{}}, not a multiple of {groups} deformable groups"
    check(eq(channels % groups, 0), text, channels, input=0)
    strides, dilation = per_axis(attrs.strides, 2, "strides"), per_axis(attrs.dilation, 2, "dilation")
    before, after = sides(attrs.padding, 2)
    found = tuple(
        window_positions(size, before[k] + after[k], dim(kernel[k]), dilation[k], strides[k], letter)
        for k, (size, letter) in enumerate(zip(spatial, "HW", strict=True))
    )
    elements = kernel[0] * kernel[1]
    for n, what, x, count in ((1, "the offsets", offset, 2 * groups * elements), (2, "the mask", mask, groups * elements)):
        if n == 2 and x.rank == 0:
            continue
        need_rank(x, 4, what, n)
        for axis, size in enumerate((batch, dim(count), *found)):
            same_size(x.shape[axis], size, f"axis {axis} of {what} has size {{}}, it must be {{}}", n, axis)
    return (batch, channels * elements, *found)
