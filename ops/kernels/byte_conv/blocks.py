"""Convolution of bytes in blocks: BLOCK output channels by positions, of the words of some planes at a tap of the window at once.

A block of weights is a register of tiles: BLOCK rows, which are output channels, of BLOCK words, which are planes.  The words of
as many planes at 16 positions are the rows of another one, so sums are in the order of the result.  A CPU without tiles
multiplies the same words by vectors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....shape_funcs.defs.convolution.conv import BYTE_BLOCK as BLOCK
from ....shape_funcs.defs.convolution.conv import BYTE_ROWS as ROWS
from ....shape_funcs.defs.convolution.conv import BYTE_WORD as WORD
from ...native.inlining import shared
from ...native.matrix_tiles import (
    TILE_BYTES,
    add_signed_dots_of_tiles,
    configure_tiles,
    describe_tiles,
    has_tiles,
    load_tile,
    may_use_tiles,
    release_tiles,
    store_tile,
)
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vectors import compress, load, mask_of_bits, splat, store
from ..conv.epilogue import Epilogue
from .geometry import LINE
from .last_positions import LastPositions, add_last_positions
from .tile import Reads, Sums, Weights, add_positions
from .words import lanes_of_words

#: Tiles of output channels, and vectors of positions, whose sums are in registers together.
TOGETHER = 2
#: Vectors of positions whose sums are finished together.
VECTORS = 16
#: Elements from a row of sums to the next: a vector is stored behind the last position.
PITCH = (VECTORS + 1) * LINE
#: Elements of a register of sums.
_SUMS = BLOCK * LINE
#: The elements with the starts of sums, a register of sums, and the first row of sums.
_SPARE = TOGETHER * _SUMS
_ROWS_AT = _SPARE + _SUMS
#: The elements of all of these.
SUM_ELEMENTS = _ROWS_AT + TOGETHER * BLOCK * PITCH


class Part(NamedTuple):
    """The tiles ``first`` to ``end`` (exclusive) of output channels of a group, at the positions of a region.

    ``vectors``, ``run``: vectors of positions, and positions; ``outputs``: the output channels of the group.  The result has
    the first channel of the group at ``to``, and ``positions`` elements from a channel to the next.  The vector with the ``last``
    positions, if there are any, is none of them.
    """

    first: int
    end: int
    vectors: int
    run: int
    outputs: int
    to: int
    positions: int
    last: LastPositions


@at_compile_time
def fits_tiles() -> bool:
    """Whether the CPU has tiles, and a vector of words is a row of a tile."""
    return has_tiles() and lanes_of_words() == LINE


@generic
def configure_blocks(config: Array, depth: int) -> bool:
    """Whether registers of tiles may be used, which are configured then for blocks of ``depth`` planes."""
    return fits_tiles() and may_use_tiles() and _is_configured(config, depth)


@generic
def _is_configured(config: Array, depth: int) -> bool:
    """True: the registers are configured."""
    if fits_tiles():
        wide, deep = TILE_BYTES, depth * WORD
        rows = BLOCK, BLOCK, BLOCK, BLOCK, BLOCK, BLOCK, depth, depth
        describe_tiles(config, rows, (wide, wide, wide, wide, deep, deep, wide, wide))
        configure_tiles(config)
    return fits_tiles()


@generic
def release_blocks(with_tiles: bool) -> None:
    """End the use of registers of tiles that have been configured."""
    if with_tiles:
        _release()


@generic
def _release() -> None:
    """Release the registers; a CPU without any gets here never."""
    if fits_tiles():
        release_tiles()


@generic
def add_blocks(reads: Reads, weights: Weights, sums: Array, epilogue: Epilogue, part: Part, with_tiles: bool) -> None:
    """Compute and finish the sums of a part; ``weights``: of the group."""
    if fits_tiles():
        if with_tiles:
            _by_registers(reads, weights, sums, epilogue, part)
        else:
            _by_vectors(reads, weights, sums, epilogue, part)
    else:
        _by_vectors(reads, weights, sums, epilogue, part)


@generic
def _by_vectors(reads: Reads, weights: Weights, sums: Array, epilogue: Epilogue, part: Part) -> None:
    """As ``add_blocks``, ROWS output channels at a time."""
    pitch, size = (part.run + LINE - 1) // LINE * LINE + LINE, reads.steps * BLOCK * BLOCK
    for row in range(part.first * BLOCK, min(part.end * BLOCK, part.outputs), ROWS):
        at = weights.at + row // BLOCK * size + row % BLOCK * BLOCK
        some = Weights(weights.words, at, weights.start, weights.first + row, weights.last)
        own = Sums(sums, 0, pitch, reads.steps)
        if part.last.number > 0:
            add_positions(reads, some, own, part.vectors - 1, static(ROWS), static(BLOCK))
            add_last_positions(reads, some, own, part.last)
        else:
            add_positions(reads, some, own, part.vectors, static(ROWS), static(BLOCK))
        to = part.to + row * part.positions
        epilogue.finish(epilogue.argv, to, min(ROWS, part.outputs - row), part.run, sums, 0, pitch)


@generic
def _by_registers(reads: Reads, weights: Weights, sums: Array, epilogue: Epilogue, part: Part) -> None:
    """As ``add_blocks``, TOGETHER tiles of output channels at a time."""
    size = reads.steps * BLOCK * BLOCK
    for tile in range(part.first, part.end, TOGETHER):
        tiles, row = min(TOGETHER, part.end - tile), tile * BLOCK
        for r in range(tiles * BLOCK):
            begin = weights.start[np.uint64(min(weights.first + row + r, weights.last))]
            store(sums, r * LINE, splat(begin, static(LINE)))
        words = Weights(weights.words, weights.at + tile * size, weights.start, size, 0)
        for first in range(0, part.vectors, VECTORS):
            end = min(first + VECTORS, part.vectors)
            begin = reads.table[reads.steps + 2 * first + 1]
            last = part.run
            if end < part.vectors:
                last = reads.table[reads.steps + 2 * end + 1]
            for vector in range(first, end, TOGETHER):
                for down in static_range(1, TOGETHER + 1):
                    for across in static_range(1, TOGETHER + 1):
                        if tiles == down and min(TOGETHER, end - vector) == across:
                            _multiply(reads, words, sums, vector, begin, down, across)
            if last > begin:
                rows, to = min(tiles * BLOCK, part.outputs - row), part.to + row * part.positions + begin
                epilogue.finish(epilogue.argv, to, rows, last - begin, sums, static(_ROWS_AT), static(PITCH))


@shared
@generic
def _multiply(reads: Reads, weights: Weights, sums: Array, vector: int, begin: int, down: int, across: int) -> None:
    """Compute the sums of ``down`` tiles of output channels at ``across`` vectors of positions from ``vector`` on.

    ``begin``: the position whose sums are the first of their rows; ``weights.first``: words from a tile to the next.
    """
    for i in static_range(down):
        for j in static_range(across):
            load_tile(TOGETHER * i + j, sums, i * _SUMS, TILE_BYTES)
    at, position = weights.at, vector * LINE
    for step in range(reads.steps):
        here = position + reads.table[np.uint64(step)]
        for j in static_range(across):
            load_tile(6 + j, reads.panel, here + j * LINE, reads.apart * WORD)
        for i in static_range(down):
            load_tile(4 + i, weights.words, at + i * weights.first, TILE_BYTES)
            for j in static_range(across):
                add_signed_dots_of_tiles(TOGETHER * i + j, 4 + i, 6 + j)
        at += BLOCK * BLOCK
    for j in static_range(across):
        bits = reads.table[reads.steps + 2 * (vector + j)]
        to = _ROWS_AT + reads.table[reads.steps + 2 * (vector + j) + 1] - begin
        for i in static_range(down):
            if bits == (1 << LINE) - 1:
                store_tile(TOGETHER * i + j, sums, to + i * BLOCK * PITCH, PITCH * WORD)
            else:
                store_tile(TOGETHER * i + j, sums, static(_SPARE), TILE_BYTES)
                inside = mask_of_bits(bits, static(LINE))
                for r in range(BLOCK):
                    kept = compress(load(sums, _SPARE + r * LINE, static(LINE)), inside)
                    store(sums, to + (i * BLOCK + r) * PITCH, kept)
