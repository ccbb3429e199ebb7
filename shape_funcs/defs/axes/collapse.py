"""Shapes of sums to the shape that a broadcast began with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...symbolic.argument_checks import dimensions, same_size, vector
from ...symbolic.dim import Dim, IntLike, Shape, const, dim
from ...symbolic.dim_operations import any_, eq
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func

#: The fate of an axis: it stays, it is summed, or it is split in two, of which the first is summed.
KEEP, SUM, SPLIT = "keep", "sum", "split"


def fates(data: Shape, target: Sequence[IntLike]) -> list[str]:
    """The fate of each axis of the data in a sum to the shape ``target``, aligned at the last axis.

    An axis is split where only the run knows whether the sum keeps the axis: in ``size // kept`` and ``kept``.  Raises
    ShapeError for sizes that no broadcast has.
    """
    if len(target) > len(data):
        raise ShapeError(f"the data has {dimensions(len(data))}, fewer than the {len(target)} of the shape to sum to", input=0)
    leading = len(data) - len(target)
    out = [SUM] * leading
    for axis, (size, kept) in enumerate(zip(data[leading:], map(dim, target), strict=True), leading):
        message = f"axis {axis} of the data has size {{}}, which no broadcast makes of {{}}"
        if const(kept) == 1:
            out.append(SUM if const(size) != 1 else KEEP)
        elif kept is size or const(kept) is not None or const(size) == 1:
            same_size(size, kept, message, 0, axis)
            out.append(KEEP)
        else:
            check(any_(eq(kept, 1), eq(kept, size)), message, size, kept, input=0, axis=axis)
            out.append(SPLIT)
    return out


def _split(data: Shape, target: Sequence[IntLike], axes: Sequence[int]) -> Shape:
    """The shape with ``axes`` split in two, whatever is known of their sizes; the others are kept or summed as a whole."""
    out: list[Dim] = []
    leading, one = len(data) - len(target), dim(1)
    for axis in axes:
        if not 0 <= axis < len(data):
            raise ShapeError(f"axis {axis} is out of range for {dimensions(len(data))}", input=0)
    for axis, (size, fate) in enumerate(zip(data, fates(data, target), strict=True)):
        kept = dim(target[axis - leading]) if axis >= leading else one
        stays = kept if fate is KEEP and const(kept) is not None else size
        if axis in axes:
            out += {KEEP: [one, stays], SUM: [size, one], SPLIT: [size // kept, kept]}[fate]
            continue
        if fate is SPLIT:
            check(eq(size, kept), f"axis {axis} of the data has size {{}}, not {{}}", size, kept, input=0, axis=axis)
        out.append(stays)
    return tuple(out)


@register_shape_func("collapse_axes_like")
def collapse_axes_like(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data with ``attrs.axes`` split; the shape to sum to is that of input 1."""
    return _split(inputs[0].shape, inputs[1].shape, attrs.axes)


@register_shape_func("collapse_axes_to", data_dependent=[False, True])
def collapse_axes_to(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data with ``attrs.axes`` split; the shape to sum to is the values of input 1."""
    return _split(inputs[0].shape, vector(inputs[1], "shape", 1), attrs.axes)
