"""Tiles of sums of products of bytes: output channels by vectors of positions, in registers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...native import vector_registers
from ...native.inlining import shared
from ...native.memory import Array, generic
from ...native.prefetch import fetch
from ...native.static_values import at_compile_time, static, static_range
from ...native.vectors import (
    Vector,
    add_dot_of_bytes,
    add_dot_of_limited_bytes,
    add_dot_of_pairs,
    compress,
    load,
    mask_of_bits,
    splat,
    store,
)
from .limited import NUMBERS, TOGETHER, Entries, entries_of_blocks, entries_of_steps, limits_weights, space_for_entries
from .words import lanes_of_words


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
    if limits_weights():
        return 4 if registers >= 32 or rows == 1 else 2
    return 4 if rows == 1 else 3 if registers >= 32 else 1


@at_compile_time
def rows_together(rows: int) -> int:
    """The rows of a tile, of so many rows of weights."""
    return min(rows, TOGETHER) if limits_weights() else rows


@generic
def add_positions(reads: Reads, weights: Weights, sums: Sums, vectors: int, rows: int, block: int) -> None:
    """Compute the sums of all positions, in tiles of as even a number of vectors as there are; ``rows``: static.

    ``block``: the rows, and the words of a row, of a block of weights; 0 where there are none.  A static value.
    """
    together = rows_together(rows)
    most, lanes = most_vectors(together), lanes_of_words()
    tiles = (vectors + most - 1) // most
    for row in range(0, rows, together):
        entries = space_for_entries(reads.panel, reads.table, reads.steps * max(block, 1))
        own = Weights(weights.words, weights.at + row * max(block, 1), weights.start, weights.first + row, weights.last)
        if limits_weights():
            if block > 0:
                entries = entries_of_blocks(own.words, own.at, reads.steps, reads.depth, reads.apart, together, entries)
            else:
                entries = entries_of_steps(own.words, own.at, reads.steps, rows, together, entries)
        to = Sums(sums.data, sums.at + row * sums.pitch, sums.pitch, sums.vectors)
        if limits_weights():
            compute_tiles(reads, own, entries, to, 0, vectors // most, most, together, lanes, block)
            for some in static_range(1, most):
                if vectors % most == some:
                    compute_tiles(reads, own, entries, to, vectors - some, 1, some, together, lanes, block)
        else:
            for tile in range(tiles):
                first = tile * vectors // tiles
                count = (tile + 1) * vectors // tiles - first
                for some in static_range(1, most + 1):
                    if count == some:
                        compute_tile(reads, own, entries, to, first, some, together, lanes, block)


@shared
@generic
def compute_tiles(
    reads: Reads, weights: Weights, entries: Entries, sums: Sums, first: int, tiles: int, vectors: int, rows: int, lanes: int,
    block: int,
) -> None:  # fmt: skip
    """As ``compute_tile``, of some tiles side by side: few entries take less time than a call."""
    for tile in range(tiles):
        _compute(reads, weights, entries, sums, first + tile * vectors, vectors, rows, lanes, block)


@shared
@generic
def compute_tile(
    reads: Reads, weights: Weights, entries: Entries, sums: Sums, first: int, vectors: int, rows: int, lanes: int, block: int
) -> None:  # fmt: skip
    """Compute the sums of ``vectors`` vectors of positions from vector ``first`` on for ``rows`` output channels."""
    _compute(reads, weights, entries, sums, first, vectors, rows, lanes, block)


@generic
def _compute(
    reads: Reads, weights: Weights, entries: Entries, sums: Sums, first: int, vectors: int, rows: int, lanes: int, block: int
) -> None:  # fmt: skip
    """As ``compute_tile``."""
    totals = [splat(np.int32(0), lanes)] * (rows * vectors)
    for r in static_range(rows):
        begin = splat(weights.start[np.uint64(min(weights.first + r, weights.last))], lanes)
        for v in static_range(vectors):
            totals[r * vectors + v] = begin
    position = first * lanes
    if limits_weights():
        _add_entries(totals, reads.panel, position, entries, max(block, 1), rows, lanes)
    else:
        at = weights.at
        for step in range(reads.steps):
            here = position + reads.table[np.uint64(step)]
            if block > 0:
                for word in range(reads.depth):  # fetch the next block, which is in no near cache when it is read first
                    fetch(weights.words, at + block * block + word % rows * block)
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
def _add_entries(totals: list[Vector], panel: Array, position: int, entries: Entries, step: int, rows: int, lanes: int) -> None:
    """Add the products of entries; ``step``: words from a row to the next, a static value."""
    vectors, at = len(totals) // rows, entries.first
    for _ in range(entries.narrow):
        here, first = position + entries.table[np.uint64(at)], entries.table[np.uint64(at + 1)]
        data = [load(panel, here + n * lanes, lanes).view(np.uint8) for n in static_range(vectors)]
        for r in static_range(rows):
            word = splat(entries.words[np.uint64(first + r * step)], lanes).view(np.int8)
            for v in static_range(vectors):
                totals[r * vectors + v] = add_dot_of_limited_bytes(totals[r * vectors + v], data[v], word)
        at += NUMBERS
    at = entries.end - NUMBERS * entries.wide
    for _ in range(entries.wide):
        here, first = position + entries.table[np.uint64(at)], entries.table[np.uint64(at + 1)]
        words = [load(panel, here + n * lanes, lanes).view(np.uint16) for n in static_range(vectors)]
        even, odd = [(w & 255).view(np.int16) for w in words], [(w >> 8).view(np.int16) for w in words]
        for r in static_range(rows):
            low = splat(entries.words[np.uint64(first + r * step)], lanes).view(np.int16)
            high = splat(entries.words[np.uint64(first + entries.apart + r * step)], lanes).view(np.int16)
            for v in static_range(vectors):
                totals[r * vectors + v] = add_dot_of_pairs(totals[r * vectors + v], even[v], low)
                totals[r * vectors + v] = add_dot_of_pairs(totals[r * vectors + v], odd[v], high)
        at += NUMBERS
