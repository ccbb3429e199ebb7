"""Shapes of the gradients of pooling."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import need_rank, same_size
from ...symbolic.dim import Shape, dim
from ...symbolic.registry import Operand, register_shape_func
from .conv import SPATIAL, per_axis, sides, window_positions


def _portions(gradient: Operand, data: Operand, attrs: Any) -> Shape:
    """Per element of the data ``[N, C, H, W]`` the windows that may contain the element, by rows and columns.

    The gradient has one element per window.
    """
    need_rank(gradient, 4, "out_grad", 0)
    need_rank(data, 4, "the data", 1)
    window, strides = per_axis(attrs.pool_size, 2, "pool_size"), per_axis(attrs.strides, 2, "strides")
    before, after = sides(attrs.padding, 2)
    found = [
        window_positions(size, before[k] + after[k], dim(window[k]), 1, strides[k], SPATIAL[2][k], attrs.ceil_mode)
        for k, size in enumerate(data.shape[2:])
    ]
    for axis, (given, wanted) in enumerate(zip(gradient.shape, (*data.shape[:2], *found), strict=True)):
        same_size(given, wanted, f"axis {axis} of out_grad has size {{}}, that of the pooled data {{}}", 0, axis)
    return (*data.shape, *(dim(-(-size // stride)) for size, stride in zip(window, strides, strict=True)))


@register_shape_func("nn.avg_pool2d_portions")
def avg_pool2d_portions(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shares of each element in the windows that may contain the element."""
    return _portions(*inputs, attrs)


@register_shape_func("nn.max_pool2d_portions")
def max_pool2d_portions(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """The shares of each element in the windows that may contain the element."""
    gradient, data, largest = inputs
    shape = _portions(gradient, data, attrs)
    need_rank(largest, 4, "largest", 2)
    for axis, (own, other) in enumerate(zip(largest.shape, gradient.shape, strict=True)):
        same_size(own, other, f"axis {axis} of largest has size {{}}, that of out_grad {{}}", 2, axis)
    return shape
