"""Convolution of few channels, mainly depthwise: plane by plane, each padded once, so that no tap needs a bounds check.

A padded plane is split into phases by stride: elements ``q * stride + phase`` of one phase are contiguous.  The operands of a tap
for a row of the result are then one contiguous range.  Every element of the result is one sum over channels and taps, in order:
the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

from ...native.jit.panel_row import store_alternate, store_gathered, store_run
from ...native.jit.plane_taps import TOGETHER, add_taps
from ...native.jit.product_tile import PANEL_BYTES
from ...native.memory import Array, Axes, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside

#: Elements of a plane of the result that are finished together: a quarter of the first cache.
FINISHED = 2048


@generic
def padded_sizes(out_sizes: Axes, kernel: Axes, stride: Axes, dilation: Axes) -> tuple[int, int, int]:
    """Depth, rows and columns of one phase of a padded plane."""
    return (
        out_sizes[DEPTH] + (kernel[2] - 1) * dilation[0] // stride[0],
        out_sizes[ROW] + (kernel[3] - 1) * dilation[1] // stride[1],
        out_sizes[COLUMN] + (kernel[4] - 1) * dilation[2] // stride[2],
    )


@generic
def lanes_between(first: int, end: int, width: int) -> int:
    """A bit for each of ``width`` lanes from ``first`` to ``end`` (exclusive)."""
    first, end = min(max(first, 0), width), min(max(end, 0), width)
    return (1 << end) - (1 << first) if first < end else 0


@generic
def fill_row(room: Array, to: int, count: int, data: Array, row: int, offset: int, size: int, step: int, every: Array) -> None:
    """Store ``room[to + q] = data[row + offset + q * step]`` for ``q`` below ``count``, 0 where that is outside the row.

    The row has ``size`` elements.  Up to a vector behind the row is overwritten.  ``every``: multiples of ``step``.
    """
    width = PANEL_BYTES // room.itemsize
    for q in range(0, count, width):
        at = offset + q * step
        if step == 1:
            store_run(room, to + q, data, row + at, lanes_between(-at, size - at, width))
        elif step == 2:
            store_alternate(room, to + q, data, row + at, lanes_between(-at, size - at, 2 * width))
        else:
            first, end = first_inside(at, step), end_inside(at, step, size, width)
            store_gathered(room, to + q, data, row + at, every, 0, lanes_between(first, end, width))


@generic
def fill_plane(
    room: Array, padded: Axes, data: Array, at: int, sizes: Axes, steps: Axes, stride: Axes, before: Axes, every: Array
) -> None:
    """Copy the channel that starts at ``at`` into phases with zeros around it, in the order of the phases."""
    to = 0
    for phase in range(stride[0] * stride[1] * stride[2]):
        z = phase // (stride[1] * stride[2]) - before[0]
        first, offset = phase // stride[2] % stride[1] - before[1], phase % stride[2] - before[2]
        for _ in range(padded[0]):
            y = first
            for _ in range(padded[1]):
                is_inside = 0 <= z < sizes[DEPTH] and 0 <= y < sizes[ROW]
                row, size = at + z * steps[DEPTH] + y * steps[ROW], sizes[COLUMN] if is_inside else 0
                fill_row(room, to, padded[2], data, row, offset, size, stride[2], every)
                to += padded[2]
                y += stride[1]
            z += stride[0]


@generic
def tap_start(tap: Axes, padded: Axes, stride: Axes, dilation: Axes) -> int:
    """The offset in the padded plane at which the operands of a tap (depth, row, column) begin."""
    z, y, x = tap[0] * dilation[0], tap[1] * dilation[1], tap[2] * dilation[2]
    phase = (z % stride[0] * stride[1] + y % stride[1]) * stride[2] + x % stride[2]
    line = (z // stride[0]) * padded[1] + y // stride[1]
    return ((phase * padded[0] * padded[1]) + line) * padded[2] + x // stride[2]


@generic
def place_taps(starts: Array, padded: Axes, kernel: Axes, stride: Axes, dilation: Axes) -> None:
    """Store multiples of the stride for a vector, then the start of each tap."""
    width = len(starts) - kernel[2] * kernel[3] * kernel[4]
    for j in range(width):
        starts[j] = j * stride[2]
    for z in range(kernel[2]):
        for y in range(kernel[3]):
            for x in range(kernel[4]):
                starts[width + (z * kernel[3] + y) * kernel[4] + x] = tap_start((z, y, x), padded, stride, dilation)


@generic
def convolve_planes(
    data: Array, weight: Array, out: Array, room: Array, starts: Array, finish: Callable[..., None], argv: int, low: int,
    high: int, sizes: Axes, steps: Axes, out_sizes: Axes, out_steps: Axes, kernel: Axes, taps: Axes, groups: int, stride: Axes,
    before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: the groups of each element of the batch.

    Layout NCHW of data and result; ``taps``: the kernel's strides of output channel, input channel and tap.  ``room``: buffer for
    a padded plane and a vector; ``starts``: for a vector and a number for each tap.
    """
    padded, outputs = padded_sizes(out_sizes, kernel, stride, dilation), kernel[0] // groups
    place_taps(starts, padded, kernel, stride, dilation)
    n_taps = kernel[2] * kernel[3] * kernel[4]
    stretch = max(FINISHED // out_sizes[COLUMN] // TOGETHER * TOGETHER, TOGETHER)
    width = len(starts) - n_taps
    for number in range(low, high):
        b, g = number // groups, number % groups
        for i in range(kernel[1]):
            at = b * steps[BATCH] + (g * kernel[1] + i) * steps[CHANNEL]
            fill_plane(room, padded, data, at, sizes, steps, stride, before, starts)
            for o in range(g * outputs, (g + 1) * outputs):
                w_at, to = o * taps[0] + i * taps[1], b * out_steps[BATCH] + o * out_steps[CHANNEL]
                for z in range(out_sizes[DEPTH]):
                    for y in range(0, out_sizes[ROW], stretch):
                        rows, here = min(stretch, out_sizes[ROW] - y), to + z * out_steps[DEPTH] + y * out_steps[ROW]
                        add_taps(
                            room, (z * padded[1] + y) * padded[2], padded[2], starts, width, n_taps, weight, w_at, taps[2], out,
                            here, out_steps[ROW], rows, out_sizes[COLUMN], i,
                        )  # fmt: skip
                        if i + 1 == kernel[1]:
                            finish(argv, here, 1, rows * out_sizes[COLUMN])
