"""Shapes of the correlation of two pictures."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import as_size, need_rank, same_size
from ...symbolic.dim import Shape, dim
from ...symbolic.registry import Operand, ShapeError, register_shape_func
from .conv import SPATIAL, layout_in, sides

#: The largest displacement and window; larger ones are rejected as mistakes.
MOST_DISPLACED = 4096


def displacements(attrs: Any) -> int:
    """The number of displacements along an axis.  Raises ShapeError for attributes that are out of range."""
    layout_in(attrs.layout, ("NCHW",), "layout")
    for name, least in (("kernel_size", 1), ("max_displacement", 0), ("stride1", 1), ("stride2", 1)):
        number = getattr(attrs, name)
        if not least <= number <= MOST_DISPLACED:
            raise ShapeError(f"{name} must be from {least} to {MOST_DISPLACED}, not {number}")
    return 2 * int(attrs.max_displacement // attrs.stride2) + 1


@register_shape_func("nn.displaced_products")
def displaced_products(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """For pictures ``[N, C, H, W]``: displacements, positions, then what is averaged: channels, rows and columns of a window."""
    first, second = inputs
    need_rank(first, 4, "data1", 0)
    need_rank(second, 4, "data2", 1)
    each = displacements(attrs)
    for axis, (a, b) in enumerate(zip(first.shape, second.shape, strict=True)):
        same_size(a, b, f"axis {axis} of data1 has size {{}}, that of data2 {{}}", 1, axis)
    before, after = sides(attrs.padding, 2)
    border = 2 * (attrs.max_displacement + (attrs.kernel_size - 1) // 2)
    positions = []
    for k, size in enumerate(first.shape[2:]):
        inside = as_size(size + (before[k] + after[k] - border), f"what the borders leave along {SPATIAL[2][k]}", 0)
        positions.append((inside + (attrs.stride1 - 1)) // attrs.stride1)
    window = dim(attrs.kernel_size)
    return first.shape[0], dim(each * each), *positions, first.shape[1], window, window
