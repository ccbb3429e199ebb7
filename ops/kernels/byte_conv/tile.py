"""Tiles of sums of products of bytes: output channels by vectors of positions, in registers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...native import vector_registers
from ...native.inlining import shared
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vectors import Vector, add_dot_of_bytes, compress, load, mask_of_bits, splat, store
from .pairs import PAIRS, add_pairs, even_pairs, multiplies_pairs, odd_pairs, place_pairs
from .words import lanes_of_words

#: Words of weights behind those of a tile, of which a vector makes pairs.
SLACK = 16


class Reads(NamedTuple):
    """Words of data, and a table of integers with the first word of each step; ``steps``: their number.

    A step of a block has ``depth`` words, ``apart`` from each other; any other step has one.
    """

    panel: Array
    table: Array
    steps: int
    depth: int
    apart: int


class Weights(NamedTuple):
    """Words of weights from ``at`` on, for each step one of each row or a block, and the starts of the sums of rows."""

    words: Array
    at: int
    start: Array
    first: int
    last: int


class Sums(NamedTuple):
    """The destination of sums: the elements from a row to the next, and the vectors of positions in the table of ``Reads``.

    ``vectors``: two integers for each, a bit for each lane that is a position of the result, and the place of the first one.
    """

    data: Array
    at: int
    pitch: int
    vectors: int


@at_compile_time
def most_vectors(rows: int) -> int:
    """The most vectors of a tile: sums, vectors of data and a word of weights fit the registers."""
    registers, _ = vector_registers.registers()
    if multiplies_pairs() and rows > 1:
        return 2 if registers >= 32 else 1
    return 4 if rows == 1 else 3 if registers >= 32 else 1


@generic
def add_positions(reads: Reads, weights: Weights, sums: Sums, vectors: int, rows: int, block: int) -> None:
    """Compute the sums of all positions, in tiles of as even a number of vectors as there are; ``rows``: static.

    ``block``: the rows, and the words of a row, of a block of weights; 0 where there are none.  A static value.
    """
    most = most_vectors(rows)
    if multiplies_pairs():
        weights = pairs_of(reads, weights, rows, block)
    tiles, lanes = (vectors + most - 1) // most, lanes_of_words()
    for tile in range(tiles):
        first = tile * vectors // tiles
        count = (tile + 1) * vectors // tiles - first
        for some in static_range(1, most + 1):
            if count == some:
                compute_tile(reads, weights, sums, first, some, rows, lanes, block)


@generic
def pairs_of(reads: Reads, weights: Weights, rows: int, block: int) -> Weights:
    """The weights as pairs, which are stored at the end of the array of planes."""
    step = rows * max(block, 1)
    begin = len(reads.panel) - PAIRS * (reads.steps * step + static(SLACK))
    if block > 0:
        for n in range(reads.steps):
            place_pairs(weights.words, weights.at + n * block * block, step, reads.panel, begin + PAIRS * n * step)
    else:
        place_pairs(weights.words, weights.at, reads.steps * step, reads.panel, begin)
    return Weights(reads.panel, begin, weights.start, weights.first, weights.last)


@shared
@generic
def compute_tile(reads: Reads, weights: Weights, sums: Sums, first: int, vectors: int, rows: int, lanes: int, block: int) -> None:
    """Compute the sums of ``vectors`` vectors of positions from vector ``first`` on for ``rows`` output channels."""
    totals = [splat(np.int32(0), lanes)] * (rows * vectors)
    for r in static_range(rows):
        begin = splat(weights.start[np.uint64(min(weights.first + r, weights.last))], lanes)
        for v in static_range(vectors):
            totals[r * vectors + v] = begin
    at, position = weights.at, first * lanes
    for step in range(reads.steps):
        here = position + reads.table[np.uint64(step)]
        if multiplies_pairs():
            for word in range(reads.depth if block > 0 else 1):
                _add_pairs(totals, reads.panel, here + word * reads.apart, at + PAIRS * word, max(block, 1), rows, lanes)
            at += PAIRS * rows * max(block, 1)
        elif block > 0:
            for word in range(reads.depth):
                _add_word(totals, reads.panel, here + word * reads.apart, weights.words, at + word, block, rows, lanes)
            at += block * block
        else:
            _add_word(totals, reads.panel, here, weights.words, at, static(1), rows, lanes)
            at += rows
    for v in static_range(vectors):
        bits, place = reads.table[sums.vectors + 2 * (first + v)], reads.table[sums.vectors + 2 * (first + v) + 1]
        if bits == (1 << lanes) - 1:
            for r in static_range(rows):
                store(sums.data, sums.at + r * sums.pitch + place, totals[r * vectors + v])
        else:
            inside = mask_of_bits(bits, lanes)
            for r in static_range(rows):
                store(sums.data, sums.at + r * sums.pitch + place, compress(totals[r * vectors + v], inside))


@generic
def _add_word(totals: list[Vector], panel: Array, here: int, words: Array, at: int, step: int, rows: int, lanes: int) -> None:
    """Add the products of vectors of words by a word of each row; ``step``: words from a row to the next, a static value."""
    vectors = len(totals) // rows
    data = [load(panel, here + n * lanes, lanes).view(np.uint8) for n in static_range(vectors)]
    for r in static_range(rows):
        word = splat(words[np.uint64(at + r * step)], lanes).view(np.int8)
        for v in static_range(vectors):
            totals[r * vectors + v] = add_dot_of_bytes(totals[r * vectors + v], data[v], word)


@generic
def _add_pairs(totals: list[Vector], panel: Array, here: int, at: int, step: int, rows: int, lanes: int) -> None:
    """As ``_add_word``, by the pairs of the weights, which are in the array of planes."""
    vectors = len(totals) // rows
    even = [even_pairs(load(panel, here + n * lanes, lanes)) for n in static_range(vectors)]
    odd = [odd_pairs(load(panel, here + n * lanes, lanes)) for n in static_range(vectors)]
    for r in static_range(rows):
        for v in static_range(vectors):
            totals[r * vectors + v] = add_pairs(totals[r * vectors + v], even[v], odd[v], panel, at + PAIRS * r * step)
