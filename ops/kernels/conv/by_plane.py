"""Convolution of few channels, mainly depthwise: plane by plane, each padded once, so that no tap needs a bounds check.

A padded plane is split into phases by stride: elements ``q * stride + phase`` of one phase are contiguous.  The operands of a tap
for all positions of a result are then one contiguous range.  The rows of that range have the padded length; sums past the
end of a result row are computed and discarded.  Accumulates in the dtype of the data.
"""

from __future__ import annotations

import numpy as np

from ...native.jit.vector_hints import multiply_add
from ...native.memory import Array, Axes, Element, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside

#: The number of sums computed together: they stay in the L1 cache while the taps are added.
_SUMS = 4096


@generic
def padded_sizes(out_sizes: Axes, kernel: Axes, stride: Axes, dilation: Axes) -> tuple[int, int, int]:
    """Depth, rows and columns of one phase of a padded plane."""
    return (
        out_sizes[DEPTH] + (kernel[2] - 1) * dilation[0] // stride[0],
        out_sizes[ROW] + (kernel[3] - 1) * dilation[1] // stride[1],
        out_sizes[COLUMN] + (kernel[4] - 1) * dilation[2] // stride[2],
    )


@generic
def fill_plane(room: Array, padded: Axes, data: Array, at: int, sizes: Axes, steps: Axes, stride: Axes, before: Axes) -> None:
    """Copy the channel that starts at ``at`` into phases; the borders stay 0."""
    length = padded[0] * padded[1] * padded[2]
    for number in range(stride[0] * stride[1] * padded[0] * padded[1]):
        phase, line = number // (padded[0] * padded[1]), number % (padded[0] * padded[1])
        z = line // padded[1] * stride[0] + phase // stride[1] - before[0]
        y = line % padded[1] * stride[1] + phase % stride[1] - before[1]
        if not (0 <= z < sizes[DEPTH] and 0 <= y < sizes[ROW]):
            continue
        row = at + z * steps[DEPTH] + y * steps[ROW]
        for x in range(stride[2]):
            offset = x - before[2]
            to = (phase * stride[2] + x) * length + line * padded[2]
            first, end = first_inside(offset, stride[2]), end_inside(offset, stride[2], sizes[COLUMN], padded[2])
            if stride[2] == 1:
                for q in range(first, end):
                    room[np.uint64(to + q)] = data[np.uint64(row + q + offset)]
            else:
                for q in range(first, end):
                    room[np.uint64(to + q)] = data[np.uint64(row + q * stride[2] + offset)]


@generic
def tap_start(tap: Axes, padded: Axes, stride: Axes, dilation: Axes) -> int:
    """The offset in the padded plane at which the operands of a tap (depth, row, column) begin."""
    z, y, x = tap[0] * dilation[0], tap[1] * dilation[1], tap[2] * dilation[2]
    phase = (z % stride[0] * stride[1] + y % stride[1]) * stride[2] + x % stride[2]
    line = (z // stride[0]) * padded[1] + y // stride[1]
    return ((phase * padded[0] * padded[1]) + line) * padded[2] + x // stride[2]


@generic
def add_three_taps(room: Array, to: int, count: int, starts: Axes, factors: tuple[Element, Element, Element]) -> None:
    """Add three products to each ``room[to + i]``."""
    a, b, c = starts
    for i in range(count):
        near = multiply_add(factors[0], room[np.uint64(a + i)], room[np.uint64(to + i)])
        near = multiply_add(factors[1], room[np.uint64(b + i)], near)
        room[np.uint64(to + i)] = multiply_add(factors[2], room[np.uint64(c + i)], near)


@generic
def add_taps(
    room: Array, to: int, begin: int, count: int, weight: Array, w_at: int, w_step: int, kernel: Axes, padded: Axes,
    stride: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Add all taps of one channel's plane to ``count`` sums at ``to``, for the positions from ``begin`` on."""
    for z in range(kernel[2]):
        for y in range(kernel[3]):
            tap = w_at + (z * kernel[3] + y) * kernel[4] * w_step
            for x in range(0, kernel[4] - 2, 3):
                first = begin + tap_start((z, y, x), padded, stride, dilation)
                second = begin + tap_start((z, y, x + 1), padded, stride, dilation)
                third = begin + tap_start((z, y, x + 2), padded, stride, dilation)
                at = tap + x * w_step
                factors = (weight[at], weight[at + w_step], weight[at + 2 * w_step])
                add_three_taps(room, to, count, (first, second, third), factors)
            for x in range(kernel[4] // 3 * 3, kernel[4]):
                start, factor = begin + tap_start((z, y, x), padded, stride, dilation), weight[tap + x * w_step]
                for i in range(count):
                    room[np.uint64(to + i)] = multiply_add(factor, room[np.uint64(start + i)], room[np.uint64(to + i)])


@generic
def store_sums(out: Array, to: int, room: Array, at: int, out_sizes: Axes, out_steps: Axes, padded: Axes) -> None:
    """Store the sums of a channel, without those past the end of each row."""
    for z in range(out_sizes[DEPTH]):
        for y in range(out_sizes[ROW]):
            line, row = to + z * out_steps[DEPTH] + y * out_steps[ROW], at + (z * padded[1] + y) * padded[2]
            for x in range(out_sizes[COLUMN]):
                out[np.uint64(line + x)] = room[np.uint64(row + x)]


@generic
def convolve_planes(
    data: Array, weight: Array, out: Array, room: Array, sizes: Axes, steps: Axes, out_sizes: Axes, out_steps: Axes,
    kernel: Axes, taps: Axes, groups: int, stride: Axes, before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Layout NCHW of data and result; ``taps``: the kernel's strides of output channel, input channel and tap; ``room``:
    buffer for a padded plane, and for the sums of each output channel of a group."""
    padded = padded_sizes(out_sizes, kernel, stride, dilation)
    length, outputs = padded[0] * padded[1] * padded[2], kernel[0] // groups
    sums = stride[0] * stride[1] * stride[2] * length
    places = ((out_sizes[DEPTH] - 1) * padded[1] + out_sizes[ROW] - 1) * padded[2] + out_sizes[COLUMN]
    for i in range(sums):
        room[np.uint64(i)] = 0
    for b in range(out_sizes[BATCH]):
        for g in range(groups):
            for i in range(outputs * length):
                room[np.uint64(sums + i)] = 0
            for i in range(kernel[1]):
                at = b * steps[BATCH] + (g * kernel[1] + i) * steps[CHANNEL]
                fill_plane(room, padded, data, at, sizes, steps, stride, before)
                for begin in range(0, places, _SUMS):
                    for o in range(outputs):
                        w_at, to = (g * outputs + o) * taps[0] + i * taps[1], sums + o * length + begin
                        count = min(_SUMS, places - begin)
                        add_taps(room, to, begin, count, weight, w_at, taps[2], kernel, padded, stride, dilation)
            for o in range(outputs):
                to = b * out_steps[BATCH] + (g * outputs + o) * out_steps[CHANNEL]
                store_sums(out, to, room, sums + o * length, out_sizes, out_steps, padded)
