"""Shapes of reversal, sequence masks, cropping, sliding windows and mesh grids."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import axes_in, axis_in, dimensions, need_rank, same_size
from ...symbolic.dim import Shape, dim
from ...symbolic.dim_operations import le
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func


@register_shape_func("reverse")
def reverse(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The shape of the data; ``attrs.axis`` must be in range."""
    axis_in(attrs.axis, inputs[0].rank)
    return inputs[0].shape


@register_shape_func("reverse_sequence")
def reverse_sequence(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data; ``seq_lengths`` has an element per index of ``attrs.batch_axis``."""
    data, lengths = inputs
    sequence, batch = axis_in(attrs.seq_axis, data.rank, "seq_axis"), axis_in(attrs.batch_axis, data.rank, "batch_axis")
    if sequence == batch:
        raise ShapeError(f"seq_axis and batch_axis are both {sequence}")
    need_rank(lengths, 1, "seq_lengths", 1)
    return _with_lengths(data, lengths, batch, "seq_lengths")


@register_shape_func("sequence_mask")
def sequence_mask(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the data.  Of the first two axes, ``attrs.axis`` enumerates positions, the other axis enumerates sequences;
    ``valid_length`` has an element per sequence."""
    data, lengths = inputs
    need_rank(data, 2, "the data", 0, at_least=True)
    if attrs.axis not in (0, 1):
        raise ShapeError(f"axis is {attrs.axis}; it must be 0 or 1")
    need_rank(lengths, 1, "valid_length", 1)
    return _with_lengths(data, lengths, 1 - attrs.axis, "valid_length")


def _with_lengths(data: Operand, lengths: Operand, batch: int, what: str) -> Shape:
    message = f"axis {batch} of the data has size {{}}, {what} has {{}} elements"
    size = same_size(data.shape[batch], lengths.shape[0], message, 1, 0)
    return (*data.shape[:batch], size, *data.shape[batch + 1 :])


@register_shape_func("slice_like")
def slice_like(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The sizes of input 1 along ``attrs.axes`` (None or empty: all axes); they must not exceed the sizes of the data."""
    data, like = inputs
    if not attrs.axes and data.rank != like.rank:
        raise ShapeError(f"without axes both must have the same rank; data has {data.rank}, shape_like {like.rank}", input=1)
    out = list(data.shape)
    for given in attrs.axes or range(data.rank):
        axis, other = axis_in(given, data.rank, "axes"), axis_in(given, like.rank, "axes")
        message = f"axis {axis} of the data has size {{}}, less than the {{}} of shape_like"
        check(le(like.shape[other], out[axis]), message, out[axis], like.shape[other], input=0, axis=axis)
        out[axis] = like.shape[other]
    axes_in(attrs.axes or (), data.rank, "axes")
    return tuple(out)


@register_shape_func("meshgrid")
def meshgrid(inputs: tuple[tuple[Operand, ...]], attrs: Any) -> list[Shape]:
    """For each vector (or scalar) the shape of the grid: all sizes; ``indexing="xy"`` swaps the first two axes."""
    (fields,) = inputs
    for k, x in enumerate(fields):
        if x.rank > 1:
            raise ShapeError(f"tensor {k} has {dimensions(x.rank)}; a grid is made of vectors and scalars", input=0)
    sizes = [x.shape[0] if x.rank else dim(1) for x in fields]
    if attrs.indexing == "xy" and len(sizes) > 1:
        sizes[:2] = sizes[1::-1]
    return [tuple(sizes)] * len(fields)


@register_shape_func("sliding_window")
def sliding_window(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The sizes before ``attrs.axis``, the number of windows along each axis from ``attrs.axis`` on, and the window shape."""
    (data,) = inputs
    axis = axis_in(attrs.axis, data.rank)
    for what, numbers in (("window_shape", attrs.window_shape), ("strides", attrs.strides)):
        if len(numbers) != data.rank - axis:
            raise ShapeError(f"{what} has {len(numbers)} numbers; from axis {axis} on the data has {data.rank - axis} axes")
        if min(numbers) < 1:
            raise ShapeError(f"{what} {tuple(numbers)} must be at least 1")
    counts = []
    for k, (window, stride) in enumerate(zip(attrs.window_shape, attrs.strides, strict=True), axis):
        size = data.shape[k]
        check(le(window, size), f"a window of {window} does not fit axis {k} of size {{}}", size, input=0, axis=k)
        counts.append((size - window) // stride + 1)
    return (*data.shape[:axis], *counts, *(dim(window) for window in attrs.window_shape))
