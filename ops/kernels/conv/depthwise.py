"""Convolution of each channel by itself, over two axes: the data are read where they are, without a padded copy.

Every element of the result is one sum over the taps, in one order: the same bits for any number of threads.
"""

from __future__ import annotations

from ...native.jit.convolution.data_taps import COLUMN_WORDS, HEIGHTS, MOST_STEP, ZERO_BYTES, Steps, add_data_taps, has_masks
from ...native.jit.convolution.image_rows import Image, Results, Weights
from ...native.jit.convolution.plane_taps import TOGETHER
from ...native.jit.convolution.tap_columns import ColumnWeights, Taps
from ...native.jit.convolution.tap_vectors import has_mask_registers
from ...native.jit.convolution.window_taps import BLOCK, LARGE_WINDOW, WINDOW, Planes, Windows, add_windows, reads_zeros
from ...native.jit.convolution.window_taps import Limits as Bounds
from ...native.jit.non_temporal import LINE_BYTES
from ...native.memory import Array, Axes, generic
from ...native.prefetch import fetch
from ..spatial.cpu import CHANNEL, COLUMN, DEPTH, ROW
from .by_channels import has_few_positions
from .by_plane import place_columns
from .epilogue import Epilogue, Limits
from .geometry import Convolution

#: Elements of the result that are finished together: a quarter of the first cache.
FINISHED = 2048


@generic
def is_depthwise(conv: Convolution) -> bool:
    """Whether groups have one channel of data and of the result, and few taps, over two axes.

    With more taps than those of windows a padded copy, which needs no masks, is read so often that it pays.
    """
    outputs, inputs, depth, height, width = conv.weight.sizes
    is_flat = conv.data.sizes[DEPTH] == conv.out.sizes[DEPTH] == depth == 1
    is_small = has_windows(conv) or (height <= HEIGHTS and width <= HEIGHTS)
    return outputs == conv.groups and inputs == 1 and is_flat and is_small and conv.window.stride[2] <= MOST_STEP and has_masks()


@generic
def has_windows(conv: Convolution) -> bool:
    """Whether the taps are windows of ``add_windows``, if it takes the stride."""
    (_, down, right), _, (_, below, across) = conv.window
    has_size = conv.weight.sizes[3] == WINDOW or conv.weight.sizes[3] == LARGE_WINDOW
    return has_size and conv.weight.sizes[3] == conv.weight.sizes[4] and down == right and below == across == 1


@generic
def is_by_channels(conv: Convolution) -> bool:
    """Whether vectors hold the channels of small pictures: unless their taps are windows, whose rows are faster.

    The weights of a large window need as many registers as a processor with mask registers has.
    """
    is_fast = conv.weight.sizes[3] == WINDOW or (has_mask_registers() and is_depthwise(conv))
    return has_few_positions(conv) and not (has_windows(conv) and is_fast)


@generic
def place_data_column(numbers: Array, at: int, tap: Axes, conv: Convolution, padded: Axes) -> None:
    """Store row, column and weight of the column of taps that begins at ``tap`` (depth, row, column)."""
    numbers[at] = tap[1] * conv.window.dilation[1] - conv.window.before[1]
    numbers[at + 1] = tap[2] * conv.window.dilation[2] - conv.window.before[2]
    numbers[at + 2] = (tap[1] * conv.weight.sizes[4] + tap[2]) * conv.weight.steps[2]


@generic
def convolve_windows(conv: Convolution, zeros: Array, epilogue: Epilogue, limits: Limits, low: int, high: int) -> None:
    """As ``convolve_depthwise``, for square windows that are as many rows as columns apart; ``zeros``: at least ZERO_BYTES."""
    data, weight, (addend, lowest, highest, is_limited), step = conv.data, conv.weight, limits, conv.window.stride[2]
    positions, (_, _, _, height, columns), before = conv.out.steps[CHANNEL], conv.out.sizes, conv.window.before
    stretch = max(BLOCK // max(step * data.sizes[COLUMN], columns), 1)
    if reads_zeros(WINDOW, 1):
        for i in range(ZERO_BYTES // data.data.itemsize):
            zeros[i] = 0
    together = max(high - low if is_limited else FINISHED // positions, 1)
    for first in range(low, high, together):
        end, o = min(first + together, high), first
        while o < end:
            c = o % weight.sizes[0]
            count = min(end - o, weight.sizes[0] - c) if stretch >= height else 1
            planes = Planes(count, data.steps[CHANNEL], weight.steps[0], positions, BLOCK // (step * step))
            for y in range(0, height, stretch):
                rows, here = min(stretch, height - y), o * positions + y * columns
                add_windows(
                    Image(data.data, o * data.steps[CHANNEL], data.sizes[ROW], data.sizes[COLUMN], zeros),
                    Windows(y * step - before[1], -before[2], step, weight.sizes[3]),
                    Weights(weight.data, c * weight.steps[0], weight.steps[2]),
                    Results(conv.out.data, here, rows, columns), planes, Bounds(addend, c, lowest, highest, is_limited),
                )  # fmt: skip
                if together == 1 and not is_limited:
                    epilogue.finish(epilogue.argv, here, 1, rows * columns, conv.out.data, here, 0)
            o += count
        if together > 1 and not is_limited:
            epilogue.finish(epilogue.argv, first * positions, end - first, positions, conv.out.data, first * positions, positions)


@generic
def convolve_depthwise(
    conv: Convolution, work: Array, numbers: Array, epilogue: Epilogue, limits: Limits, low: int, high: int
) -> None:
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: the channels of each element of the batch.

    Layout NCHW of data and result.  ``work``: at least ZERO_BYTES; ``numbers``: HEIGHTS and COLUMN_WORDS for each tap.
    """
    data, weight, out, stride = conv.data, conv.weight, conv.out, conv.window.stride
    if has_windows(conv):
        convolve_windows(conv, work, epilogue, limits, low, high)
        return
    for i in range(ZERO_BYTES // out.data.itemsize):
        work[i] = 0
    place_columns(place_data_column, COLUMN_WORDS, HEIGHTS, numbers, 0, conv, (0, 0, 0))
    w_row, positions, row = weight.sizes[4] * stride[1] * weight.steps[2], out.steps[CHANNEL], data.steps[ROW]
    stretch = max(FINISHED // out.sizes[COLUMN] // TOGETHER * TOGETHER, TOGETHER)
    together = max(FINISHED // positions, 1)
    for first in range(low, high, together):
        end = min(first + together, high)
        for o in range(first, end):
            for y in range(0, out.sizes[ROW], stretch):
                rows, here = min(stretch, out.sizes[ROW] - y), o * positions + y * out.steps[ROW]
                ahead = o * data.steps[CHANNEL] + (y + stretch) * stride[1] * row
                for j in range(0, rows * stride[1] * row, LINE_BYTES // out.data.itemsize):
                    fetch(data.data, ahead + j)
                image = Image(data.data, o * data.steps[CHANNEL], data.sizes[ROW], data.sizes[COLUMN], work)
                add_data_taps(
                    image, Steps(stride[1], stride[2]), y, Taps(numbers, 0),
                    ColumnWeights(weight.data, o % weight.sizes[0] * weight.steps[0], w_row),
                    Results(out.data, here, rows, out.sizes[COLUMN]),
                )  # fmt: skip
                if together == 1:
                    epilogue.finish(epilogue.argv, here, 1, rows * out.sizes[COLUMN], out.data, here, 0)
        if together > 1:
            epilogue.finish(epilogue.argv, first * positions, end - first, positions, conv.out.data, first * positions, positions)
