"""Convolution of each channel by itself, over two axes, of small pictures: vectors hold channels.

Rows of small pictures are shorter than a vector.  The channels of a few vectors are turned, so that a position's are neighbours,
and so are their weights; taps outside the data are left out.  The sums are turned into the result.

Every element of the result is one sum over the taps inside the data, in order: the same bits for any number of threads.
"""

from __future__ import annotations

import numpy as np

from ...native.front_end.vector_hints import multiply_add
from ...native.memory import Array, Axes, generic
from ...native.static_values import at_compile_time, static_range
from ...native.vector_registers import vector_bytes
from ...native.vectors import load, splat, store
from ..spatial.cpu import CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside
from .by_positions import turn
from .epilogue import Epilogue, Limits
from .geometry import Convolution, tap_count

#: Channels that are convolved together: with fewer, the steps from tap to tap take longer than the products.
LANES = 64
#: The most positions of the data, and the most taps: those of LANES channels are in the second cache.
MOST_POSITIONS, MOST_TAPS = 576, 49
#: The most positions of the result, and with strides or dilation: vectors along rows are faster with more.
MOST_RESULTS, MOST_APART = 100, 196
#: Vectors of sums that are computed together: an addition waits for the one before it in its vector.
TOGETHER = 4
#: Positions that are computed together, and their vectors: a product then takes a load and a quarter, of one position two loads.
NEIGHBOURS, VECTORS = 4, 2


@generic
def most_results(stride: Axes, dilation: Axes) -> int:
    """The most positions of a result."""
    return MOST_RESULTS if stride[1] * stride[2] * dilation[1] * dilation[2] == 1 else MOST_APART


@generic
def has_few_positions(conv: Convolution) -> bool:
    """Whether groups have one channel of data and of the result, and pictures few positions, over two axes."""
    (outputs, inputs, depth, height, width), data, out = conv.weight.sizes, conv.data, conv.out
    is_flat = data.sizes[DEPTH] == out.sizes[DEPTH] == depth == 1
    is_small = data.sizes[ROW] * data.sizes[COLUMN] <= MOST_POSITIONS and height * width <= MOST_TAPS
    has_few_results = out.sizes[ROW] * out.sizes[COLUMN] <= most_results(conv.window.stride, conv.window.dilation)
    return outputs == conv.groups and inputs == 1 and is_flat and is_small and has_few_results


@at_compile_time
def vector_lanes(itemsize: int) -> int:
    """The lanes of a vector of sums."""
    return vector_bytes() // itemsize


@generic
def add_neighbours(
    work: Array, to: int, weights: int, source: int, rows: int, row: int, channels: int, conv: Convolution
) -> None:
    """Compute the sums of NEIGHBOURS positions of a row, all of whose taps of ``rows`` rows are inside the data.

    They share the weights in registers.  ``source``: the operand of their first tap; ``row``: the elements to the row below.
    """
    wide, right, across = conv.weight.sizes[4], conv.window.stride[2], conv.window.dilation[2]
    lanes = vector_lanes(work.itemsize)
    zero = splat(work.dtype.type(0), lanes)
    for part in range(0, channels, VECTORS * lanes):
        totals, factor = [zero] * (NEIGHBOURS * VECTORS), weights + part
        for y in range(rows):
            operand = source + y * row + part
            for _ in range(wide):
                factors = [load(work, factor + n * lanes, lanes) for n in static_range(VECTORS)]
                for p in static_range(NEIGHBOURS):
                    for n in static_range(VECTORS):
                        operands = load(work, operand + p * right * LANES + n * lanes, lanes)
                        totals[p * VECTORS + n] = multiply_add(factors[n], operands, totals[p * VECTORS + n])
                factor += LANES
                operand += across * LANES
        for p in static_range(NEIGHBOURS):
            for n in static_range(VECTORS):
                store(work, to + p * LANES + part + n * lanes, totals[p * VECTORS + n])


@generic
def add_position(work: Array, to: int, weights: int, y: int, x: int, channels: int, conv: Convolution) -> None:
    """Compute the sums of a position."""
    (_, height, width), (_, tall, wide) = conv.data.sizes[2:], conv.weight.sizes[2:]
    (_, down, right), (_, above, before), (_, below, across) = conv.window
    top, left, lanes = y * down - above, x * right - before, vector_lanes(work.itemsize)
    low, high = first_inside(top, below), end_inside(top, below, height, tall)
    first, end = first_inside(left, across), end_inside(left, across, width, wide)
    zero = splat(work.dtype.type(0), lanes)
    for part in range(0, channels, TOGETHER * lanes):
        totals = [zero] * TOGETHER
        for row in range(low, high):
            factor = weights + (row * wide + first) * LANES + part
            operand = ((top + row * below) * width + left + first * across) * LANES + part
            for _ in range(end - first):
                for n in static_range(TOGETHER):
                    factors, operands = load(work, factor + n * lanes, lanes), load(work, operand + n * lanes, lanes)
                    totals[n] = multiply_add(factors, operands, totals[n])
                factor += LANES
                operand += across * LANES
        for n in static_range(TOGETHER):
            store(work, to + part + n * lanes, totals[n])


@generic
def add_plane(work: Array, sums: int, weights: int, channels: int, conv: Convolution) -> None:
    """Compute the sums of all positions of ``channels`` channels; the data are at the beginning of ``work``."""
    (_, height, width), (_, tall, wide) = conv.data.sizes[2:], conv.weight.sizes[2:]
    (_, down, right), (_, above, before), (_, below, across) = conv.window
    columns, to, last = conv.out.sizes[COLUMN], sums, (NEIGHBOURS - 1) * right + (wide - 1) * across
    for y in range(conv.out.sizes[ROW]):
        top, x = y * down - above, 0
        low, high = first_inside(top, below), end_inside(top, below, height, tall)
        while x < columns:
            left = x * right - before
            if x + NEIGHBOURS <= columns and left >= 0 and left + last < width:
                source, row = ((top + low * below) * width + left) * LANES, below * width * LANES
                add_neighbours(work, to, weights + low * wide * LANES, source, high - low, row, channels, conv)
                x += NEIGHBOURS
                to += NEIGHBOURS * LANES
            else:
                add_position(work, to, weights, y, x, channels, conv)
                x += 1
                to += LANES


@generic
def turn_weights(weight: Array, at: int, taps: Axes, count: int, number: int, work: Array, to: int) -> None:
    """Store the ``number`` taps of ``count`` channels; ``taps``: the elements from channel, input and tap to the next."""
    if taps[2] == 1:
        turn(weight, at, taps[0], number, count, work, to, LANES)
    else:
        for tap in range(number):
            for c in range(count):
                work[to + tap * LANES + c] = weight[at + tap * taps[2] + c * taps[0]]


@generic
def limit_sums(work: Array, sums: int, extent: int, channel: int, count: int, limits: Limits) -> None:
    """Add to the sums of ``count`` channels their addends, and limit them; a sum that is NaN stays NaN."""
    least, most = work.dtype.type(limits.lowest), work.dtype.type(limits.highest)
    for place in range(extent):
        at = sums + place * LANES
        for c in range(count):
            total = work[np.uint64(at + c)] + limits.addend[np.uint64(channel + c)]
            work[np.uint64(at + c)] = least if total < least else (most if total > most else total)


@generic
def convolve_channels(conv: Convolution, work: Array, epilogue: Epilogue, limits: Limits, low: int, high: int) -> None:
    """As ``convolve_depthwise``.  ``work``: for the data, weights and sums of LANES channels."""
    data, weight, out, number, is_limited = conv.data, conv.weight, conv.out.data, tap_count(conv.weight), limits.is_limited
    extent, out_extent, channels = data.steps[CHANNEL], conv.out.steps[CHANNEL], weight.sizes[0]
    weights, sums = extent * LANES, (extent + number) * LANES
    first = low
    while first < high:
        channel = first % channels
        count = min(LANES, min(high - first, channels - channel))
        # whole vectors of channels; of those that are missing nothing is stored
        lanes = TOGETHER * vector_lanes(work.itemsize)
        multiplied = (count + lanes - 1) // lanes * lanes
        for place in range(extent + number if count < multiplied else 0):
            for c in range(count, multiplied):
                work[np.uint64(place * LANES + c)] = 0
        turn(data.data, first * extent, extent, extent, count, work, 0, LANES)
        turn_weights(weight.data, channel * weight.steps[0], weight.steps, count, number, work, weights)
        add_plane(work, sums, weights, multiplied, conv)
        if is_limited:
            limit_sums(work, sums, out_extent, channel, count, limits)
        turn(work, sums, LANES, count, out_extent, out, first * out_extent, out_extent)
        if not is_limited:
            epilogue.finish(epilogue.argv, first * out_extent, count, out_extent, out, first * out_extent, out_extent)
        first += count
