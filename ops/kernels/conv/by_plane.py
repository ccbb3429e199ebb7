"""Convolution of few channels, mainly depthwise: plane by plane, each padded once, so that no tap needs a bounds check.

A padded plane is split into phases by stride: elements ``q * stride + phase`` of one phase are contiguous.  The operands of a tap
for a row of the result are then one contiguous range.  Every element of the result is one sum over channels and taps, in one
order: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

from ...native.jit.convolution.panel_row import store_gathered, store_halves, store_run
from ...native.jit.convolution.plane_taps import COLUMN_WORDS, HEIGHTS, TOGETHER, add_taps
from ...native.jit.convolution.tap_columns import ColumnWeights, Taps
from ...native.jit.products.operands import Rows
from ...native.jit.products.register_tile import PANEL_BYTES
from ...native.memory import Array, Axes, generic
from ..spatial.cpu import BATCH, CHANNEL, DEPTH, ROW, Spatial, end_inside, first_inside
from .epilogue import Epilogue
from .geometry import Convolution, Window, lanes_between

#: Elements of planes of the result that are finished together, and of padded planes that are filled together: each a quarter of
#: the first cache.
FINISHED, FILLED = 2048, 2048
#: Vectors of a row from which rows are filled one by one.  Each vector of a row then needs a mask: rows of two vectors take 1.3
#: of the time.  The first convolution of a network, whose data are in no cache, takes 0.86 to 0.93 with rows of five vectors.
LONG_ROW = 4


@generic
def padded_sizes(out_sizes: Axes, conv: Convolution) -> tuple[int, int, int]:
    """Depth, rows and columns of one phase of a padded plane for results of these sizes: depth, rows and columns."""
    kernel, stride, dilation = conv.weight.sizes, conv.window.stride, conv.window.dilation
    return (
        out_sizes[0] + (kernel[2] - 1) * dilation[0] // stride[0],
        out_sizes[1] + (kernel[3] - 1) * dilation[1] // stride[1],
        out_sizes[2] + (kernel[4] - 1) * dilation[2] // stride[2],
    )


@generic
def fill_rows(
    to: Rows, also_to: int, rows: int, source: Rows, first: int, end: int, offset: int, size: int, step: int, every: Array
) -> None:
    """Store ``to[y, q] = source[y, offset + q * step]``, ``y`` below ``rows``, ``q`` below ``to.step``: rows follow one another.

    Stored is 0 where ``y`` is outside ``first`` to ``end`` (exclusive), or the element is outside a row of ``size`` elements.
    With a step of 2 the elements between are stored from ``also_to`` on, in the same way; with a step of 1 up to a vector behind
    the last row may be overwritten.  ``every``: multiples of ``step``.
    """
    work, count, width = to.data, to.step, PANEL_BYTES // to.data.itemsize
    vectors = (count + width - 1) // width
    if vectors >= LONG_ROW and step <= 2:
        fill_long_rows(to, also_to, rows, source, first, end, offset, size, step)
        return
    for n in range(vectors):
        q = (vectors - 1 - n) * width  # backwards: the end of a row may overwrite the beginning of the next
        x, kept = offset + q * step, lanes_between(0, count - q, width)
        inside = lanes_between(-x, size - x, min(step, 2) * width)
        if step > 2:
            inside = lanes_between(first_inside(x, step), end_inside(x, step, size, width), width)
        at = source.at + x
        left = rows * count - q - width  # the elements of the rows that follow a vector
        for y in range(rows):
            here = inside if first <= y < end else 0
            # whole where it ends with the last row or before: the row that it overwrites is stored later
            stored = (1 << width) - 1 if left >= 0 else kept
            if step == 1:
                store_run(work, to.at + y * count + q, source.data, at, here)
            elif step == 2:
                store_halves(work, to.at + y * count + q, also_to + y * count + q, stored, source.data, at, here)
            else:
                store_gathered(work, to.at + y * count + q, stored, source.data, at, every, 0, here)
            at += source.step
            left -= count


@generic
def fill_long_rows(
    to: Rows, also_to: int, rows: int, source: Rows, first: int, end: int, offset: int, size: int, step: int
) -> None:
    """As ``fill_rows`` of a step of 1 or 2, row by row: a processor fetches data that follow one another on its own."""
    work, count, width = to.data, to.step, PANEL_BYTES // to.data.itemsize
    at, left = source.at + offset, rows * count
    for y in range(rows):
        for q in range(0, count, width):  # the end of a row may overwrite the beginning of the next, which is stored later
            x, place = offset + q * step, y * count + q
            here = lanes_between(-x, size - x, step * width) if first <= y < end else 0
            if step == 1:
                store_run(work, to.at + place, source.data, at + q, here)
            else:
                stored = lanes_between(0, left - q, width)
                store_halves(work, to.at + place, also_to + place, stored, source.data, at + 2 * q, here)
        at += source.step
        left -= count


@generic
def fill_plane(work: Array, to: int, padded: Axes, data: Spatial, at: int, window: Window, every: Array) -> None:
    """Copy the channel that starts at ``at`` into phases with zeros around it, from ``to`` on, in the order of the phases."""
    stride, before, (_, _, depths, rows, columns) = window.stride, window.before, data.sizes
    together, elements = (2 if stride[2] == 2 else 1), padded[0] * padded[1] * padded[2]
    for phase in range(0, stride[0] * stride[1] * stride[2], together):
        z = phase // (stride[1] * stride[2]) - before[0]
        y, offset = phase // stride[2] % stride[1] - before[1], phase % stride[2] - before[2]
        first, end = first_inside(y, stride[1]), end_inside(y, stride[1], rows, padded[1])
        for depth in range(padded[0]):
            start = to + phase * elements + depth * padded[1] * padded[2]
            source = Rows(data.data, at + z * data.steps[DEPTH] + y * data.steps[ROW], stride[1] * data.steps[ROW])
            inside, target = end if 0 <= z < depths else 0, Rows(work, start, padded[2])
            fill_rows(target, start + elements, padded[1], source, first, inside, offset, columns, stride[2], every)
            z += stride[0]


@generic
def tap_start(tap: Axes, padded: Axes, window: Window) -> int:
    """The offset in the padded plane at which the operands of a tap (depth, row, column) begin."""
    stride, dilation = window.stride, window.dilation
    z, y, x = tap[0] * dilation[0], tap[1] * dilation[1], tap[2] * dilation[2]
    phase = (z % stride[0] * stride[1] + y % stride[1]) * stride[2] + x % stride[2]
    line = (z // stride[0]) * padded[1] + y // stride[1]
    return ((phase * padded[0] * padded[1]) + line) * padded[2] + x // stride[2]


@generic
def place_column(numbers: Array, at: int, tap: Axes, conv: Convolution, padded: Axes) -> None:
    """Store start and weight of the column of taps that begins at ``tap`` (depth, row, column)."""
    numbers[at] = tap_start(tap, padded, conv.window)
    numbers[at + 1] = ((tap[0] * conv.weight.sizes[3] + tap[1]) * conv.weight.sizes[4] + tap[2]) * conv.weight.steps[2]


@generic
def place_columns(
    place: Callable[..., None], words: int, heights: int, numbers: Array, counts: int, conv: Convolution, padded: Axes
) -> None:
    """Store the columns of up to ``heights`` taps, ``words`` integers each by ``place``, by height.

    Before them is the number of columns of each height, from ``counts`` on.

    Taps of a column are a stride apart, so that their operands are in rows that follow one another in a phase.  With dilation
    each tap is a column.
    """
    kernel, stride, dilation = conv.weight.sizes, conv.window.stride, conv.window.dilation
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
                            place(numbers, at, (z, y, x), conv, padded)
                            at += words
        numbers[counts + height - 1] = (at - begin) // words


@generic
def place_taps(numbers: Array, width: int, conv: Convolution, padded: Axes) -> None:
    """Store multiples of the stride for a vector of ``width``, then the columns of taps in the form of ``add_taps``."""
    for j in range(width):
        numbers[j] = j * conv.window.stride[2]
    place_columns(place_column, COLUMN_WORDS, HEIGHTS, numbers, width, conv, padded)


@generic
def add_plane(
    plane: Rows, padded: Axes, columns: Taps, weights: ColumnWeights, out: Spatial, to: int, add: int, is_last: bool,
    epilogue: Epilogue,
) -> None:  # fmt: skip
    """Add the taps of a padded plane to the result from ``to`` on; finish it if ``is_last``."""
    (_, _, depth, height, width), row = out.sizes, out.steps[ROW]
    stretch = max(FINISHED // width // TOGETHER * TOGETHER, TOGETHER)
    for z in range(depth):
        for y in range(0, height, stretch):
            rows, here = min(stretch, height - y), to + z * out.steps[DEPTH] + y * row
            source = Rows(plane.data, plane.at + (z * padded[1] + y) * padded[2], plane.step)
            add_taps(source, columns, weights, Rows(out.data, here, row), rows, width, add)
            if is_last:
                epilogue.finish(epilogue.argv, here, 1, rows * width, out.data, here, 0)


@generic
def convolve_planes(conv: Convolution, work: Array, numbers: Array, epilogue: Epilogue, low: int, high: int) -> None:
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: the groups of each element of the batch.

    Layout NCHW of data and result.  ``work``: for padded planes and a vector; ``numbers``: a vector, HEIGHTS and two for each
    tap.  If groups have one input channel, all the planes are filled before they are read, because a load waits for the stores of
    different parts of its elements.
    """
    data, weight, out, stride = conv.data, conv.weight, conv.out, conv.window.stride
    padded, outputs, inputs = padded_sizes(out.sizes[2:], conv), weight.sizes[0] // conv.groups, weight.sizes[1]
    width, w_row, positions = PANEL_BYTES // out.data.itemsize, weight.sizes[4] * stride[1] * weight.steps[2], out.steps[CHANNEL]
    place_taps(numbers, width, conv, padded)
    elements = stride[0] * stride[1] * stride[2] * padded[0] * padded[1] * padded[2]
    together = max((work.size - width) // elements, 1) if inputs == 1 else 1
    is_small = positions <= FINISHED
    for first in range(low, high, together):
        count = min(together, high - first)
        for i in range(inputs):
            for j in range(count):
                b, g = (first + j) // conv.groups, (first + j) % conv.groups
                at = b * data.steps[BATCH] + (g * inputs + i) * data.steps[CHANNEL]
                fill_plane(work, j * elements, padded, data, at, conv.window, numbers)
            # the last vector of the last plane is multiplied whole
            for k in range(width):
                work[count * elements + k] = 0
            for j in range(count * outputs):
                o = first * outputs + j
                at = o % weight.sizes[0] * weight.steps[0] + i * weight.steps[1]
                weights, plane = ColumnWeights(weight.data, at, w_row), Rows(work, j // outputs * elements, padded[2])
                is_last = i + 1 == inputs and not is_small
                add_plane(plane, padded, Taps(numbers, width), weights, out, o * positions, i, is_last, epilogue)
        if is_small:
            begin = first * outputs * positions
            epilogue.finish(epilogue.argv, begin, count * outputs, positions, out.data, begin, positions)
