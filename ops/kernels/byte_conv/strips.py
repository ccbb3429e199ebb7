"""Convolution of each channel by itself, for strides of columns up to 2, on any CPU: rows of data are copied with their padding.

The copy is a strip of words: the bytes of a column in two rows, in 16 bits each, which are multiplied by two weights and added up
in 32 bits.  Columns that are a stride apart are side by side, so that a vector of results reads vectors of words.  A row of the
result has vectors of its own, and the lanes behind its end are overwritten by those of the next row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....shape_funcs.defs.convolution.conv import BYTE_WORD as WORD
from ...native.inlining import shared
from ...native.memory import Array, generic
from ...native.static_values import static, static_range
from ...native.vectors import Vector, add_dot_of_pairs, load, shuffle, splat, store
from ..byte_products.panels import interleaved
from .geometry import COLUMNS, ByteConvolution, Region, words_of_columns
from .tile import Weights
from .words import lanes_of_words, permutes_bytes

#: The most padding before and behind a row.
PADDING = 32
#: The largest stride of columns, the vectors of a tile, integers of a vector in a table, and the most lanes of a vector.
MOST_STRIDE, TILE, OF_VECTOR, MOST_LANES = 2, 4, 2, 16
#: The rows of a word, and the bits of a byte of one; and the rows and columns of a small window.
PAIR, HALF, SMALL = 2, 16, 3


class Strip(NamedTuple):
    """The words of some rows of a channel, with padding, from word ``at`` on; before them the pairs of weights of the channel.

    ``number``: of rows of words, ``step`` rows of data apart.  A row has a part for each phase of columns, of ``part`` words.
    ``down``: words from the rows of a row of the result to those of the next; ``below``: from a pair of rows of a window to the
    next.  Data are in second rows of words from row ``lowest`` on, in both from ``whole`` to ``whole_end``, in first ones before
    ``end``.
    """

    words: Array
    at: int
    number: int
    step: int
    part: int
    down: int
    below: int
    lowest: int
    whole: int
    whole_end: int
    end: int


@generic
def pairs_of_window(rows: int, columns: int) -> int:
    """The pairs of weights of a window."""
    return (rows + PAIR - 1) // PAIR * columns


@generic
def strip_part(columns: int, before: int, stride: int) -> int:
    """The words of a phase: of data and padding, and those that vectors reach behind them."""
    return (before + columns + stride - 1) // stride + PADDING


@generic
def strip_rows(rows: int, stride: int, taps: int, dilation: int) -> int:
    """The rows of words, all those that ``rows`` rows of the result may read."""
    return max(rows - 1, 0) * stride + (taps - 1) * dilation + 1


@generic
def copies_rows(conv: ByteConvolution) -> bool:
    """Whether the convolution of one channel each copies rows: with another instruction, data are read where they are."""
    (stride, before, _, taps), columns = conv.window, conv.sizes[3]
    after = (conv.out_sizes[1] - 1) * stride[1] + taps[1] - before[1] - columns
    is_apart = conv.groups == conv.sizes[1] and conv.form == COLUMNS and stride[1] <= MOST_STRIDE
    return not permutes_bytes() and is_apart and before[1] <= PADDING and after <= PADDING


@generic
def strip_of(conv: ByteConvolution, region: Region, words: Array) -> Strip:
    """The strip of a region.  Rows of the result an even number of rows apart read every other row of words."""
    (stride, before, dilation, taps), rows = conv.window, conv.sizes[2]
    step, at = 2 - stride[0] % 2, pairs_of_window(taps[0], taps[1]) + WORD
    number = (strip_rows(region.rows, stride[0], taps[0], dilation[0]) + step - 1) // step
    part, top = strip_part(conv.sizes[3], before[1], stride[1]), region.row * stride[0] - before[0]
    down, below = stride[0] // step * stride[1] * part, PAIR * dilation[0] // step * stride[1] * part
    ends = [_rows_before(number, step, row - top) for row in (-dilation[0], 0, rows - dilation[0], rows)]
    return Strip(words, at, number, step, part, down, below, ends[0], ends[1], ends[2], ends[3])


@generic
def place_rows(conv: ByteConvolution, region: Region, strip: Strip, table: Array) -> int:
    """Store the distance of each pair of weights, then of each vector those of its words and of its sums; the number of vectors.

    The words of a strip become padding, which stays where no data are copied.
    """
    lanes, (stride, _, _, taps) = lanes_of_words(), conv.window
    of_row, at = (region.columns + lanes - 1) // lanes, 0
    for y in range((taps[0] + PAIR - 1) // PAIR):
        for x in range(taps[1]):
            table[at] = y * strip.below + x % stride[1] * strip.part + x // stride[1]
            at += 1
    for row in range(region.rows):
        for j in range(of_row):
            table[at] = row * strip.down + j * lanes
            table[at + 1] = row * region.columns + j * lanes
            at += OF_VECTOR
    for word in range(0, strip.number * stride[1] * strip.part, lanes):
        store(strip.words, strip.at + word, _padding(conv, lanes))
    return region.rows * of_row


@generic
def _padding(conv: ByteConvolution, lanes: int) -> Vector:
    """Words of padding."""
    one = splat(np.int32(conv.pad[0]), lanes)
    words: Vector = one | (one << HALF)
    return words


@generic
def copy_channel(conv: ByteConvolution, region: Region, strip: Strip, channel: int) -> None:
    """Copy the rows of a channel that a region reads; ``channel``: its number in the whole batch."""
    (stride, before, dilation, _), (_, _, rows, columns) = conv.window, conv.sizes
    top, begin = region.row * stride[0] - before[0], channel * rows * columns
    if begin + rows * columns + MOST_LANES * MOST_STRIDE > len(conv.data):
        for row in range(strip.number):
            _copy_bytes(conv, strip, begin, top + row * strip.step, row)
    else:
        at, below, pad = begin + top * columns, dilation[0] * columns, int(conv.pad[0])
        for some in static_range(1, MOST_STRIDE + 1):
            if stride[1] == some:
                _copy_strip(conv.data, at, below, strip, columns, before[1], pad, some)


@generic
def _rows_before(number: int, step: int, row: int) -> int:
    """The rows of words of a strip before a row of data, which is counted from the first row of the strip."""
    return min(max((row + step - 1) // step, 0), number)


@shared
@generic
def _copy_strip(data: Array, at: int, below: int, strip: Strip, columns: int, before: int, pad: int, stride: int) -> None:
    """Copy all rows of a channel; ``at``: the element of the data of the first row of words, which may be before the channel."""
    _copy_all_rows(data, at, below, strip, columns, before, pad, stride)


@generic
def _copy_all_rows(data: Array, at: int, below: int, strip: Strip, columns: int, before: int, pad: int, stride: int) -> None:
    """As ``_copy_strip``."""
    line, middle = strip.step * columns, max(strip.whole, strip.whole_end)
    low, whole = strip.lowest, strip.whole
    _copy_rows(data, at + low * line, below, strip, low, min(whole, strip.whole_end), columns, before, pad, static(2), stride)
    _copy_rows(data, at + whole * line, below, strip, whole, strip.whole_end, columns, before, pad, static(3), stride)
    _copy_rows(data, at + middle * line, below, strip, middle, strip.end, columns, before, pad, static(1), stride)


@generic
def _copy_rows(
    data: Array, at: int, below: int, strip: Strip, first: int, end: int, columns: int, before: int, pad: int, which: int,
    stride: int,
) -> None:  # fmt: skip
    """Copy the rows of words ``first`` to ``end`` (exclusive); words behind a row become padding again.

    The first one begins at element ``at`` of the data, and its second row ``below`` elements from there; ``which``: 1 if first
    rows are data, 2 if second ones are, 3 if both are; a row that is not is padding.
    """
    lanes, outside = lanes_of_words(), splat(np.int32(pad), lanes_of_words())
    padding = outside | (outside << HALF)
    for row in range(first, end):
        to = strip.at + row * stride * strip.part
        for x in range(0, columns, lanes * stride):
            low, high = splat(np.uint8(pad), lanes * stride), splat(np.uint8(pad), lanes * stride)
            if which != 2:
                low = load(data, at + x, lanes * stride)
            if which != 1:
                high = load(data, at + below + x, lanes * stride)
            for phase in static_range(stride):
                place = before + phase
                words = _phase_of(low, phase, stride) | (_phase_of(high, phase, stride) << HALF)
                store(strip.words, to + place % stride * strip.part + place // stride + x // stride, words)
        for phase in static_range(stride):
            store(strip.words, to + phase * strip.part + (before + columns - phase + stride - 1) // stride, padding)
        at += strip.step * columns


@generic
def _phase_of(row: Vector, phase: int, stride: int) -> Vector:
    """The bytes of a phase of a row as int32."""
    if stride == 1:
        return row.astype(np.int32)
    both = row.view(np.uint16).astype(np.int32)
    if phase == 0:
        return both & 255
    return both >> 8


@generic
def _copy_bytes(conv: ByteConvolution, strip: Strip, begin: int, y: int, row: int) -> None:
    """Copy a row of words, whose first row is row ``y`` of the data of a channel: vectors would reach beyond the data."""
    (stride, before, dilation, _), (_, _, rows, columns) = conv.window, conv.sizes
    for x in range(columns):
        total, place = 0, before[1] + x
        for n in static_range(PAIR):
            byte, line = int(conv.pad[0]), y + n * dilation[0]
            if 0 <= line < rows:
                byte = int(conv.data[np.uint64(begin + line * columns + x)])
            total = total | byte << HALF * n
        at = strip.at + (row * stride[1] + place % stride[1]) * strip.part + place // stride[1]
        strip.words[np.uint64(at)] = total


@generic
def place_weights(strip: Strip, weights: Weights, taps: int, columns: int) -> None:
    """Store the pairs of weights of a channel, in words; ``taps``, ``columns``: of the window."""
    words = words_of_columns(columns)
    for y in range(0, taps, PAIR):
        for word in range(words):
            at = weights.at + y * words + word
            one = load(weights.words, at, static(1)).view(np.int8).astype(np.int16)
            other = splat(np.int16(0), static(WORD))
            if y + 1 < taps:
                other = load(weights.words, at + words, static(1)).view(np.int8).astype(np.int16)
            store(strip.words, y // PAIR * columns + word * WORD, _pairs(one, other))


@generic
def _pairs(one: Vector, other: Vector) -> Vector:
    """The pairs of the weights of two rows."""
    return shuffle(one, other, interleaved(static(WORD))).view(np.int32)


@generic
def add_rows(conv: ByteConvolution, strip: Strip, table: Array, vectors: int, weights: Weights, sums: Array, to: int) -> None:
    """Compute the sums of a channel in ``vectors`` vectors."""
    taps, start = conv.window.taps, weights.start[np.uint64(weights.first)]
    for first in range(0, vectors, TILE):
        for some in static_range(1, TILE + 1):
            if min(vectors - first, TILE) == some:
                _add_tile(strip, table, pairs_of_window(taps[0], taps[1]), first, start, sums, to, some)


@generic
def add_small_channels(
    conv: ByteConvolution, region: Region, strip: Strip, channel: int, weights: Weights, number: int, sums: Array, pitch: int
) -> int:
    """Compute the sums of as many of ``number`` channels as vectors can copy; how many: 0 for another window than a small one.

    ``channel``: the number of the first one in the whole batch; ``weights``: its weights; ``pitch``: from sums to the next.
    """
    (stride, before, dilation, taps), (_, _, rows, columns) = conv.window, conv.sizes
    if taps[0] != SMALL or taps[1] != SMALL:
        return 0
    plane = max(rows * columns, 1)
    whole = min(max((len(conv.data) - MOST_LANES * MOST_STRIDE) // plane - channel, 0), number)
    at = channel * plane + (region.row * stride[0] - before[0]) * columns
    channels = Channels(conv.data, at, plane, dilation[0] * columns, columns, before[1], int(conv.pad[0]), whole)
    for some in static_range(1, MOST_STRIDE + 1):
        if stride[1] == some:
            _add_small_channels(channels, strip, weights, region.rows, region.columns, sums, pitch, some)
    return whole


class Channels(NamedTuple):
    """Some channels that vectors copy: the element of the first row of words of the first one, which may be before the channel.

    ``plane``: the elements of a channel; ``below``: those from a row to the second one of its words; ``columns``: of a row;
    ``before``: those of padding before it, each ``pad``; ``number``: of channels.
    """

    data: Array
    at: int
    plane: int
    below: int
    columns: int
    before: int
    pad: int
    number: int


@shared
@generic
def _add_small_channels(
    of: Channels, strip: Strip, weights: Weights, rows: int, columns: int, sums: Array, pitch: int, stride: int
) -> None:
    """Copy each channel and compute its sums: a call for each one takes longer than the sums of rows of few columns."""
    for c in range(of.number):
        _copy_all_rows(of.data, of.at + c * of.plane, of.below, strip, of.columns, of.before, of.pad, stride)
        own = Weights(weights.words, weights.at + c * SMALL, weights.start, weights.first + c, weights.last)
        _add_small_windows(strip, own, rows, columns, sums, c * pitch, stride)


@generic
def _add_small_windows(strip: Strip, weights: Weights, rows: int, columns: int, sums: Array, to: int, stride: int) -> None:
    """Compute the sums of a channel for windows of SMALL rows and columns, whose weights stay in registers."""
    lanes = lanes_of_words()
    begin = splat(weights.start[np.uint64(weights.first)], lanes)
    lines = [load(weights.words, weights.at + y, static(1)).view(np.int8).astype(np.int16) for y in static_range(SMALL)]
    upper, lower = _pairs(lines[0], lines[1]), _pairs(lines[2], splat(np.int16(0), static(WORD)))
    own = [splat((upper if pair < SMALL else lower)[pair % SMALL], lanes).view(np.int16) for pair in static_range(2 * SMALL)]
    for row in range(rows):
        for x in range(0, columns, lanes):
            total, here = begin, strip.at + row * strip.down + x
            for pair in static_range(2 * SMALL):
                tap = pair % SMALL
                place = here + pair // SMALL * strip.below + tap % stride * strip.part + tap // stride
                total = add_dot_of_pairs(total, load(strip.words, place, lanes).view(np.int16), own[pair])
            store(sums, to + row * columns + x, total)


@shared
@generic
def _add_tile(strip: Strip, table: Array, pairs: int, first: int, start: int, sums: Array, to: int, together: int) -> None:
    """Compute the sums of ``together`` vectors from vector ``first`` on."""
    lanes, at = lanes_of_words(), pairs + OF_VECTOR * first
    totals = [splat(np.int32(start), lanes)] * together
    begins = [strip.at + table[np.uint64(at + OF_VECTOR * v)] for v in static_range(together)]
    for pair in range(pairs):
        own, distance = splat(strip.words[np.uint64(pair)], lanes).view(np.int16), table[np.uint64(pair)]
        for v in static_range(together):
            words = load(strip.words, begins[v] + distance, lanes).view(np.int16)
            totals[v] = add_dot_of_pairs(totals[v], words, own)
    for v in static_range(together):
        store(sums, to + table[np.uint64(at + OF_VECTOR * v + 1)], totals[v])
