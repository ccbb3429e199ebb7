"""Layouts of convolution weights: sizes and strides."""

from __future__ import annotations

from typing import TypeAlias

from ...native.memory import Axes, generic
from ..spatial.cpu import CHANNEL, spatial_size

#: The kernel layouts, by the order of output channels, input channels and space.  The last one (space, output, input) is that of
#: depthwise kernels for data with channels last.
OUT_IN_SPACE, SPACE_IN_OUT, OUT_SPACE_IN, SPACE_OUT_IN = range(4)
#: Layout of the kernel, whether the channels of the data are last, whether those of the result are last.
Layouts: TypeAlias = tuple[int, bool, bool]


@generic
def kernel_sizes(dims: Axes, layout: int) -> tuple[int, int, int, int, int]:
    """Sizes of a kernel: output channels, input channels of a group, depth, rows, columns."""
    first = 2 if layout == OUT_IN_SPACE else (1 if layout == OUT_SPACE_IN else 0)
    last = len(dims) - 1
    outputs = dims[last] if layout == SPACE_IN_OUT else (dims[last - 1] if layout == SPACE_OUT_IN else dims[0])
    inputs = dims[1] if layout == OUT_IN_SPACE else (dims[last - 1] if layout == SPACE_IN_OUT else dims[last])
    return outputs, inputs, spatial_size(dims, 0, first), spatial_size(dims, 1, first), spatial_size(dims, 2, first)


@generic
def kernel_strides(sizes: Axes, layout: int) -> tuple[int, int, int]:
    """Strides of a kernel: output channel, input channel, tap (its taps are in row-major order)."""
    outputs, inputs, taps = sizes[0], sizes[1], sizes[2] * sizes[3] * sizes[4]
    if layout == OUT_IN_SPACE:
        return inputs * taps, taps, 1
    if layout == SPACE_OUT_IN:
        return inputs, 1, inputs * outputs
    return (1, outputs, inputs * outputs) if layout == SPACE_IN_OUT else (taps * inputs, 1, inputs)


@generic
def group_count(sizes: Axes, kernel: Axes) -> int:
    """The number of groups, by the channels of the data (``spatial.cpu.sizes_of``) and of a group; 1 without channels."""
    return max(sizes[CHANNEL] // max(kernel[1], 1), 1)
