"""Convolution of groups of a few channels, channels first: vectors hold output channels of a group.

The data that a band of rows of the result reads are turned: the channels of a position are neighbours.  The weights are turned,
too.  A table has the offsets of all taps of the positions of a band, for all groups; a tap outside the data reads a position of
zeros.  No column is packed, no picture is padded, and products take as long with strides and dilation as without.

Every element of the result is one sum over taps and channels, in order: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...native.inlining import apart
from ...native.jit.block_transpose import turn_block
from ...native.jit.convolution.gathered_tile import POSITIONS, convolve_tile, tile_lanes
from ...native.jit.products.operands import Rows
from ...native.memory import Array, generic
from ...native.static_values import static_range
from ...native.status import OK
from ...native.vectors import load, select, splat, store
from ..conv.cpu import CHANNELS_FIRST
from ..conv.epilogue import Epilogue, ScaledLimits, clip_of_channels, is_finished
from ..conv.geometry import Convolution, Window, convolution, tap_count
from ..shaped import Shaped
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, ROW

#: Positions of a band of rows, unless LEAST_ROWS rows have more.  Operands and offsets stay in the second cache.
BAND, LEAST_ROWS = 256, 2


@generic
def band_rows(columns: int) -> int:
    """The most rows of the result in a band."""
    return max(BAND // max(columns, 1), LEAST_ROWS)


@generic
def turn(source: Array, at: int, stride: int, rows: int, columns: int, target: Array, to: int, pitch: int) -> None:
    """Store ``target[to + r * pitch + c] = source[at + r + c * stride]`` for ``r`` below ``rows`` and ``c`` below ``columns``.

    By squares; the last square of some columns ends with the rows: elements are stored twice.
    """
    side = tile_lanes(source.itemsize)
    squares = (rows + side - 1) // side if rows >= side else 0
    for c in range(0, columns, side):
        if columns - c >= side:
            for n in range(squares):
                r = min(n * side, rows - side)
                square = turn_block(source, at + r + c * stride, stride, side)
                for k in static_range(side):
                    store(target, to + (r + k) * pitch + c, square[k])
        if columns - c < side or squares == 0:
            for k in range(c, min(c + side, columns)):
                for r in range(rows):
                    target[to + r * pitch + k] = source[at + r + k * stride]


@generic
def rows_read(first: int, end: int, conv: Convolution) -> tuple[int, int]:
    """The rows of the data that the rows ``first`` to ``end`` (exclusive) of the result read, the last one exclusive."""
    height, down, above = conv.data.sizes[ROW], conv.window.stride[1], conv.window.before[1]
    reach = (conv.weight.sizes[3] - 1) * conv.window.dilation[1] + 1
    low = min(max(first * down - above, 0), height)
    return low, max(min((end - 1) * down - above + reach, height), low)


@generic
def place_operands(offsets: Array, first: int, count: int, to: int, pitch: int, conv: Convolution) -> None:
    """Store the offsets of the taps of ``count`` positions of the result from ``first`` on, then rows and columns of a tile.

    ``to``: the offset of the first element of the data; neighbours are ``pitch`` elements apart.  A tap outside has the offset 0.
    """
    (_, _, _, height, width), (_, down, right), (_, above, before), (_, below, across) = conv.data.sizes, *conv.window
    columns, taps, tiles = conv.out.sizes[COLUMN], tap_count(conv.weight), (count + POSITIONS - 1) // POSITIONS
    at, of_lanes, none = 0, tiles * taps * POSITIONS, splat(np.int64(0), POSITIONS)
    for tile in range(tiles):
        for p in range(POSITIONS):
            # the last tile ends with the positions; of fewer positions than a tile has the last one is computed again
            place = first + min(min(tile * POSITIONS, max(count - POSITIONS, 0)) + p, count - 1)
            offsets[of_lanes + p] = place // columns * down - above
            offsets[of_lanes + POSITIONS + p] = place % columns * right - before
        y, x = load(offsets, of_lanes, POSITIONS), load(offsets, of_lanes + POSITIONS, POSITIONS)
        operand = (y * np.int64(width) + x) * np.int64(pitch)
        for ty in range(0, conv.weight.sizes[3] * below, below):
            is_row = (y >= np.int64(-ty)) & (y < np.int64(height - ty))
            for tx in range(0, conv.weight.sizes[4] * across, across):
                is_inside = is_row & (x >= np.int64(-tx)) & (x < np.int64(width - tx))
                here = operand + np.int64((ty * width + tx) * pitch + to)
                store(offsets, at, select(is_inside, here, none))
                at += POSITIONS


@generic
def turn_weights(weight: Array, at: int, outputs: int, terms: int, work: Array, to: int) -> None:
    """Store a group's weights of the output channels of each vector, term by term; 0 for channels that are missing."""
    lanes = tile_lanes(work.itemsize)
    for top in range(0, outputs, lanes):
        count = min(lanes, outputs - top)
        for k in range(terms * lanes if count < lanes else 0):
            work[to + top * terms + k] = 0
        turn(weight, at + top * terms, terms, terms, count, work, to + top * terms, lanes)


@generic
def convolve_groups(
    conv: Convolution, work: Array, offsets: Array, epilogue: Epilogue, limits: ScaledLimits, low: int, high: int
) -> None:
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: a band of rows of a group, for an element of the batch.

    ``work``: for a position of zeros, the weights of a group, and the data of a band; ``offsets``: as ``place_operands`` stores.
    Blocks of a band follow one another, which have the same offsets, and among them those of a group, with the same weights.
    """
    data, out, inputs, terms = conv.data, conv.out, conv.weight.sizes[1], conv.weight.sizes[1] * tap_count(conv.weight)
    outputs, batch, lanes = conv.weight.sizes[0] // conv.groups, data.sizes[BATCH], tile_lanes(work.itemsize)
    columns, rows, taps = out.sizes[COLUMN], out.sizes[ROW], tap_count(conv.weight)
    bands = (rows + band_rows(columns) - 1) // band_rows(columns)
    of_data = inputs + (outputs + lanes - 1) // lanes * lanes * terms
    for i in range(inputs):
        work[i] = 0
    begin, count, top, bottom = 0, 0, 0, 0
    for number in range(low, high):
        band, g, b = number // (conv.groups * batch), number // batch % conv.groups, number % batch
        if number == low or number % (conv.groups * batch) == 0:
            begin = band * rows // bands * columns
            count = (band + 1) * rows // bands * columns - begin
            top, bottom = rows_read(band * rows // bands, (band + 1) * rows // bands, conv)
            place_operands(offsets, begin, count, of_data - top * data.steps[ROW] * inputs, inputs, conv)
        if number == low or b == 0:
            turn_weights(conv.weight.data, g * outputs * terms, outputs, terms, work, inputs)
        source = b * data.steps[BATCH] + g * inputs * data.steps[CHANNEL] + top * data.steps[ROW]
        turn(data.data, source, data.steps[CHANNEL], (bottom - top) * data.steps[ROW], inputs, work, of_data, inputs)
        to = b * out.steps[BATCH] + g * outputs * out.steps[CHANNEL] + begin
        for o in range(0, outputs, lanes):
            clip = clip_of_channels(limits, g * outputs + o)
            for tile in range((count + POSITIONS - 1) // POSITIONS):
                p = min(tile * POSITIONS, max(count - POSITIONS, 0))
                results = Rows(out.data, to + o * out.steps[CHANNEL] + p, out.steps[CHANNEL])
                convolve_tile(
                    work, offsets, tile * taps * POSITIONS, taps, inputs, work, inputs + o * terms, results,
                    min(lanes, outputs - o), min(POSITIONS, count), clip, limits.is_limited,
                )  # fmt: skip
        if not limits.is_limited:
            epilogue.finish(epilogue.argv, to, outputs, count, out.data, to, out.steps[CHANNEL])


@apart("stride", "before", "dilation", "lowest", "highest", "is_limited", "is_scaled", "is_shifted")
@generic
def groups(
    data: Shaped, weight: Shaped, out: Shaped, low: int, high: int, work: Array, offsets: Array, finish: Callable[..., None],
    argv: int, limits: ScaledLimits, window: Window,
) -> int:  # fmt: skip
    """Convolution of groups of a few channels over two axes: the blocks ``low`` to ``high`` (see ``convolve_groups``)."""
    conv, epilogue = convolution(data, weight, out, window, CHANNELS_FIRST), Epilogue(finish, argv)
    if not is_finished(conv, epilogue):
        convolve_groups(conv, work, offsets, epilogue, limits, low, high)
    return OK
