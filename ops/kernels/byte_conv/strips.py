"""Convolution of each channel by itself, for strides of columns up to 2, on any CPU: rows of data are copied with their padding.

The copy is a strip of bytes.  Two neighbours of a row, widened to 16 bits, are multiplied by two weights and added up in 32 bits.
A row of the result has vectors of its own, and the lanes behind its end are overwritten by those of the next row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....shape_funcs.defs.convolution.conv import BYTE_WORD as WORD
from ...native.inlining import shared
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vectors import Vector, add_dot_of_pairs, load, shuffle, splat, store
from .geometry import COLUMNS, ByteConvolution, Region, words_of_columns
from .tile import Weights
from .words import lanes_of_words, permutes_bytes

#: Bytes that are copied at once, the most padding before and behind a row, and bytes behind a strip that vectors reach.
COPIED = 32
#: The largest stride of columns, the vectors of a tile, integers of a vector in a table, and the most lanes of a vector.
MOST_STRIDE, TILE, OF_VECTOR, MOST_LANES = 2, 4, 2, 16


class Strip(NamedTuple):
    """The rows of a channel with their padding, from byte ``at`` on; ``pitch``: bytes from a row to the next."""

    bytes: Array
    at: int
    pitch: int


@generic
def strip_pitch(columns: int, before: int, out_columns: int, stride: int, taps: int) -> int:
    """The bytes of a row: data and padding, and those that vectors of the result read."""
    return max(before + columns + COPIED, (out_columns + MOST_LANES) * stride + words_of_columns(taps) * WORD + MOST_LANES)


@generic
def strip_rows(rows: int, stride: int, taps: int, dilation: int) -> int:
    """The rows of data that ``rows`` rows of the result read."""
    return max(rows - 1, 0) * stride + (taps - 1) * dilation + 1


@generic
def copies_rows(conv: ByteConvolution) -> bool:
    """Whether the convolution of one channel each copies rows: with another instruction, data are read where they are."""
    (stride, before, _, taps), columns = conv.window, conv.sizes[3]
    after = (conv.out_sizes[1] - 1) * stride[1] + taps[1] - before[1] - columns
    is_apart = conv.groups == conv.sizes[1] and conv.form == COLUMNS and stride[1] <= MOST_STRIDE
    return not permutes_bytes() and is_apart and before[1] <= COPIED and after <= COPIED


@generic
def strip_of(conv: ByteConvolution, at: int) -> Strip:
    """The strip of a channel, in the array with the order of bytes."""
    (stride, before, _, taps) = conv.window
    return Strip(conv.order, at, strip_pitch(conv.sizes[3], before[1], conv.out_sizes[1], stride[1], taps[1]))


@generic
def place_rows(conv: ByteConvolution, region: Region, strip: Strip, table: Array, steps: int) -> int:
    """Store the distance of each step, then of each vector those of its data and of its sums; the number of vectors."""
    lanes, (stride, _, dilation, taps) = lanes_of_words(), conv.window
    words, of_row = words_of_columns(taps[1]), (region.columns + lanes - 1) // lanes
    for step in range(steps):
        table[step] = step // words * dilation[0] * strip.pitch + step % words * WORD
    at = steps
    for row in range(region.rows):
        for j in range(of_row):
            table[at] = row * stride[0] * strip.pitch + j * lanes * stride[1]
            table[at + 1] = row * region.columns + j * lanes
            at += OF_VECTOR
    return region.rows * of_row


@generic
def copy_channel(conv: ByteConvolution, region: Region, strip: Strip, channel: int) -> None:
    """Copy the rows of a channel that a region reads; ``channel``: its number in the whole batch."""
    (stride, before, dilation, taps), (_, _, rows, columns) = conv.window, conv.sizes
    outside, first = splat(conv.pad[0], COPIED), region.row * stride[0] - before[0]
    for r in range(strip_rows(region.rows, stride[0], taps[0], dilation[0])):
        to, y = strip.at + r * strip.pitch, first + r
        store(strip.bytes, to, outside)
        if 0 <= y < rows:
            _copy_row(conv.data, (channel * rows + y) * columns, columns, strip.bytes, to + before[1])
            store(strip.bytes, to + before[1] + columns, outside)
        else:
            for x in range(COPIED, strip.pitch, COPIED):
                store(strip.bytes, to + x, outside)


@generic
def _copy_row(data: Array, at: int, columns: int, out: Array, to: int) -> None:
    """Copy a row, and any bytes behind it."""
    for x in range(0, columns, COPIED):
        if at + x + COPIED <= len(data):
            store(out, to + x, load(data, at + x, COPIED))
        else:
            for i in range(x, min(x + COPIED, columns)):
                out[np.uint64(to + i)] = data[np.uint64(at + i)]


@at_compile_time
def _neighbours(lanes: int) -> tuple[int, ...]:
    """The bytes of pairs of neighbours, a byte apart, each before a byte of 0, the first of another vector of as many bytes."""
    zero = 2 * lanes
    return tuple(byte for lane in range(lanes) for byte in (lane, zero, lane + 1, zero))


@generic
def _pairs_of(strip: Array, at: int, lanes: int, stride: int) -> Vector:
    """Pairs of neighbours as int16, ``stride`` bytes apart."""
    row = load(strip, at, 2 * lanes)
    if stride == 1:
        return shuffle(row, splat(np.uint8(0), 2 * lanes), _neighbours(lanes)).view(np.int16)
    return row.astype(np.int16)


@generic
def add_rows(strip: Strip, table: Array, steps: int, vectors: int, weights: Weights, sums: Array, to: int, stride: int) -> None:
    """Compute the sums of a channel in ``vectors`` vectors; ``stride``: of columns."""
    for some in static_range(1, MOST_STRIDE + 1):
        if stride == some:
            _add_vectors(strip, table, steps, vectors, weights, sums, to, some)


@shared
@generic
def _add_vectors(
    strip: Strip, table: Array, steps: int, vectors: int, weights: Weights, sums: Array, to: int, stride: int
) -> None:  # fmt: skip
    """As ``add_rows``, for a static stride."""
    whole = vectors // TILE * TILE
    for first in range(0, whole, TILE):
        _add_tile(strip, table, steps, first, weights, sums, to, static(TILE), stride)
    for first in range(whole, vectors):
        _add_tile(strip, table, steps, first, weights, sums, to, static(1), stride)


@generic
def _add_tile(
    strip: Strip, table: Array, steps: int, first: int, weights: Weights, sums: Array, to: int, together: int, stride: int
) -> None:  # fmt: skip
    """Compute the sums of ``together`` vectors from vector ``first`` on."""
    lanes, at = lanes_of_words(), steps + OF_VECTOR * first
    totals = [splat(weights.start[np.uint64(weights.first)], lanes)] * together
    begins = [strip.at + table[np.uint64(at + OF_VECTOR * v)] for v in static_range(together)]
    for step in range(steps):
        word, distance = load(weights.words, weights.at + step, static(1)), table[np.uint64(step)]
        pairs = word.view(np.int8).astype(np.int16).view(np.int32)
        for half in static_range(2):
            pair = splat(pairs[half], lanes).view(np.int16)
            for v in static_range(together):
                row = _pairs_of(strip.bytes, begins[v] + distance + 2 * half, lanes, stride)
                totals[v] = add_dot_of_pairs(totals[v], row, pair)
    for v in static_range(together):
        store(sums, to + table[np.uint64(at + OF_VECTOR * v + 1)], totals[v])
