"""Pooling: the maximum or the mean of each window.

The bodies differ in their windows: ``moved_window``, ``shared_window``.  Means are summed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...native.front_end.vector_hints import add_in_any_order
from ...native.jit.largest_of_taps import MOST_STEP, take_largest
from ...native.memory import Array, Axes, Element, generic
from ...native.status import EMPTY_REDUCTION, OK
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside, sizes_of, strides_of


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
def take_by_loops(data: Array, at: int, taps: int, tap_step: int, step: int, out: Array, to: int, count: int, more: int) -> None:
    """As ``take_largest``, for any ``step`` and for arrays of different dtypes."""
    if more == 0:
        for i in range(count):
            out[np.uint64(to + i)] = data[np.uint64(at + i * step)]
    for t in range(1 if more == 0 else 0, taps):
        take_larger(out, to, 1, data, at + t * tap_step, step, 0, count)


@generic
def largest_of_rows(
    line: Array, data: Array, at: int, sizes: Axes, steps: Axes, place: Axes, pool_size: Axes, stride: Axes, before: Axes,
    dilation: Axes, lowest: Element, take: Callable[..., None],
) -> None:  # fmt: skip
    """Store in ``line[before + x]`` the largest element of column ``x`` in the rows of the windows at ``place`` (depth, row).

    Other elements of ``line`` remain as they are; ``lowest`` where no row is inside the data.
    """
    count, taken_rows = min(sizes[COLUMN], len(line) - 1 - before[2]), 0
    y = place[1] * stride[1] - before[1]
    first, end = first_inside(y, dilation[1]), end_inside(y, dilation[1], sizes[ROW], pool_size[1])
    for dz in range(pool_size[0]):
        z = place[0] * stride[0] + dz * dilation[0] - before[0]
        if 0 <= z < sizes[DEPTH] and first < end:
            start = at + z * steps[DEPTH] + (y + first * dilation[1]) * steps[ROW]
            take(data, start, end - first, dilation[1] * steps[ROW], 1, line, before[2], count, taken_rows)
            taken_rows += end - first
    if taken_rows == 0:
        for x in range(count):
            line[np.uint64(before[2] + x)] = lowest


@generic
def largest_by_rows(
    data: Array, out: Array, line: Array, low: int, high: int, sizes: Axes, out_sizes: Axes, pool_size: Axes, stride: Axes,
    before: Axes, dilation: Axes, to_last: bool, lowest: Element, take: Callable[..., None],
) -> None:  # fmt: skip
    """``max_pool`` of data whose channels are first: the rows of each window, then its columns."""
    steps, out_steps = strides_of(sizes, False), strides_of(out_sizes, to_last)
    for x in range(len(line)):
        line[np.uint64(x)] = lowest
    for plane in range(low, high):
        at = plane * steps[CHANNEL]
        for lane in range(out_sizes[DEPTH] * out_sizes[ROW]):
            place, to = lane_of(lane, out_sizes, out_steps, False)
            to += plane // sizes[CHANNEL] * out_steps[BATCH] + plane % sizes[CHANNEL] * out_steps[CHANNEL]
            largest_of_rows(line, data, at, sizes, steps, place, pool_size, stride, before, dilation, lowest, take)
            if stride[2] <= MOST_STEP and out_steps[COLUMN] == 1:
                take(line, 0, pool_size[2], dilation[2], stride[2], out, to, out_sizes[COLUMN], 0)
                continue
            for i in range(out_sizes[COLUMN]):
                out[np.uint64(to + i * out_steps[COLUMN])] = lowest
            for x in range(pool_size[2]):
                take_larger(out, to, out_steps[COLUMN], line, x * dilation[2], stride[2], 0, out_sizes[COLUMN])


@generic
def largest_by_points(
    data: Array, out: Array, low: int, high: int, sizes: Axes, out_sizes: Axes, pool_size: Axes, stride: Axes, before: Axes,
    dilation: Axes, to_last: bool, lowest: Element,
) -> None:  # fmt: skip
    """``max_pool`` of data whose channels are last: all channels of a result together."""
    steps, out_steps = strides_of(sizes, True), strides_of(out_sizes, to_last)
    lanes = out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]
    for number in range(low, high):
        b = number // max(lanes, 1)
        place, to = lane_of(number % max(lanes, 1), out_sizes, out_steps, True)
        to += b * out_steps[BATCH]
        for i in range(out_sizes[CHANNEL]):
            out[np.uint64(to + i * out_steps[CHANNEL])] = lowest
        for z in range(pool_size[0]):
            for y in range(pool_size[1]):
                for x in range(pool_size[2]):
                    start, step, first, end = tap_lane((z, y, x), place, sizes, steps, stride, before, dilation, True)
                    take_larger(out, to, out_steps[CHANNEL], data, b * steps[BATCH] + start, step, first, end)


@generic
def max_pool(
    data: Array, data_dims: Axes, out: Array, out_dims: Axes, low: int, high: int, line: Array, pool_size: Axes, stride: Axes,
    before: Axes, dilation: Axes, layouts: tuple[bool, ...], lowest: Element, take: Callable[..., None],
) -> int:  # fmt: skip
    """The maximum of each window; ``lowest`` for an empty window.

    Blocks ``low`` to ``high`` (exclusive): the channels of each element of the batch, or its results if channels are last.
    ``line``: buffer for a padded row and an element behind it; ``take``: ``take_largest`` or ``take_by_loops``.
    """
    sizes, out_sizes = sizes_of(data_dims, layouts[0]), sizes_of(out_dims, layouts[1])
    if layouts[0]:
        largest_by_points(data, out, low, high, sizes, out_sizes, pool_size, stride, before, dilation, layouts[1], lowest)
    else:
        largest_by_rows(
            data, out, line, low, high, sizes, out_sizes, pool_size, stride, before, dilation, layouts[1], lowest, take
        )
    return OK


@generic
def max_pool_floats(
    data: Array, data_dims: Axes, out: Array, out_dims: Axes, low: int, high: int, line: Array, pool_size: Axes, stride: Axes,
    before: Axes, dilation: Axes, layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """``max_pool`` of floats."""
    return max_pool(
        data, data_dims, out, out_dims, low, high, line, pool_size, stride, before, dilation, layouts, -math.inf, take_largest
    )


@generic
def max_pool_halves(
    data: Array, data_dims: Axes, out: Array, out_dims: Axes, low: int, high: int, line: Array, pool_size: Axes, stride: Axes,
    before: Axes, dilation: Axes, layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """``max_pool`` of halves."""
    return max_pool(
        data, data_dims, out, out_dims, low, high, line, pool_size, stride, before, dilation, layouts, -math.inf, take_by_loops
    )


@generic
def max_pool_signed(
    data: Array, data_dims: Axes, out: Array, out_dims: Axes, low: int, high: int, line: Array, pool_size: Axes, stride: Axes,
    before: Axes, dilation: Axes, layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """``max_pool`` of signed integers."""
    lowest = -1 << (8 * out.itemsize - 1)
    return max_pool(
        data, data_dims, out, out_dims, low, high, line, pool_size, stride, before, dilation, layouts, lowest, take_largest
    )


@generic
def max_pool_unsigned(
    data: Array, data_dims: Axes, out: Array, out_dims: Axes, low: int, high: int, line: Array, pool_size: Axes, stride: Axes,
    before: Axes, dilation: Axes, layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """``max_pool`` of unsigned integers."""
    return max_pool(
        data, data_dims, out, out_dims, low, high, line, pool_size, stride, before, dilation, layouts, 0, take_largest
    )


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
