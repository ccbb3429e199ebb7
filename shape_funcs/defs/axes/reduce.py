"""Shapes of reductions: the default shape function of COMM_REDUCE."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import axes_in
from ...symbolic.dim import Shape, dim
from ...symbolic.registry import Operand, register_shape_func


@register_shape_func("reduce")
def reduce(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The shape without the axes ``attrs.axis`` (None: all; ``exclude``: the others), or with 1 there (``keepdims``)."""
    (data,) = inputs
    folded = reduced_axes(attrs, data.rank)
    if attrs.keepdims:
        return tuple(dim(1) if axis in folded else d for axis, d in enumerate(data.shape))
    return tuple(d for axis, d in enumerate(data.shape) if axis not in folded)


def reduced_axes(attrs: Any, rank: int) -> tuple[int, ...]:
    """The axes reduced by a reduction with these attributes, sorted."""
    named = tuple(range(rank)) if attrs.axis is None else axes_in(attrs.axis, rank)
    if attrs.exclude and attrs.axis is not None:
        return tuple(axis for axis in range(rank) if axis not in named)
    return tuple(sorted(named))
