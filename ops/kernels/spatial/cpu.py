"""Data of one to three spatial axes, in either layout, as five axes: batch, channel, depth, row, column.

Absent axes have size 1.  Sizes and strides (in elements) are tuples of five int64.
"""

from __future__ import annotations

from typing import NamedTuple

from ...native.memory import Array, Axes, generic
from ..shaped import Shaped

BATCH, CHANNEL, DEPTH, ROW, COLUMN = range(5)


@generic
def spatial_size(dims: Axes, axis: int, first: int) -> int:
    """The size of spatial axis ``axis`` (0 to 2, the last one always present) of a tensor with spatial axes from ``first`` on."""
    missing = 5 - len(dims)
    return 1 if axis < missing else dims[first + axis - missing]


@generic
def sizes_of(dims: Axes, channels_last: bool) -> tuple[int, int, int, int, int]:
    """The five sizes of data."""
    first = 1 if channels_last else 2
    channels = dims[len(dims) - 1] if channels_last else dims[1]
    return dims[0], channels, spatial_size(dims, 0, first), spatial_size(dims, 1, first), spatial_size(dims, 2, first)


@generic
def strides_of(sizes: Axes, channels_last: bool) -> tuple[int, int, int, int, int]:
    """The five strides of data of these sizes."""
    column = sizes[CHANNEL] if channels_last else 1
    row = column * sizes[COLUMN]
    depth = row * sizes[ROW]
    channel = 1 if channels_last else depth * sizes[DEPTH]
    return sizes[CHANNEL] * sizes[DEPTH] * sizes[ROW] * sizes[COLUMN], channel, depth, row, column


class Spatial(NamedTuple):
    """The elements of a tensor, and the sizes and strides of its five axes."""

    data: Array
    sizes: Axes
    steps: Axes


@generic
def spatial(tensor: Shaped, channels_last: bool) -> Spatial:
    """The five axes of a tensor."""
    sizes = sizes_of(tensor.dims, channels_last)
    return Spatial(tensor.data, sizes, strides_of(sizes, channels_last))


@generic
def start_of(tensor: Spatial, batch: int, channel: int) -> int:
    """The first element of a channel."""
    return batch * tensor.steps[BATCH] + channel * tensor.steps[CHANNEL]


@generic
def first_inside(offset: int, step: int) -> int:
    """The first ``i >= 0`` with ``offset + i * step >= 0``."""
    return max(0, -offset if step == 1 else -(offset // step))  # a division takes as long as ten additions


@generic
def end_inside(offset: int, step: int, size: int, count: int) -> int:
    """The end of the indices ``i`` below ``count`` with ``offset + i * step < size``."""
    return min(count, size - offset if step == 1 else (size - 1 - offset) // step + 1)
