"""Pooling: the maximum or the mean of each window.

The bodies differ in their windows: ``moved_window``, ``shared_window``.  Means are summed in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ...native.jit.vector_hints import add_in_any_order
from ...native.memory import Array, Axes, Element, generic
from ...native.status import EMPTY_REDUCTION, OK
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside, sizes_of, strides_of

#: The most elements of a window that are compared in registers, since the code repeats for each.
MOST_TOGETHER = 16


@generic
def largest_of_window(data: Array, at: int, steps: Axes, window: Axes, dilation: Axes) -> Element:
    """The maximum of a non-empty window, NaN if an element is NaN; ``window``: (begin, end) along depth, row, column."""
    out = data[at + window[0] * steps[DEPTH] + window[2] * steps[ROW] + window[4] * steps[COLUMN]]
    for z in range(window[0], window[1], dilation[0]):
        for y in range(window[2], window[3], dilation[1]):
            line = at + z * steps[DEPTH] + y * steps[ROW]
            for x in range(window[4], window[5], dilation[2]):
                value = data[np.uint64(line + x * steps[COLUMN])]
                if value > out or value != value:
                    out = value
                if out != out:
                    return out
    return out


@generic
def sum_of_window(data: Array, at: int, steps: Axes, window: Axes, dilation: Axes) -> float:
    """The sum of a window as a float64."""
    total = 0.0
    for z in range(window[0], window[1], dilation[0]):
        for y in range(window[2], window[3], dilation[1]):
            line = at + z * steps[DEPTH] + y * steps[ROW]
            for x in range(window[4], window[5], dilation[2]):
                total = add_in_any_order(total, np.float64(data[np.uint64(line + x * steps[COLUMN])]))
    return total


@generic
def taken(begin: int, end: int, dilation: int) -> int:
    """The number of positions of a window along an axis."""
    return (max(end - begin, 0) + dilation - 1) // dilation


@generic
def elements(window: Axes, dilation: Axes) -> int:
    """The number of elements of a window."""
    rows = taken(window[2], window[3], dilation[1])
    return taken(window[0], window[1], dilation[0]) * rows * taken(window[4], window[5], dilation[2])


@generic
def begin_of(start: int, dilation: int) -> int:
    """The first position inside the data of a window that starts at ``start``."""
    return start if start >= 0 else start % dilation


@generic
def moved_window(sizes: Axes, place: Axes, pool_size: Axes, stride: Axes, before: Axes, dilation: Axes) -> tuple[Axes, int]:
    """The part inside the data of the window at ``place`` (depth, row, column), and its number of positions with padding.

    Positions beyond the padding, which ``ceil_mode`` may cause, count as padding.
    """
    z, y, x = place[0] * stride[0] - before[0], place[1] * stride[1] - before[1], place[2] * stride[2] - before[2]
    window = (
        begin_of(z, dilation[0]),
        min(z + (pool_size[0] - 1) * dilation[0] + 1, sizes[DEPTH]),
        begin_of(y, dilation[1]),
        min(y + (pool_size[1] - 1) * dilation[1] + 1, sizes[ROW]),
        begin_of(x, dilation[2]),
        min(x + (pool_size[2] - 1) * dilation[2] + 1, sizes[COLUMN]),
    )
    return window, pool_size[0] * pool_size[1] * pool_size[2]


@generic
def shared_window(sizes: Axes, place: Axes, out_sizes: Axes) -> Axes:
    """The adaptive window at ``place``: each axis is divided into as many windows as results; neighbours may overlap by one."""
    return (
        place[0] * sizes[DEPTH] // out_sizes[DEPTH],
        -(-(place[0] + 1) * sizes[DEPTH] // out_sizes[DEPTH]),
        place[1] * sizes[ROW] // out_sizes[ROW],
        -(-(place[1] + 1) * sizes[ROW] // out_sizes[ROW]),
        place[2] * sizes[COLUMN] // out_sizes[COLUMN],
        -(-(place[2] + 1) * sizes[COLUMN] // out_sizes[COLUMN]),
    )


@generic
def place_of(number: int, sizes: Axes) -> tuple[int, int, int]:
    """Depth, row and column of spatial element ``number``."""
    return number // (sizes[ROW] * sizes[COLUMN]), number // sizes[COLUMN] % sizes[ROW], number % sizes[COLUMN]


@generic
def lane_of(number: int, out_sizes: Axes, out_steps: Axes, last: bool) -> tuple[Axes, int]:
    """The position of a lane, in the form of ``tap_lane``, and the offset of its results within a batch and channel."""
    columns = out_sizes[COLUMN] if last else 1
    z, y, x = number // columns // out_sizes[ROW], number // columns % out_sizes[ROW], number % columns
    to = z * out_steps[DEPTH] + y * out_steps[ROW] + x * out_steps[COLUMN]
    return (z, y, x if last else out_sizes[COLUMN]), to


@generic
def tap_lane(
    tap: Axes, place: Axes, sizes: Axes, steps: Axes, stride: Axes, before: Axes, dilation: Axes, last: bool
) -> tuple[int, int, int, int]:
    """The operands of one tap (depth, row, column) for a lane: start in the data, step, first and end index of the lane.

    A lane is one row of results of a channel, and ``place`` is (depth, row, number of results).  If the channels of the data are
    ``last``, a lane is all channels of one result, and ``place`` is (depth, row, column).  The lane is empty outside the data.
    """
    z = place[0] * stride[0] + tap[0] * dilation[0] - before[0]
    y = place[1] * stride[1] + tap[1] * dilation[1] - before[1]
    offset = tap[2] * dilation[2] - before[2]
    inside = 0 <= z < sizes[DEPTH] and 0 <= y < sizes[ROW]
    line = z * steps[DEPTH] + y * steps[ROW]
    if last:
        x = place[2] * stride[2] + offset
        end = sizes[CHANNEL] if inside and 0 <= x < sizes[COLUMN] else 0
        return line + x * steps[COLUMN], 1, 0, end
    first = first_inside(offset, stride[2])
    end = end_inside(offset, stride[2], sizes[COLUMN], place[2]) if inside else 0
    return line + offset, stride[2], first, end


@generic
def take_larger(out: Array, to: int, to_step: int, data: Array, at: int, step: int, first: int, end: int) -> None:
    """``out[to + i * to_step] = max(itself, data[at + i * step])`` from ``first`` to ``end``; NaN propagates."""
    # strides 1 and 2 as constants, so that the loops vectorise
    if to_step == 1 and step == 1:
        for i in range(first, end):
            value, largest = data[np.uint64(at + i)], out[np.uint64(to + i)]
            out[np.uint64(to + i)] = value if (value > largest) | (value != value) else largest
    elif to_step == 1 and step == 2:
        for i in range(first, end):
            value, largest = data[np.uint64(at + 2 * i)], out[np.uint64(to + i)]
            out[np.uint64(to + i)] = value if (value > largest) | (value != value) else largest
    else:
        for i in range(first, end):
            value, largest = data[np.uint64(at + i * step)], out[np.uint64(to + i * to_step)]
            out[np.uint64(to + i * to_step)] = value if (value > largest) | (value != value) else largest


@generic
def nearest_inside(tap: int, start: int, taps: int, dilation: int, size: int) -> int:
    """The position of the tap nearest to ``tap`` that is inside the data, of a window that starts at ``start``; -1: no tap is."""
    first, final = max(0, -(start // dilation)), min(taps - 1, (size - 1 - start) // dilation)
    return start + min(max(tap, first), final) * dilation if first <= final else -1


@generic
def inner_columns(sizes: Axes, place: Axes, pool_size: Axes, stride: Axes, before: Axes, dilation: Axes) -> tuple[int, int]:
    """The first and end index of the results of a lane whose windows have all columns, a row and a depth inside the data.

    ``place``: (depth, row, number of results).
    """
    z = nearest_inside(0, place[0] * stride[0] - before[0], pool_size[0], dilation[0], sizes[DEPTH])
    y = nearest_inside(0, place[1] * stride[1] - before[1], pool_size[1], dilation[1], sizes[ROW])
    low = first_inside(-before[2], stride[2])
    high = end_inside((pool_size[2] - 1) * dilation[2] - before[2], stride[2], sizes[COLUMN], place[2])
    return (low, high) if z >= 0 and y >= 0 and low < high else (0, 0)


@generic
def take_largest(
    out: Array, to: int, data: Array, at: int, sizes: Axes, steps: Axes, place: Axes, pool_size: Axes, stride: Axes,
    before: Axes, dilation: Axes, low: int, high: int,
) -> None:  # fmt: skip
    """The results ``low`` to ``high`` of a lane, see ``inner_columns``; all taps of a result together, which are stored once.

    A tap above or below the data repeats the nearest tap inside, which does not change the maximum.
    """
    z, y = place[0] * stride[0] - before[0], place[1] * stride[1] - before[1]
    for i in range(low, high):
        start = at + i * stride[2] - before[2]
        line = nearest_inside(0, z, pool_size[0], dilation[0], sizes[DEPTH]) * steps[DEPTH]
        line += nearest_inside(0, y, pool_size[1], dilation[1], sizes[ROW]) * steps[ROW]
        largest = data[np.uint64(start + line)]
        for dz in range(pool_size[0]):
            for dy in range(pool_size[1]):
                line = nearest_inside(dz, z, pool_size[0], dilation[0], sizes[DEPTH]) * steps[DEPTH]
                line += nearest_inside(dy, y, pool_size[1], dilation[1], sizes[ROW]) * steps[ROW]
                for dx in range(pool_size[2]):
                    value = data[np.uint64(start + line + dx * dilation[2])]
                    largest = value if (value > largest) | (value != value) else largest
        out[np.uint64(to + i)] = largest


@generic
def max_pool(
    data: Array, data_dims: Axes, out: Array, out_dims: Axes, pool_size: Axes, stride: Axes, before: Axes, dilation: Axes,
    layouts: tuple[bool, ...], lowest: Element,
) -> int:  # fmt: skip
    """The maximum of each window; ``lowest`` for an empty window."""
    last = layouts[0]
    sizes, out_sizes = sizes_of(data_dims, last), sizes_of(out_dims, layouts[1])
    steps, out_steps = strides_of(sizes, last), strides_of(out_sizes, layouts[1])
    count, to_step = (out_sizes[CHANNEL], out_steps[CHANNEL]) if last else (out_sizes[COLUMN], out_steps[COLUMN])
    together = not last and to_step == 1 and pool_size[0] * pool_size[1] * pool_size[2] <= MOST_TOGETHER
    for b in range(out_sizes[BATCH]):
        for outer in range(1 if last else out_sizes[CHANNEL]):
            at = b * steps[BATCH] + outer * steps[CHANNEL]
            lanes = out_sizes[DEPTH] * out_sizes[ROW] * (out_sizes[COLUMN] if last else 1)
            for lane in range(lanes):
                place, to = lane_of(lane, out_sizes, out_steps, last)
                to += b * out_steps[BATCH] + outer * out_steps[CHANNEL]
                if together:
                    low, high = inner_columns(sizes, place, pool_size, stride, before, dilation)
                    take_largest(out, to, data, at, sizes, steps, place, pool_size, stride, before, dilation, low, high)
                    for i in range(low + count - high):
                        x = i if i < low else i + high - low
                        window, _ = moved_window(sizes, (place[0], place[1], x), pool_size, stride, before, dilation)
                        out[to + x] = lowest
                        if elements(window, dilation) > 0:
                            out[to + x] = largest_of_window(data, at, steps, window, dilation)
                    continue
                for i in range(count):
                    out[np.uint64(to + i * to_step)] = lowest
                for z in range(pool_size[0]):
                    for y in range(pool_size[1]):
                        for x in range(pool_size[2]):
                            start, step, first, end = tap_lane((z, y, x), place, sizes, steps, stride, before, dilation, last)
                            take_larger(out, to, to_step, data, at + start, step, first, end)
    return OK


@generic
def max_pool_floats(
    data: Array, data_dims: Axes, out: Array, out_dims: Axes, pool_size: Axes, stride: Axes, before: Axes, dilation: Axes,
    layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """``max_pool`` of floats."""
    return max_pool(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts, -math.inf)


@generic
def max_pool_signed(
    data: Array, data_dims: Axes, out: Array, out_dims: Axes, pool_size: Axes, stride: Axes, before: Axes, dilation: Axes,
    layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """``max_pool`` of signed integers."""
    lowest = -1 << (8 * out.itemsize - 1)
    return max_pool(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts, lowest)


@generic
def max_pool_unsigned(
    data: Array, data_dims: Axes, out: Array, out_dims: Axes, pool_size: Axes, stride: Axes, before: Axes, dilation: Axes,
    layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """``max_pool`` of unsigned integers."""
    return max_pool(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts, 0)


@generic
def add_lane(totals: Array, data: Array, at: int, step: int, first: int, end: int) -> None:
    """``totals[i] += data[at + i * step]`` from ``first`` to ``end``."""
    if step == 1:
        for i in range(first, end):
            totals[np.uint64(i)] += np.float64(data[np.uint64(at + i)])
    elif step == 2:
        for i in range(first, end):
            totals[np.uint64(i)] += np.float64(data[np.uint64(at + 2 * i)])
    else:
        for i in range(first, end):
            totals[np.uint64(i)] += np.float64(data[np.uint64(at + i * step)])


@generic
def count_columns(counts: Array, sizes: Axes, pool_size: Axes, stride: Axes, before: Axes, dilation: Axes) -> None:
    """The number of data elements per row in the window of each result column."""
    for x in range(len(counts)):
        start = x * stride[2] - before[2]
        end = min(start + (pool_size[2] - 1) * dilation[2] + 1, sizes[COLUMN])
        counts[x] = taken(begin_of(start, dilation[2]), end, dilation[2])


@generic
def store_means(out: Array, to: int, to_step: int, totals: Array, lines: float, counts: Array, column: int, count: int) -> None:
    """Store a lane of means of ``totals``; a window has ``lines`` rows of ``counts`` elements.

    ``column``: the index in ``counts`` for all results; -1 if each result has its own.
    """
    for i in range(count):
        elements = lines * counts[i if column < 0 else column]
        out[to + i * to_step] = totals[i] / max(elements, 1.0)


@generic
def average(
    data: Array, out: Array, totals: Array, counts: Array, sizes: Axes, out_sizes: Axes, pool_size: Axes, stride: Axes,
    before: Axes, dilation: Axes, layouts: tuple[bool, ...], count_include_pad: bool,
) -> None:  # fmt: skip
    """``avg_pool`` with a buffer for a lane of sums, and the ``counts`` of ``count_columns``; ones with ``count_include_pad``."""
    last = layouts[0]
    steps, out_steps = strides_of(sizes, last), strides_of(out_sizes, layouts[1])
    lanes = out_sizes[DEPTH] * out_sizes[ROW] * (out_sizes[COLUMN] if last else 1)
    count, to_step = (out_sizes[CHANNEL], out_steps[CHANNEL]) if last else (out_sizes[COLUMN], out_steps[COLUMN])
    for b in range(out_sizes[BATCH]):
        for outer in range(1 if last else out_sizes[CHANNEL]):
            at = b * steps[BATCH] + outer * steps[CHANNEL]
            for lane in range(lanes):
                place, to = lane_of(lane, out_sizes, out_steps, last)
                for i in range(count):
                    totals[np.uint64(i)] = 0.0
                for z in range(pool_size[0]):
                    for y in range(pool_size[1]):
                        for x in range(pool_size[2]):
                            start, step, first, end = tap_lane((z, y, x), place, sizes, steps, stride, before, dilation, last)
                            add_lane(totals, data, at + start, step, first, end)
                window, positions = moved_window(sizes, place, pool_size, stride, before, dilation)
                rows = taken(window[0], window[1], dilation[0]) * taken(window[2], window[3], dilation[1])
                lines = float(positions if count_include_pad else rows)
                to += b * out_steps[BATCH] + outer * out_steps[CHANNEL]
                store_means(out, to, to_step, totals, lines, counts, place[2] if last else -1, count)


@generic
def avg_pool(
    data: Array, data_dims: Axes, out: Array, out_dims: Axes, counts: Array, totals: Array, pool_size: Axes, stride: Axes,
    before: Axes, dilation: Axes, layouts: tuple[bool, ...], count_include_pad: bool,
) -> int:  # fmt: skip
    """The mean of each window: over its elements, or its positions with ``count_include_pad``; 0 for an empty window.

    ``counts`` and ``totals``: one per column of a result row; ``totals`` also at least one per channel.
    """
    sizes, out_sizes = sizes_of(data_dims, layouts[0]), sizes_of(out_dims, layouts[1])
    if count_include_pad:
        for x in range(out_sizes[COLUMN]):
            counts[x] = 1.0
    else:
        count_columns(counts, sizes, pool_size, stride, before, dilation)
    average(data, out, totals, counts, sizes, out_sizes, pool_size, stride, before, dilation, layouts, count_include_pad)
    return OK


@generic
def adaptive_max_pool(data: Array, data_dims: Axes, out: Array, out_dims: Axes, layouts: tuple[bool, ...]) -> int:
    """The maximum of each adaptive window."""
    sizes, out_sizes = sizes_of(data_dims, layouts[0]), sizes_of(out_dims, layouts[1])
    steps, out_steps = strides_of(sizes, layouts[0]), strides_of(out_sizes, layouts[1])
    if sizes[DEPTH] * sizes[ROW] * sizes[COLUMN] == 0:
        return EMPTY_REDUCTION if len(out) else OK
    for b in range(out_sizes[BATCH]):
        for outer in range(1 if layouts[1] else out_sizes[CHANNEL]):
            for number in range(out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]):
                window = shared_window(sizes, place_of(number, out_sizes), out_sizes)
                for inner in range(out_sizes[CHANNEL] if layouts[1] else 1):
                    at = b * steps[BATCH] + (outer + inner) * steps[CHANNEL]
                    to = b * out_steps[BATCH] + (outer + inner) * out_steps[CHANNEL] + number * out_steps[COLUMN]
                    out[to] = largest_of_window(data, at, steps, window, (1, 1, 1))
    return OK


@generic
def adaptive_avg_pool(data: Array, data_dims: Axes, out: Array, out_dims: Axes, layouts: tuple[bool, ...]) -> int:
    """The mean of each adaptive window; NaN for an empty window."""
    sizes, out_sizes = sizes_of(data_dims, layouts[0]), sizes_of(out_dims, layouts[1])
    steps, out_steps = strides_of(sizes, layouts[0]), strides_of(out_sizes, layouts[1])
    for b in range(out_sizes[BATCH]):
        for outer in range(1 if layouts[1] else out_sizes[CHANNEL]):
            for number in range(out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]):
                window = shared_window(sizes, place_of(number, out_sizes), out_sizes)
                count = elements(window, (1, 1, 1))
                for inner in range(out_sizes[CHANNEL] if layouts[1] else 1):
                    at = b * steps[BATCH] + (outer + inner) * steps[CHANNEL]
                    to = b * out_steps[BATCH] + (outer + inner) * out_steps[CHANNEL] + number * out_steps[COLUMN]
                    out[to] = sum_of_window(data, at, steps, window, (1, 1, 1)) / count
    return OK
