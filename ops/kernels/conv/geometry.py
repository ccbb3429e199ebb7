"""The geometry of a convolution: its images, its weight, and the steps of its window, as one record."""

from __future__ import annotations

from typing import NamedTuple

from ...native.memory import Array, Axes, generic
from ..shaped import Shaped
from ..spatial.cpu import COLUMN, DEPTH, ROW, Spatial, spatial
from .weight_layout import Layouts, group_count, kernel_sizes, kernel_strides


class Filters(NamedTuple):
    """A weight.

    ``sizes``: output channels, input channels of a group, depth, rows, columns.  ``steps``: the elements from an output channel
    to the next, from an input channel and from a tap; taps are in row-major order.
    """

    data: Array
    sizes: Axes
    steps: Axes


class Window(NamedTuple):
    """The steps of a window along depth, rows and columns, in elements of the data.

    ``stride``: from a result to the next; ``before``: the padding before the data; ``dilation``: from a tap to the next.
    """

    stride: Axes
    before: Axes
    dilation: Axes


class Convolution(NamedTuple):
    """A convolution of ``groups`` groups of channels."""

    data: Spatial
    weight: Filters
    out: Spatial
    window: Window
    groups: int


@generic
def convolution(data: Shaped, weight: Shaped, out: Shaped, window: Window, layouts: Layouts) -> Convolution:
    """The convolution of tensors in ``layouts``."""
    of_data, sizes = spatial(data, layouts[1]), kernel_sizes(weight.dims, layouts[0])
    filters = Filters(weight.data, sizes, kernel_strides(sizes, layouts[0]))
    return Convolution(of_data, filters, spatial(out, layouts[2]), window, group_count(of_data.sizes, sizes))


@generic
def tap_count(weight: Filters) -> int:
    """The taps of a weight."""
    return weight.sizes[2] * weight.sizes[3] * weight.sizes[4]


@generic
def tap_place(weight: Filters, tap: int) -> tuple[int, int, int]:
    """Depth, row and column of a tap of a weight."""
    return tap // (weight.sizes[3] * weight.sizes[4]), tap // weight.sizes[4] % weight.sizes[3], tap % weight.sizes[4]


@generic
def position_count(of: Spatial) -> int:
    """The positions of an image."""
    return of.sizes[DEPTH] * of.sizes[ROW] * of.sizes[COLUMN]


@generic
def position(out: Spatial, number: int) -> tuple[int, int, int]:
    """Depth, row and column of a position of an image."""
    row = number // out.sizes[COLUMN]
    return row // out.sizes[ROW], row % out.sizes[ROW], number % out.sizes[COLUMN]


@generic
def tap_source(window: Window, place: Axes, tap: Axes) -> tuple[int, int, int]:
    """Depth, row and column of the data that a tap reads for a position of the result; each a triple."""
    return (
        place[0] * window.stride[0] + tap[0] * window.dilation[0] - window.before[0],
        place[1] * window.stride[1] + tap[1] * window.dilation[1] - window.before[1],
        place[2] * window.stride[2] + tap[2] * window.dilation[2] - window.before[2],
    )


@generic
def has_row(data: Spatial, depth: int, row: int) -> bool:
    """Whether images have a row."""
    return 0 <= depth < data.sizes[DEPTH] and 0 <= row < data.sizes[ROW]
