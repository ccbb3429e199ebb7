"""Convolution of each channel by itself, for strides of 1 and results as wide as the data, which is read where it is.

A position of the result and the bytes that it reads are then apart by the same distance for all positions of a channel.  The 4
neighbours of 16 positions are 19 bytes of memory, which one instruction lays side by side; masks set those that are outside the
data to the byte of the padding.
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

#: The lanes of a vector, the bytes that are read for one, and the vectors of a tile.
LANES, READ, TILE = 16, 32, 4
#: Integers of the table with the order of bytes, before a distance for each step and the masks.
ORDER = 8


@generic
def is_in_place(conv: ByteConvolution) -> bool:
    """Whether the convolution of one channel each reads the data where it is."""
    (stride, _, _, _), (_, channels, _, columns) = conv.window, conv.sizes
    is_apart = conv.groups == channels and conv.form == COLUMNS
    return permutes_bytes() and is_apart and stride[0] * stride[1] == 1 and conv.out_sizes[1] == columns


@generic
def signed_word(low: int, high: int) -> int:
    """The word of two halves of 32 bits each."""
    return low | (high - (high >> 31 << 32)) << 32


@generic
def bits_of_columns(conv: ByteConvolution, column: int, shift: int, lanes: int) -> int:
    """A bit for each byte of ``lanes`` words, fewer than 16, that is in a row of data; the first is of ``column``."""
    columns, bits = conv.sizes[3], 0
    for lane in range(lanes):
        first = column + shift - conv.window.before[1]
        bits = bits | bits_between(-first, columns - first, WORD) << WORD * lane
        column = column + 1 if column + 1 < columns else 0
    return bits


@generic
def place_masks(conv: ByteConvolution, region: Region, table: Array, steps: int) -> int:
    """Store the order of bytes, the distance of each step, and the masks of each vector, a word each; the number of vectors."""
    numbers, columns, (_, before, dilation, taps) = lane_numbers(LANES * WORD), conv.sizes[3], conv.window
    store(table, 0, ((numbers >> 2) + (numbers & 3)).astype(np.uint8).view(np.int64))
    words, count = words_of_columns(taps[1]), region.rows * region.columns
    vectors, half = (count + LANES - 1) // LANES, LANES // 2
    for step in range(steps):
        down, shift = step // words * dilation[0] - before[0], step % words * WORD
        table[ORDER + step] = down * columns + shift - before[1]
        for vector in range(vectors):
            column = vector * LANES % columns
            low, high = (1 << WORD * half) - 1, (1 << WORD * half) - 1
            if column + shift < before[1] or column + LANES + WORD + shift > columns + before[1]:
                low = bits_of_columns(conv, column, shift, half)
                high = bits_of_columns(conv, (column + half) % columns, shift, half)
            # the positions whose rows are rows of the data follow one another
            first = (-down - region.row) * columns - vector * LANES
            end = first + conv.sizes[2] * columns
            low = low & bits_between(WORD * first, WORD * end, WORD * half)
            high = high & bits_between(WORD * (first - half), WORD * (end - half), WORD * half)
            table[ORDER + steps + step * vectors + vector] = signed_word(low, high)
    return vectors


class Channel(NamedTuple):
    """A channel: the first element of the data at the first position, its weights, and the place of its sums."""

    data: Array
    at: int
    pad: Array
    weights: Weights
    sums: Array
    to: int


@generic
def add_in_place(channel: Channel, table: Array, steps: int, vectors: int) -> None:
    """Compute the sums of a channel in ``vectors`` vectors; for a CPU that permutes bytes."""
    whole = vectors // TILE * TILE
    if permutes_bytes():
        for first in range(0, whole, TILE):
            add_words(channel, table, steps, first, vectors, static(TILE))
        for first in range(whole, vectors):
            add_words(channel, table, steps, first, vectors, static(1))


@shared
@generic
def add_words(channel: Channel, table: Array, steps: int, first: int, vectors: int, together: int) -> None:
    """Compute the sums of vectors ``first`` and on, ``together`` of ``vectors``."""
    (data, at, pad, weights, sums, to), order = channel, load(table, 0, ORDER).view(np.uint8)
    outside, nothing = splat(pad[0], LANES * WORD), splat(pad[0], READ)
    totals = [splat(weights.start[np.uint64(weights.first)], LANES)] * together
    for step in range(steps):
        word = splat(weights.words[np.uint64(weights.at + step)], LANES).view(np.int8)
        here = at + table[np.uint64(ORDER + step)] + first * LANES
        mask = ORDER + steps + step * vectors + first
        if here >= 0 and here + together * LANES + READ <= len(data):
            for v in static_range(together):
                inside = mask_of_bits(table[np.uint64(mask + v)], LANES * WORD)
                of_words = select(inside, permute(load(data, here + v * LANES, READ), order), outside)
                totals[v] = add_dot_of_bytes(totals[v], of_words, word)
        else:
            for v in static_range(together):
                inside = mask_of_bits(table[np.uint64(mask + v)], LANES * WORD)
                begin = here + v * LANES
                of_data = mask_of_bits(bits_between(-begin, len(data) - begin, READ), READ)
                some = load_some(shifted(data, begin), 0, of_data, nothing)
                totals[v] = add_dot_of_bytes(totals[v], select(inside, permute(some, order), outside), word)
    for v in static_range(together):
        store(sums, to + (first + v) * LANES, totals[v])
