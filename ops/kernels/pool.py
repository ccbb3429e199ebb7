"""Pooling: the largest element, or the mean, of each window.

The bodies differ in where their windows are: ``moved_window``, ``shared_window``.  Means are summed in float64.
"""

from __future__ import annotations

import math

import numpy as np

from ..native.memory import generic
from ..native.status import EMPTY_REDUCTION, OK
from .planes import BATCH, CHANNEL, COLUMN, DEPTH, ROW, sizes_of, strides_of


@generic
def largest_of_window(data, at, steps, window, dilation):  # type: ignore[no-untyped-def]
    """The largest element, NaN if one is, of a window with elements: ``window`` is begin and end along depth, row, column."""
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
def sum_of_window(data, at, steps, window, dilation):  # type: ignore[no-untyped-def]
    """The sum as a float64."""
    total = 0.0
    for z in range(window[0], window[1], dilation[0]):
        for y in range(window[2], window[3], dilation[1]):
            line = at + z * steps[DEPTH] + y * steps[ROW]
            for x in range(window[4], window[5], dilation[2]):
                total += np.float64(data[np.uint64(line + x * steps[COLUMN])])
    return total


@generic
def taken(begin, end, dilation):  # type: ignore[no-untyped-def]
    """How many positions a window has along an axis."""
    return (max(end - begin, 0) + dilation - 1) // dilation


@generic
def elements(window, dilation):  # type: ignore[no-untyped-def]
    """How many elements a window has."""
    rows = taken(window[2], window[3], dilation[1])
    return taken(window[0], window[1], dilation[0]) * rows * taken(window[4], window[5], dilation[2])


@generic
def begin_of(start, dilation):  # type: ignore[no-untyped-def]
    """The first position inside the data of a window that starts at ``start``."""
    return start if start >= 0 else start % dilation


@generic
def moved_window(sizes, place, pool_size, stride, before, dilation):  # type: ignore[no-untyped-def]
    """The part inside the data of the window at ``place`` (depth, row, column), and how many positions it has with padding.

    Positions behind the padding, which ``ceil_mode`` may make, count: they are padding.
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
def shared_window(sizes, place, out_sizes):  # type: ignore[no-untyped-def]
    """The window at ``place`` when so many windows as there are results share each axis: they may overlap by one."""
    return (
        place[0] * sizes[DEPTH] // out_sizes[DEPTH],
        -(-(place[0] + 1) * sizes[DEPTH] // out_sizes[DEPTH]),
        place[1] * sizes[ROW] // out_sizes[ROW],
        -(-(place[1] + 1) * sizes[ROW] // out_sizes[ROW]),
        place[2] * sizes[COLUMN] // out_sizes[COLUMN],
        -(-(place[2] + 1) * sizes[COLUMN] // out_sizes[COLUMN]),
    )


@generic
def place_of(number, sizes):  # type: ignore[no-untyped-def]
    """Depth, row and column of spatial element ``number``."""
    return number // (sizes[ROW] * sizes[COLUMN]), number // sizes[COLUMN] % sizes[ROW], number % sizes[COLUMN]


@generic
def max_pool(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts, lowest):  # type: ignore[no-untyped-def]
    """The largest element of each window; ``lowest`` where it has none."""
    sizes, out_sizes = sizes_of(data_dims, layouts[0]), sizes_of(out_dims, layouts[1])
    steps, out_steps = strides_of(sizes, layouts[0]), strides_of(out_sizes, layouts[1])
    for b in range(out_sizes[BATCH]):
        for outer in range(1 if layouts[1] else out_sizes[CHANNEL]):
            for number in range(out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]):
                window, _ = moved_window(sizes, place_of(number, out_sizes), pool_size, stride, before, dilation)
                count = elements(window, dilation)
                for inner in range(out_sizes[CHANNEL] if layouts[1] else 1):
                    at = b * steps[BATCH] + (outer + inner) * steps[CHANNEL]
                    to = b * out_steps[BATCH] + (outer + inner) * out_steps[CHANNEL] + number * out_steps[COLUMN]
                    if count > 0:
                        out[to] = largest_of_window(data, at, steps, window, dilation)
                    else:
                        out[to] = lowest
    return OK


@generic
def max_pool_floats(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts):  # type: ignore[no-untyped-def]
    """``max_pool`` of floats."""
    return max_pool(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts, -math.inf)


@generic
def max_pool_signed(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts):  # type: ignore[no-untyped-def]
    """``max_pool`` of signed integers."""
    lowest = -1 << (8 * out.itemsize - 1)
    return max_pool(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts, lowest)


@generic
def max_pool_unsigned(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts):  # type: ignore[no-untyped-def]
    """``max_pool`` of unsigned integers."""
    return max_pool(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts, 0)


@generic
def avg_pool(data, data_dims, out, out_dims, pool_size, stride, before, dilation, layouts, count_include_pad):  # type: ignore[no-untyped-def]
    """The mean of each window: over its elements, or its positions with ``count_include_pad``; 0 where it has none."""
    sizes, out_sizes = sizes_of(data_dims, layouts[0]), sizes_of(out_dims, layouts[1])
    steps, out_steps = strides_of(sizes, layouts[0]), strides_of(out_sizes, layouts[1])
    for b in range(out_sizes[BATCH]):
        for outer in range(1 if layouts[1] else out_sizes[CHANNEL]):
            for number in range(out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]):
                window, positions = moved_window(sizes, place_of(number, out_sizes), pool_size, stride, before, dilation)
                count = max(1, positions if count_include_pad else elements(window, dilation))
                for inner in range(out_sizes[CHANNEL] if layouts[1] else 1):
                    at = b * steps[BATCH] + (outer + inner) * steps[CHANNEL]
                    to = b * out_steps[BATCH] + (outer + inner) * out_steps[CHANNEL] + number * out_steps[COLUMN]
                    out[to] = sum_of_window(data, at, steps, window, dilation) / count
    return OK


@generic
def adaptive_max_pool(data, data_dims, out, out_dims, layouts):  # type: ignore[no-untyped-def]
    """The largest element of each of the windows that share the data."""
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
def adaptive_avg_pool(data, data_dims, out, out_dims, layouts):  # type: ignore[no-untyped-def]
    """The mean of each of the windows that share the data; NaN of none."""
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
