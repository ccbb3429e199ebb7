"""Pooling: the maximum or the mean of each window.

The bodies differ in their windows: ``moved_window``, ``shared_window``.  Means are summed in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ...native.front_end.vector_hints import add_in_any_order
from ...native.memory import Array, Axes, Element, generic
from ...native.static_values import static, static_range
from ...native.status import EMPTY_REDUCTION, OK
from ...native.vector_registers import vector_bytes
from ...native.vectors import exact, lanes_below, load, load_or_zero, splat, sum_of_lanes
from ..shaped import Shaped
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, Spatial, end_inside, first_inside, spatial, start_of
from .largest_of_taps import MOST_STEP, take_largest
from .mean_rows import SMALLEST, has_masks, row_of_means
from .means_in_tiles import fits_means, means_by_tiles
from .tiles_of_rows import fits_tiles, largest_by_tiles
from .windows import Windows

#: Vectors of sums of halves: an addition waits for the one before it in its vector.
_SUMS, _HALF_BYTES = 4, 2


@generic
def largest_of_window(given: Spatial, at: int, window: Axes, dilation: Axes) -> Element:
    """The maximum of a non-empty window, NaN if an element is NaN; ``window``: (begin, end) along depth, row, column."""
    data, steps = given.data, given.steps
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
def sum_of_halves(given: Spatial, at: int, window: Axes) -> float:
    """As ``sum_of_window``, of neighbouring halves: vectors of float32 are added to their lanes, and lanes in float64."""
    total, lanes, steps, run = 0.0, vector_bytes() // 4, given.steps, window[5] - window[4]
    is_whole = run == steps[ROW]
    rows, count = (1, (window[3] - window[2]) * run) if is_whole else (window[3] - window[2], run)
    sums = [splat(np.float32(0.0), static(lanes))] * _SUMS
    for z in range(window[0], window[1]):
        for y in range(rows):
            line = at + z * steps[DEPTH] + (window[2] + y) * steps[ROW] + window[4]
            some = count // (_SUMS * lanes) * (_SUMS * lanes)
            for x in range(0, some, _SUMS * lanes):
                for n in static_range(_SUMS):
                    sums[n] = sums[n] + load(given.data, line + x + n * lanes, static(lanes))
            for x in range(some, count, lanes):
                sums[0] = sums[0] + load_or_zero(given.data, line + x, lanes_below(count - x, static(lanes)))
    for n in static_range(_SUMS):
        total += np.float64(sum_of_lanes(sums[n]))
    return total


@generic
def sum_of_window(given: Spatial, at: int, window: Axes, dilation: Axes) -> float:
    """The sum of a window as a float64."""
    total, steps = 0.0, given.steps
    for z in range(window[0], window[1], dilation[0]):
        for y in range(window[2], window[3], dilation[1]):
            line = at + z * steps[DEPTH] + y * steps[ROW]
            for x in range(window[4], window[5], dilation[2]):
                total = add_in_any_order(total, np.float64(given.data[np.uint64(line + x * steps[COLUMN])]))
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
def moved_window(sizes: Axes, place: Axes, windows: Windows) -> tuple[Axes, int]:
    """The part inside the data of the window at ``place`` (depth, row, column), and its number of positions with padding.

    Positions beyond the padding, which ``ceil_mode`` may cause, count as padding.
    """
    pool_size, stride, before, dilation = windows
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
def lane_of(number: int, out: Spatial, last: bool) -> tuple[Axes, int]:
    """The position of a lane, in the form of ``tap_lane``, and the offset of its results within a batch and channel."""
    sizes, steps = out.sizes, out.steps
    columns = sizes[COLUMN] if last else 1
    z, y, x = number // columns // sizes[ROW], number // columns % sizes[ROW], number % columns
    to = z * steps[DEPTH] + y * steps[ROW] + x * steps[COLUMN]
    return (z, y, x if last else sizes[COLUMN]), to


@generic
def tap_lane(tap: Axes, place: Axes, data: Spatial, windows: Windows, last: bool) -> tuple[int, int, int, int]:
    """The operands of one tap (depth, row, column) for a lane: start in the data, step, first and end index of the lane.

    A lane is one row of results of a channel, and ``place`` is (depth, row, number of results).  If the channels of the data are
    ``last``, a lane is all channels of one result, and ``place`` is (depth, row, column).  The lane is empty outside the data.
    """
    (_, sizes, steps), (_, stride, before, dilation) = data, windows
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
def largest_of_rows(line: Array, given: Spatial, at: int, place: Axes, windows: Windows, lowest: Element) -> None:
    """Store in ``line[before + x]`` the largest element of column ``x`` in the rows of the windows at ``place`` (depth, row).

    Other elements of ``line`` remain as they are; ``lowest`` where no row is inside the data.
    """
    (data, sizes, steps), (pool_size, stride, before, dilation) = given, windows
    count, taken_rows = min(sizes[COLUMN], len(line) - 1 - before[2]), 0
    y = place[1] * stride[1] - before[1]
    first, end = first_inside(y, dilation[1]), end_inside(y, dilation[1], sizes[ROW], pool_size[1])
    for dz in range(pool_size[0]):
        z = place[0] * stride[0] + dz * dilation[0] - before[0]
        if 0 <= z < sizes[DEPTH] and first < end:
            start = at + z * steps[DEPTH] + (y + first * dilation[1]) * steps[ROW]
            take_largest(data, start, end - first, dilation[1] * steps[ROW], 1, line, before[2], count, taken_rows)
            taken_rows += end - first
    if taken_rows == 0:
        for x in range(count):
            line[np.uint64(before[2] + x)] = lowest


@generic
def largest_by_rows(data: Spatial, out: Spatial, line: Array, low: int, high: int, windows: Windows, lowest: Element) -> None:
    """``max_pool`` of data whose channels are first: the rows of each window, then its columns."""
    sizes, stride, count, step = data.sizes, windows.stride[2], out.sizes[COLUMN], out.steps[COLUMN]
    for x in range(len(line)):
        line[np.uint64(x)] = lowest
    for plane in range(low, high):
        at = plane * data.steps[CHANNEL]
        for lane in range(out.sizes[DEPTH] * out.sizes[ROW]):
            place, to = lane_of(lane, out, False)
            to += start_of(out, plane // sizes[CHANNEL], plane % sizes[CHANNEL])
            largest_of_rows(line, data, at, place, windows, lowest)
            if stride <= MOST_STEP and step == 1:
                take_largest(line, 0, windows.pool_size[2], windows.dilation[2], stride, out.data, to, count, 0)
                continue
            for i in range(count):
                out.data[np.uint64(to + i * step)] = lowest
            for x in range(windows.pool_size[2]):
                take_larger(out.data, to, step, line, x * windows.dilation[2], stride, 0, count)


@generic
def largest_by_points(data: Spatial, out: Spatial, low: int, high: int, windows: Windows, lowest: Element) -> None:
    """``max_pool`` of data whose channels are last: all channels of a result together."""
    lanes, step = out.sizes[DEPTH] * out.sizes[ROW] * out.sizes[COLUMN], out.steps[CHANNEL]
    for number in range(low, high):
        b = number // max(lanes, 1)
        place, to = lane_of(number % max(lanes, 1), out, True)
        to += b * out.steps[BATCH]
        for i in range(out.sizes[CHANNEL]):
            out.data[np.uint64(to + i * step)] = lowest
        for z in range(windows.pool_size[0]):
            for y in range(windows.pool_size[1]):
                for x in range(windows.pool_size[2]):
                    start, apart, first, end = tap_lane((z, y, x), place, data, windows, True)
                    take_larger(out.data, to, step, data.data, b * data.steps[BATCH] + start, apart, first, end)


@generic
def max_pool(
    data: Shaped,
    out: Shaped,
    low: int,
    high: int,
    line: Array,
    windows: Windows,
    layouts: tuple[bool, ...],
    taps: int,
    step: int,
    lowest: Element,
) -> int:
    """The maximum of each window; ``lowest`` for an empty window.

    Blocks ``low`` to ``high`` (exclusive): the channels of each element of the batch, or its results if channels are last.
    ``line``: buffer for a padded row and an element behind it, of halves in float32.  ``taps`` and ``step`` are static: the
    columns of a window, 0 if they are not neighbours, and from a window to the next.
    """
    given, results = spatial(data, layouts[0]), spatial(Shaped(exact(out.data), out.dims), layouts[1])
    if layouts[0]:
        largest_by_points(given, results, low, high, windows, lowest)
    elif fits_tiles(taps, step, line.itemsize) and results.steps[COLUMN] == 1:
        line[0] = lowest
        nothing = splat(line[0], static(vector_bytes() // line.itemsize))
        largest_by_tiles(given, results, nothing, low, high, windows, taps, step)
    else:
        largest_by_rows(given, results, line, low, high, windows, lowest)
    return OK


@generic
def max_pool_floats(
    data: Shaped,
    out: Shaped,
    low: int,
    high: int,
    line: Array,
    windows: Windows,
    layouts: tuple[bool, ...],
    taps: int,
    step: int,
) -> int:
    """``max_pool`` of floats."""
    return max_pool(data, out, low, high, line, windows, layouts, taps, step, -math.inf)


@generic
def max_pool_signed(
    data: Shaped,
    out: Shaped,
    low: int,
    high: int,
    line: Array,
    windows: Windows,
    layouts: tuple[bool, ...],
    taps: int,
    step: int,
) -> int:
    """``max_pool`` of signed integers."""
    return max_pool(data, out, low, high, line, windows, layouts, taps, step, -1 << (8 * out.data.itemsize - 1))


@generic
def max_pool_unsigned(
    data: Shaped,
    out: Shaped,
    low: int,
    high: int,
    line: Array,
    windows: Windows,
    layouts: tuple[bool, ...],
    taps: int,
    step: int,
) -> int:
    """``max_pool`` of unsigned integers."""
    return max_pool(data, out, low, high, line, windows, layouts, taps, step, 0)


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
def count_columns(counts: Array, columns: int, windows: Windows) -> None:
    """The number of elements per row in the window of each result column, for data of ``columns`` columns."""
    dilation = windows.dilation[2]
    for x in range(len(counts)):
        start = x * windows.stride[2] - windows.before[2]
        end = min(start + (windows.pool_size[2] - 1) * dilation + 1, columns)
        counts[x] = taken(begin_of(start, dilation), end, dilation)


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
    data: Spatial, out: Spatial, totals: Array, counts: Array, windows: Windows, last: bool, count_include_pad: bool
) -> None:
    """``avg_pool`` with a buffer for a lane of sums, and the ``counts`` of ``count_columns``; ones with ``count_include_pad``."""
    sizes, pool_size, dilation = out.sizes, windows.pool_size, windows.dilation
    lanes = sizes[DEPTH] * sizes[ROW] * (sizes[COLUMN] if last else 1)
    count, to_step = (sizes[CHANNEL], out.steps[CHANNEL]) if last else (sizes[COLUMN], out.steps[COLUMN])
    for b in range(sizes[BATCH]):
        for outer in range(1 if last else sizes[CHANNEL]):
            at = start_of(data, b, outer)
            for lane in range(lanes):
                place, to = lane_of(lane, out, last)
                if has_masks() and out.data.itemsize >= SMALLEST and not last and to_step == 1 and windows.stride[2] == 1:
                    row_of_means(data, at, place, windows, out, to + start_of(out, b, outer), counts, count_include_pad)
                    continue
                for i in range(count):
                    totals[np.uint64(i)] = 0.0
                for z in range(pool_size[0]):
                    for y in range(pool_size[1]):
                        for x in range(pool_size[2]):
                            start, step, first, end = tap_lane((z, y, x), place, data, windows, last)
                            add_lane(totals, data.data, at + start, step, first, end)
                window, positions = moved_window(data.sizes, place, windows)
                rows = taken(window[0], window[1], dilation[0]) * taken(window[2], window[3], dilation[1])
                lines = float(positions if count_include_pad else rows)
                to += start_of(out, b, outer)
                store_means(out.data, to, to_step, totals, lines, counts, place[2] if last else -1, count)


@generic
def avg_pool(
    data: Shaped,
    out: Shaped,
    counts: Array,
    totals: Array,
    windows: Windows,
    layouts: tuple[bool, ...],
    count_include_pad: bool,
    taps: int,
    step: int,
) -> int:
    """The mean of each window: over its elements, or its positions with ``count_include_pad``; 0 for an empty window.

    ``counts`` and ``totals``: one per column of a result row; ``totals`` also at least one per channel.  ``taps`` and ``step``:
    as of ``max_pool``.
    """
    given, results = spatial(data, layouts[0]), spatial(out, layouts[1])
    if count_include_pad:
        for x in range(results.sizes[COLUMN]):
            counts[x] = 1.0
    else:
        count_columns(counts, given.sizes[COLUMN], windows)
    if fits_means(taps, step, out.data.itemsize) and not layouts[0] and results.steps[COLUMN] == 1:
        means_by_tiles(given, results, counts, windows, taps, step, count_include_pad)
    else:
        average(given, results, totals, counts, windows, layouts[0], count_include_pad)
    return OK


@generic
def adaptive_max_pool(data: Shaped, out: Shaped, layouts: tuple[bool, ...]) -> int:
    """The maximum of each adaptive window."""
    given, results = spatial(data, layouts[0]), spatial(out, layouts[1])
    sizes = results.sizes
    if given.sizes[DEPTH] * given.sizes[ROW] * given.sizes[COLUMN] == 0:
        return EMPTY_REDUCTION if len(out.data) else OK
    for b in range(sizes[BATCH]):
        for outer in range(1 if layouts[1] else sizes[CHANNEL]):
            for number in range(sizes[DEPTH] * sizes[ROW] * sizes[COLUMN]):
                window = shared_window(given.sizes, place_of(number, sizes), sizes)
                for inner in range(sizes[CHANNEL] if layouts[1] else 1):
                    to = start_of(results, b, outer + inner) + number * results.steps[COLUMN]
                    out.data[to] = largest_of_window(given, start_of(given, b, outer + inner), window, (1, 1, 1))
    return OK


@generic
def adaptive_avg_pool(data: Shaped, out: Shaped, layouts: tuple[bool, ...]) -> int:
    """The mean of each adaptive window; NaN for an empty window."""
    given, results = spatial(data, layouts[0]), spatial(out, layouts[1])
    sizes = results.sizes
    for b in range(sizes[BATCH]):
        for outer in range(1 if layouts[1] else sizes[CHANNEL]):
            for number in range(sizes[DEPTH] * sizes[ROW] * sizes[COLUMN]):
                window = shared_window(given.sizes, place_of(number, sizes), sizes)
                count = elements(window, (1, 1, 1))
                for inner in range(sizes[CHANNEL] if layouts[1] else 1):
                    to, at = (
                        start_of(results, b, outer + inner) + number * results.steps[COLUMN],
                        start_of(given, b, outer + inner),
                    )
                    if data.data.itemsize == _HALF_BYTES and not layouts[0]:
                        out.data[to] = sum_of_halves(given, at, window) / count
                    else:
                        out.data[to] = sum_of_window(given, at, window, (1, 1, 1)) / count
    return OK
