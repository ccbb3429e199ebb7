"""Convolution of each channel by itself, over two axes: the data are read where they are, without a padded copy.

Every element of the result is one sum over the taps, in one order: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

from ...native.jit.convolution.data_taps import COLUMN_WORDS, HEIGHTS, MOST_STEP, ZERO_BYTES, Steps, add_data_taps, has_masks
from ...native.jit.convolution.image_rows import Image, Results, Weights
from ...native.jit.convolution.plane_taps import TOGETHER
from ...native.jit.convolution.tap_columns import ColumnWeights, Taps
from ...native.jit.convolution.window_taps import WINDOW, Later, Limits, Windows, add_windows
from ...native.jit.non_temporal import LINE_BYTES
from ...native.memory import Array, Axes, generic
from ...native.prefetch import fetch
from ..spatial.cpu import CHANNEL, COLUMN, DEPTH, ROW
from .by_plane import place_columns

#: Elements of the result that are finished together: a quarter of the first cache.
FINISHED = 2048
#: Elements of the data in rows of windows that are computed together, and as many are fetched meanwhile.
BLOCK = 1024


@generic
def is_depthwise(kernel: Axes, groups: int, sizes: Axes, out_sizes: Axes, stride: Axes) -> bool:
    """Whether groups have one channel of data and of the result, and few taps, over two axes.

    With more taps a padded copy, which needs no masks, is read so often that it pays.
    """
    is_flat = sizes[DEPTH] == out_sizes[DEPTH] == kernel[2] == 1
    is_small = kernel[3] <= HEIGHTS and kernel[4] <= HEIGHTS
    return kernel[0] == groups and kernel[1] == 1 and is_flat and is_small and stride[2] <= MOST_STEP and has_masks()


@generic
def has_windows(kernel: Axes, stride: Axes, dilation: Axes) -> bool:
    """Whether the taps are windows of ``add_windows``, if it takes the stride."""
    return kernel[3] == kernel[4] == WINDOW and stride[1] == stride[2] and dilation[1] == dilation[2] == 1


@generic
def place_data_column(numbers: Array, at: int, tap: Axes, before: Axes, kernel: Axes, stride: Axes, dilation: Axes) -> None:
    """Store row, column and weight of the column of taps that begins at ``tap`` (depth, row, column)."""
    numbers[at] = tap[1] * dilation[1] - before[1]
    numbers[at + 1] = tap[2] * dilation[2] - before[2]
    numbers[at + 2] = tap[1] * kernel[4] + tap[2]


@generic
def convolve_windows(
    data: Array, weight: Array, out: Array, work: Array, finish: Callable[..., None], argv: int, low: int, high: int,
    sizes: Axes, steps: Axes, out_sizes: Axes, out_steps: Axes, kernel: Axes, taps: Axes, step: int, before: Axes, addend: Array,
    lowest: float, highest: float, is_limited: bool,
) -> None:  # fmt: skip
    """As ``convolve_depthwise``, for windows of 3 x 3 that are ``step`` rows and columns apart."""
    positions, columns = out_steps[CHANNEL], out_sizes[COLUMN]
    stretch = max(BLOCK // max(step * sizes[COLUMN], columns), 1)
    together = max(FINISHED // positions, 1)
    for first in range(low, high, together):
        end = min(first + together, high)
        for o in range(first, end):
            for y in range(0, out_sizes[ROW], stretch):
                rows, here = min(stretch, out_sizes[ROW] - y), o * positions + y * columns
                c = o % kernel[0]
                add_windows(
                    Image(data, o * steps[CHANNEL], sizes[ROW], sizes[COLUMN], work),
                    Windows(y * step - before[1], -before[2], step), Weights(weight, c * taps[0], taps[2]),
                    Results(out, here, rows, columns), Later(BLOCK, BLOCK // (step * step)),
                    Limits(addend[c] if is_limited else -0.0, lowest, highest),
                )  # fmt: skip
                if together == 1 and not is_limited:
                    finish(argv, here, 1, rows * columns)
        if together > 1 and not is_limited:
            finish(argv, first * positions, end - first, positions)


@generic
def convolve_depthwise(
    data: Array, weight: Array, out: Array, work: Array, numbers: Array, finish: Callable[..., None], argv: int, low: int,
    high: int, sizes: Axes, steps: Axes, out_sizes: Axes, out_steps: Axes, kernel: Axes, taps: Axes, stride: Axes, before: Axes,
    dilation: Axes, addend: Array, lowest: float, highest: float, is_limited: bool,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: the channels of each element of the batch.

    Layout NCHW of data and result; ``taps``: the kernel's strides of output channel, input channel and tap.  ``work``: at least
    ZERO_BYTES; ``numbers``: HEIGHTS numbers and COLUMN_WORDS for each tap.  The last four: as of ``codegen.cpu.channel_limits``.
    """
    for i in range(ZERO_BYTES // out.itemsize):
        work[i] = 0
    if has_windows(kernel, stride, dilation):
        convolve_windows(
            data, weight, out, work, finish, argv, low, high, sizes, steps, out_sizes, out_steps, kernel, taps, stride[2], before,
            addend, lowest, highest, is_limited,
        )  # fmt: skip
        return
    place_columns(place_data_column, COLUMN_WORDS, HEIGHTS, numbers, 0, before, kernel, stride, dilation)
    w_row, positions = kernel[4] * stride[1], out_steps[CHANNEL]
    stretch = max(FINISHED // out_sizes[COLUMN] // TOGETHER * TOGETHER, TOGETHER)
    together = max(FINISHED // positions, 1)
    for first in range(low, high, together):
        end = min(first + together, high)
        for o in range(first, end):
            for y in range(0, out_sizes[ROW], stretch):
                rows, here = min(stretch, out_sizes[ROW] - y), o * positions + y * out_steps[ROW]
                ahead = o * steps[CHANNEL] + (y + stretch) * stride[1] * steps[ROW]
                for j in range(0, rows * stride[1] * steps[ROW], LINE_BYTES // out.itemsize):
                    fetch(data, ahead + j)
                add_data_taps(
                    Image(data, o * steps[CHANNEL], sizes[ROW], sizes[COLUMN], work), Steps(stride[1], stride[2]), y,
                    Taps(numbers, 0), ColumnWeights(weight, o % kernel[0] * taps[0], taps[2], w_row),
                    Results(out, here, rows, out_sizes[COLUMN]),
                )  # fmt: skip
                if together == 1:
                    finish(argv, here, 1, rows * out_sizes[COLUMN])
        if together > 1:
            finish(argv, first * positions, end - first, positions)
