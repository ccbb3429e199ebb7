"""Convolution of few channels, mainly depthwise: plane by plane, each padded once, so that no tap needs a bounds check.

A padded plane is split into phases by stride: elements ``q * stride + phase`` of one phase are contiguous.  The operands of a tap
for a row of the result are then one contiguous range.  Every element of the result is one sum over channels and taps, in one
order: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

from ...native.jit.convolution.panel_row import store_gathered, store_halves, store_part
from ...native.jit.convolution.plane_taps import COLUMN_WORDS, HEIGHTS, TOGETHER, add_taps
from ...native.jit.convolution.tap_columns import ColumnWeights, Taps
from ...native.jit.products.operands import Rows
from ...native.jit.products.register_tile import PANEL_BYTES
from ...native.memory import Array, Axes, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside

#: Elements of planes of the result that are finished together, and of padded planes that are filled together: each a quarter of
#: the first cache.
FINISHED, FILLED = 2048, 2048


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
def fill_rows(
    work: Array, to: int, also_to: int, rows: int, count: int, data: Array, at: int, below: int, first: int, end: int,
    offset: int, size: int, step: int, every: Array,
) -> None:  # fmt: skip
    """Store ``work[to + y * count + q] = data[at + y * below + offset + q * step]``.

    ``y`` is below ``rows``, ``q`` below ``count``.  Stored is 0 where ``y`` is outside ``first`` to ``end`` (exclusive), or the
    element is outside a row of ``size`` elements.  With a step of 2 the elements between are stored from ``also_to`` on, in the
    same way.  ``every``: multiples of ``step``.
    """
    width = PANEL_BYTES // work.itemsize
    for q in range(0, count, width):
        x, kept = offset + q * step, lanes_between(0, count - q, width)
        inside = lanes_between(-x, size - x, min(step, 2) * width)
        if step > 2:
            inside = lanes_between(first_inside(x, step), end_inside(x, step, size, width), width)
        source = at + x
        for y in range(rows):
            here = inside if first <= y < end else 0
            if step == 1:
                store_part(work, to + y * count + q, kept, data, source, here)
            elif step == 2:
                store_halves(work, to + y * count + q, also_to + y * count + q, kept, data, source, here)
            else:
                store_gathered(work, to + y * count + q, kept, data, source, every, 0, here)
            source += below


@generic
def fill_plane(
    work: Array, to: int, padded: Axes, data: Array, at: int, sizes: Axes, steps: Axes, stride: Axes, before: Axes, every: Array
) -> None:
    """Copy the channel that starts at ``at`` into phases with zeros around it, from ``to`` on, in the order of the phases."""
    together, elements = (2 if stride[2] == 2 else 1), padded[0] * padded[1] * padded[2]
    for phase in range(0, stride[0] * stride[1] * stride[2], together):
        z = phase // (stride[1] * stride[2]) - before[0]
        y, offset = phase // stride[2] % stride[1] - before[1], phase % stride[2] - before[2]
        first, end = first_inside(y, stride[1]), end_inside(y, stride[1], sizes[ROW], padded[1])
        for depth in range(padded[0]):
            start = to + phase * elements + depth * padded[1] * padded[2]
            row = at + z * steps[DEPTH] + y * steps[ROW]
            fill_rows(
                work, start, start + elements, padded[1], padded[2], data, row, stride[1] * steps[ROW], first,
                end if 0 <= z < sizes[DEPTH] else 0, offset, sizes[COLUMN], stride[2], every,
            )  # fmt: skip
            z += stride[0]


@generic
def tap_start(tap: Axes, padded: Axes, stride: Axes, dilation: Axes) -> int:
    """The offset in the padded plane at which the operands of a tap (depth, row, column) begin."""
    z, y, x = tap[0] * dilation[0], tap[1] * dilation[1], tap[2] * dilation[2]
    phase = (z % stride[0] * stride[1] + y % stride[1]) * stride[2] + x % stride[2]
    line = (z // stride[0]) * padded[1] + y // stride[1]
    return ((phase * padded[0] * padded[1]) + line) * padded[2] + x // stride[2]


@generic
def place_column(numbers: Array, at: int, tap: Axes, padded: Axes, kernel: Axes, stride: Axes, dilation: Axes) -> None:
    """Store start and weight of the column of taps that begins at ``tap`` (depth, row, column)."""
    numbers[at] = tap_start(tap, padded, stride, dilation)
    numbers[at + 1] = (tap[0] * kernel[3] + tap[1]) * kernel[4] + tap[2]


@generic
def place_columns(
    place: Callable[..., None], words: int, heights: int, numbers: Array, counts: int, origin: Axes, kernel: Axes, stride: Axes,
    dilation: Axes,
) -> None:  # fmt: skip
    """Store the columns of up to ``heights`` taps, ``words`` integers each by ``place``, by height.

    Before them is the number of columns of each height, from ``counts`` on.

    Taps of a column are a stride apart, so that their operands are in rows that follow one another in a phase.  With dilation
    each tap is a column.
    """
    # the phases of rows that have taps, and the most taps of a phase in a column
    phases, most = (min(stride[1], kernel[3]), heights) if dilation[1] == 1 else (1, 1)
    between = stride[1] if dilation[1] == 1 else 1
    at = counts + heights
    for height in range(1, heights + 1):
        begin = at
        for z in range(kernel[2]):
            for phase in range(phases):
                for y in range(phase, kernel[3], between * most):
                    if min(most, (kernel[3] - y + between - 1) // between) == height:
                        for x in range(kernel[4]):
                            place(numbers, at, (z, y, x), origin, kernel, stride, dilation)
                            at += words
        numbers[counts + height - 1] = (at - begin) // words


@generic
def place_taps(numbers: Array, width: int, padded: Axes, kernel: Axes, stride: Axes, dilation: Axes) -> None:
    """Store multiples of the stride for a vector of ``width``, then the columns of taps in the form of ``add_taps``."""
    for j in range(width):
        numbers[j] = j * stride[2]
    place_columns(place_column, COLUMN_WORDS, HEIGHTS, numbers, width, padded, kernel, stride, dilation)


@generic
def add_plane(
    work: Array, first: int, padded: Axes, columns: Taps, weights: ColumnWeights, out: Array, to: int, out_sizes: Axes,
    out_steps: Axes, add: int, is_last: bool, finish: Callable[..., None], argv: int,
) -> None:  # fmt: skip
    """Add the taps of the padded plane from ``first`` on to the result from ``to`` on; finish it if ``is_last``."""
    stretch = max(FINISHED // out_sizes[COLUMN] // TOGETHER * TOGETHER, TOGETHER)
    for z in range(out_sizes[DEPTH]):
        for y in range(0, out_sizes[ROW], stretch):
            rows, here = min(stretch, out_sizes[ROW] - y), to + z * out_steps[DEPTH] + y * out_steps[ROW]
            plane = Rows(work, first + (z * padded[1] + y) * padded[2], padded[2])
            add_taps(plane, columns, weights, Rows(out, here, out_steps[ROW]), rows, out_sizes[COLUMN], add)
            if is_last:
                finish(argv, here, 1, rows * out_sizes[COLUMN])


@generic
def convolve_planes(
    data: Array, weight: Array, out: Array, work: Array, numbers: Array, finish: Callable[..., None], argv: int, low: int,
    high: int, sizes: Axes, steps: Axes, out_sizes: Axes, out_steps: Axes, kernel: Axes, taps: Axes, groups: int, stride: Axes,
    before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: the groups of each element of the batch.

    Layout NCHW of data and result; ``taps``: the kernel's strides of output channel, input channel and tap.  ``work``: buffer for
    padded planes and a vector; if groups have one input channel, all the planes are filled before they are read, because a load
    waits for the stores of different parts of its elements.  ``numbers``: for a vector, HEIGHTS numbers and two for each tap.
    """
    padded, outputs = padded_sizes(out_sizes, kernel, stride, dilation), kernel[0] // groups
    width, w_row = PANEL_BYTES // out.itemsize, kernel[4] * stride[1]
    place_taps(numbers, width, padded, kernel, stride, dilation)
    elements = stride[0] * stride[1] * stride[2] * padded[0] * padded[1] * padded[2]
    together = max((work.size - width) // elements, 1) if kernel[1] == 1 else 1
    is_small = out_steps[CHANNEL] <= FINISHED
    for first in range(low, high, together):
        count = min(together, high - first)
        for i in range(kernel[1]):
            for j in range(count):
                at = (first + j) // groups * steps[BATCH] + ((first + j) % groups * kernel[1] + i) * steps[CHANNEL]
                fill_plane(work, j * elements, padded, data, at, sizes, steps, stride, before, numbers)
            # the last vector of the last plane is multiplied whole
            for k in range(width):
                work[count * elements + k] = 0
            for j in range(count * outputs):
                o = first * outputs + j
                weights = ColumnWeights(weight, o % kernel[0] * taps[0] + i * taps[1], taps[2], w_row)
                add_plane(
                    work, j // outputs * elements, padded, Taps(numbers, width), weights, out, o * out_steps[CHANNEL], out_sizes,
                    out_steps, i, i + 1 == kernel[1] and not is_small, finish, argv,
                )  # fmt: skip
        if is_small:
            finish(argv, first * outputs * out_steps[CHANNEL], count * outputs, out_steps[CHANNEL])
