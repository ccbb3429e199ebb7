"""Convolution of each channel by itself, for strides of columns up to 2: the data are read where they are.

The 4 neighbours of 16 positions in a row are 19 bytes of memory, or 34, which one instruction lays side by side; masks set those
that are outside the data to the byte of the padding.  If the result is as wide as the data, and the stride is 1, a position of
the result and the bytes that it reads are apart by the same distance for all positions of a channel: vectors go on from a row to
the next.  Elsewhere a row has vectors of its own, and the lanes behind its end are overwritten by those of the next row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....shape_funcs.defs.convolution.conv import BYTE_WORD as WORD
from ...native.inlining import shared
from ...native.memory import Array, generic
from ...native.static_values import static, static_range
from ...native.vectors import (
    add_dot_of_bytes,
    lane_numbers,
    load,
    load_some,
    mask_of_bits,
    permute,
    select,
    shifted,
    splat,
    store,
)
from .geometry import COLUMNS, ByteConvolution, Region, words_of_columns
from .tile import Weights
from .words import bits_between, permutes_bytes

#: The lanes of a vector, the bytes that are read for one at a stride of 1, the largest stride, and the vectors of a tile.
LANES, READ, MOST_STRIDE, TILE = 16, 32, 2, 4
#: Integers of the table with the order of bytes, before a distance for each step, two for each vector and the masks.
ORDER, OF_VECTOR = 8, 2
#: The mask of all bytes of a vector.
ALL = -1


@generic
def is_in_place(conv: ByteConvolution) -> bool:
    """Whether the convolution of one channel each reads the data where it is."""
    is_apart = conv.groups == conv.sizes[1] and conv.form == COLUMNS
    return permutes_bytes() and is_apart and conv.window.stride[1] <= MOST_STRIDE


@generic
def is_joined(conv: ByteConvolution) -> bool:
    """Whether vectors go on from a row of the result to the next."""
    return conv.window.stride[0] * conv.window.stride[1] == 1 and conv.out_sizes[1] == conv.sizes[3]


@generic
def vectors_of(columns: int) -> int:
    """The vectors of a row."""
    return (columns + LANES - 1) // LANES


@generic
def signed_word(low: int, high: int) -> int:
    """The word of two halves of 32 bits each."""
    return low | (high - (high >> 31 << 32)) << 32


@generic
def bits_of_columns(conv: ByteConvolution, column: int, shift: int) -> int:
    """A bit for each byte of a vector that is in a row of data; the first position is of ``column`` of the result."""
    first, columns = column * conv.window.stride[1] + shift - conv.window.before[1], conv.sizes[3]
    half, step, low, high = LANES // 2, conv.window.stride[1], 0, 0
    if first >= 0 and first + (LANES - 1) * step + WORD <= columns:
        return ALL
    for lane in range(half):
        low = low | bits_between(-first, columns - first, WORD) << WORD * lane
        ahead = first + half * step
        high = high | bits_between(-ahead, columns - ahead, WORD) << WORD * lane
        first += step
    return signed_word(low, high)


@generic
def place_vectors(conv: ByteConvolution, region: Region, table: Array, steps: int) -> int:
    """Store the order of bytes, the distance of each step, the vectors and their masks, a word each; the number of vectors.

    A vector has the distance of its data from those of the first one, and the place of its sums.
    """
    numbers, columns, (stride, before, dilation, taps) = lane_numbers(LANES * WORD), conv.sizes[3], conv.window
    store(table, 0, ((numbers >> 2) * stride[1] + (numbers & 3)).astype(np.uint8).view(np.int64))
    words = words_of_columns(taps[1])
    for step in range(steps):
        table[ORDER + step] = (step // words * dilation[0] - before[0]) * columns + step % words * WORD - before[1]
    if is_joined(conv):
        return _place_joined(conv, region, table, steps)
    return _place_rows(conv, region, table, steps)


@generic
def _place_rows(conv: ByteConvolution, region: Region, table: Array, steps: int) -> int:
    """As ``place_vectors``, of vectors of rows."""
    (stride, before, dilation, taps), of_row = conv.window, vectors_of(region.columns)
    words, vectors = words_of_columns(taps[1]), region.rows * of_row
    masks = ORDER + steps + OF_VECTOR * vectors
    for j in range(of_row):
        for word in range(words):
            inside = bits_of_columns(conv, region.column + j * LANES, word * WORD)
            for row in range(region.rows):
                for tap in range(taps[0]):
                    y = (region.row + row) * stride[0] + tap * dilation[0] - before[0]
                    table[masks + (tap * words + word) * vectors + row * of_row + j] = inside if 0 <= y < conv.sizes[2] else 0
    for row in range(region.rows):
        for j in range(of_row):
            at = ORDER + steps + OF_VECTOR * (row * of_row + j)
            table[at] = row * stride[0] * conv.sizes[3] + j * LANES * stride[1]
            table[at + 1] = row * region.columns + j * LANES
    return vectors


@generic
def _place_joined(conv: ByteConvolution, region: Region, table: Array, steps: int) -> int:
    """As ``place_vectors``, of vectors that go on from a row to the next."""
    columns, (_, before, dilation, taps) = conv.sizes[3], conv.window
    words, vectors, half = words_of_columns(taps[1]), vectors_of(region.rows * region.columns), LANES // 2
    masks = ORDER + steps + OF_VECTOR * vectors
    for vector in range(vectors):
        for n in range(OF_VECTOR):
            table[ORDER + steps + OF_VECTOR * vector + n] = vector * LANES
    for step in range(steps):
        # the positions whose rows are rows of the data follow one another
        begin = (before[0] - step // words * dilation[0] - region.row) * columns
        end = begin + conv.sizes[2] * columns
        for vector in range(vectors):
            inside, first, last = ALL, begin - vector * LANES, end - vector * LANES
            if first > 0 or last < LANES:
                low = bits_between(WORD * first, WORD * last, WORD * half)
                inside = signed_word(low, bits_between(WORD * (first - half), WORD * (last - half), WORD * half))
            table[masks + step * vectors + vector] = inside
        shift = step % words * WORD - before[1]
        left = min(max(-shift, 0), columns)
        right = min(max(columns - WORD + 1 - shift, left), columns)
        for row in range(region.rows):
            for column in range(left):
                _clear_outside(table, masks + step * vectors, row * columns + column, column + shift, columns)
            for column in range(right, columns):
                _clear_outside(table, masks + step * vectors, row * columns + column, column + shift, columns)
    return vectors


@generic
def _clear_outside(table: Array, masks: int, position: int, first: int, columns: int) -> None:
    """Clear the bits of the bytes of a position that are outside a row of data; ``first``: the column of the first byte."""
    outside = (1 << WORD) - 1 - bits_between(-first, columns - first, WORD)
    lane, half = position % LANES, LANES // 2
    low = outside << WORD * lane if lane < half else 0
    high = outside << WORD * (lane - half) if lane >= half else 0
    at = masks + position // LANES
    table[at] = table[at] & ~signed_word(low, high)


class Channel(NamedTuple):
    """A channel: the first element of the data at the first position, its weights, and the place of its sums."""

    data: Array
    at: int
    pad: Array
    weights: Weights
    sums: Array
    to: int


@generic
def add_in_place(channel: Channel, table: Array, steps: int, vectors: int, stride: int) -> None:
    """Compute the sums of a channel in ``vectors`` vectors; for a CPU that permutes bytes.  ``stride``: of columns."""
    if permutes_bytes():
        for some in static_range(1, MOST_STRIDE + 1):
            if stride == some:
                _add_vectors(channel, table, steps, vectors, some)


@shared
@generic
def _add_vectors(channel: Channel, table: Array, steps: int, vectors: int, stride: int) -> None:
    """As ``add_in_place``, for a static stride."""
    whole = vectors // TILE * TILE
    for first in range(0, whole, TILE):
        _add_tile(channel, table, steps, first, vectors, static(TILE), stride)
    for first in range(whole, vectors):
        _add_tile(channel, table, steps, first, vectors, static(1), stride)


class Tile(NamedTuple):
    """Vectors that are computed together: the first words of them and of their masks; words from a step's masks to the next's."""

    at: int
    masks: int
    apart: int


@generic
def _add_tile(channel: Channel, table: Array, steps: int, first: int, vectors: int, together: int, stride: int) -> None:
    """Compute the sums of vectors ``first`` and on, ``together`` of ``vectors``."""
    tile = Tile(ORDER + steps + OF_VECTOR * first, ORDER + steps + OF_VECTOR * vectors + first, vectors)
    begin, last = channel.at + table[tile.at], channel.at + table[tile.at + OF_VECTOR * (together - 1)]
    # distances rise from a step to the next
    if begin + table[ORDER] >= 0 and last + table[ORDER + steps - 1] + READ * stride <= len(channel.data):
        _add_words(channel, table, steps, tile, together, stride, static(1))
    else:
        _add_words(channel, table, steps, tile, together, stride, static(0))


@generic
def _add_words(channel: Channel, table: Array, steps: int, tile: Tile, together: int, stride: int, is_inside: int) -> None:
    """Compute the sums of a tile; ``is_inside``: whether no load reaches beyond the data."""
    (data, at, pad, weights, sums, to), order = channel, load(table, 0, ORDER).view(np.uint8)
    read = READ * stride
    outside, nothing = splat(pad[0], LANES * WORD), splat(pad[0], read)
    totals = [splat(weights.start[np.uint64(weights.first)], LANES)] * together
    begins = [at + table[np.uint64(tile.at + OF_VECTOR * v)] for v in static_range(together)]
    for step in range(steps):
        word = splat(weights.words[np.uint64(weights.at + step)], LANES).view(np.int8)
        distance = table[np.uint64(ORDER + step)]
        for v in static_range(together):
            inside = mask_of_bits(table[np.uint64(tile.masks + step * tile.apart + v)], LANES * WORD)
            begin = begins[v] + distance
            if is_inside == 1:
                some = load(data, begin, read)
            else:
                of_data = mask_of_bits(bits_between(-begin, len(data) - begin, (LANES - 1) * stride + WORD), read)
                some = load_some(shifted(data, begin), 0, of_data, nothing)
            totals[v] = add_dot_of_bytes(totals[v], select(inside, permute(some, order), outside), word)
    for v in static_range(together):
        store(sums, to + table[np.uint64(tile.at + OF_VECTOR * v + 1)], totals[v])
