"""Convolution of bytes by windows of 3 by 3 by Winograd's transforms of tiles of 2 by 2 results, exact in int32.

For a CPU without an instruction for products of bytes, which multiplies pairs of 16 bits: 16 products for 4 results, not 36.
The transforms of a tile are those of Lavin and Gray (2015), those of weights times 2 along each axis: all are integers, of 16
bits for data and weights, and sums are 4 times the results.

The planes of a region are transformed once, the weights of BLOCK output channels once a region.  A pair is 2 bytes of a word, the
even ones or the odd ones: of a block of planes the even ones are before the odd ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....shape_funcs.defs.convolution.conv import BYTE_BLOCK as BLOCK
from ...native.inlining import shared
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vectors import Vector, add_dot_of_pairs, load, shuffle, splat, store
from ..byte_products.panels import interleaved
from ..conv.epilogue import Epilogue
from .blocks import Part
from .geometry import BLOCKS, LINE, ByteConvolution, Planes, Region, apart_for_blocks, block_count, block_depth, streams_positions
from .limited import TOGETHER
from .tile import Weights
from .words import lanes_of_words

#: The side of a window, of a tile of results, and of the data of a tile; and the products of a tile.
TAPS, RESULTS, SIDE, PRODUCTS = 3, 2, 4, 16
#: The most columns of a result: a region has two rows of them, whose sums have space in the buffer of a tile.
MOST_COLUMNS = 256
#: The most channels of a group: 4 times the largest result is an int32.
MOST_CHANNELS = (2**31 - 1) // (4 * TAPS * TAPS * 255 * 128)
#: Vectors of tiles whose products are computed together, and the most words of them.
VECTORS, MOST_WORDS = 2, 32


class Tiles(NamedTuple):
    """The tiles of a region, down and across, and where transforms are, in words from the first one of an array on.

    ``apart``: words from the tiles of a pair to those of the next one; ``pairs``: of all planes; ``depth``: planes of a block.
    ``data`` and ``weights`` have a part for each product of a tile: the tiles of each pair, and the pairs of each output channel.
    ``products``: of some tiles, for each product of a tile and output channel; ``lines``: two of results for each channel.
    """

    down: int
    across: int
    apart: int
    pairs: int
    depth: int
    data: int
    weights: int
    products: int
    lines: int


@generic
def data_words(tiles: Tiles) -> int:
    """The words of the data of a product of a tile, and a vector behind them."""
    return tiles.pairs * tiles.apart + LINE


@generic
def channel_words(tiles: Tiles) -> int:
    """The words of the weights of an output channel, and a vector behind them."""
    return tiles.pairs + LINE


@generic
def tiles_of(region: Region, planes: Planes) -> Tiles:
    """The tiles of a region; their data are behind its planes, and a row and some vectors that transforms read beyond these.

    The last vector of a row reaches beyond its tiles: behind the tiles of a pair is space for it, because odd bytes of the first
    plane of a block are stored before even bytes of the last one.
    """
    down, across = (region.rows + RESULTS - 1) // RESULTS, (region.columns + RESULTS - 1) // RESULTS
    beyond = (across + lanes_of_words() - 1) // lanes_of_words() * lanes_of_words() - across
    depth = block_depth(planes.number)
    pairs = 2 * depth * block_count(planes.number)
    data = planes.number * planes.apart + (planes.columns + 5 * LINE) // LINE * LINE
    made = Tiles(down, across, apart_for_blocks(down * across + beyond), pairs, depth, data, 0, 0, 0)
    weights = data + PRODUCTS * data_words(made)
    products = weights + PRODUCTS * BLOCK * channel_words(made)
    return Tiles(down, across, made.apart, pairs, depth, data, weights, products, products + PRODUCTS * BLOCK * MOST_WORDS)


@generic
def is_shorter(conv: ByteConvolution, region: Region, planes: Planes) -> bool:
    """Whether the transforms give all results of a region, with fewer products."""
    stride, _, dilation, taps = conv.window
    if conv.form != BLOCKS or taps[0] != TAPS or taps[1] != TAPS or conv.sizes[1] // conv.groups > MOST_CHANNELS:
        return False
    if stride[0] * stride[1] * dilation[0] * dilation[1] != 1 or conv.out_sizes[1] > MOST_COLUMNS:
        return False
    lanes, tiles = lanes_of_words(), (region.rows + 1) // RESULTS * ((region.columns + 1) // RESULTS)
    vectors = (streams_positions(region, planes) + lanes - 1) // lanes
    return 4 * PRODUCTS * ((tiles + lanes - 1) // lanes) <= 3 * TAPS * TAPS * vectors


# ---- transforms ----------------------------------------------------------------------------------------------------------


@generic
def _of_data(a: Vector, b: Vector, c: Vector, d: Vector, n: int) -> Vector:
    """Number ``n`` of the transform of 4 numbers along an axis of data."""
    if n == 0:
        return a - c
    if n == 1:
        return b + c
    if n == 2:
        return c - b
    return b - d


@generic
def _of_weights(a: Vector, b: Vector, c: Vector, n: int) -> Vector:
    """Number ``n`` of the transform of 3 weights along an axis, times 2."""
    if n == 0:
        return a + a
    if n == 1:
        return a + b + c
    if n == 2:
        return a - b + c
    return c + c


@generic
def _of_products(a: Vector, b: Vector, c: Vector, d: Vector, n: int) -> Vector:
    """Result ``n`` of 4 products along an axis."""
    if n == 0:
        return a + b + c
    return b - c - d


@generic
def _unsigned(words: Vector, is_odd: int) -> Vector:
    """The unsigned bytes of words at even places, or at odd ones, in 16 bits."""
    pairs = words.view(np.uint16)
    if is_odd == 0:
        return (pairs & 255).view(np.int16)
    return (pairs >> 8).view(np.int16)


@generic
def _signed(words: Vector, is_odd: int) -> Vector:
    """As ``_unsigned``, of signed bytes."""
    pairs = words.view(np.int16)
    if is_odd == 0:
        pairs = pairs << 8
    return pairs >> 8


@at_compile_time
def _alternate(lanes: int, first: int) -> tuple[int, ...]:
    """The places of every other one of twice as many lanes."""
    return tuple(range(first, 2 * lanes, 2))


@generic
def transform_planes(panel: Array, planes: Planes, tiles: Tiles) -> None:
    """Transform the planes of a region; a vector reaches into the tiles of the next row, which are stored later."""
    lanes = lanes_of_words()
    for plane in range(planes.number):
        pair = plane // tiles.depth * 2 * tiles.depth + plane % tiles.depth
        for i in range(tiles.down):
            for j in range(0, tiles.across, lanes):
                here = plane * planes.apart + RESULTS * (i * planes.columns + j)
                to = tiles.data + pair * tiles.apart + i * tiles.across + j
                _transform_tiles(panel, here, planes.columns, to, tiles.depth * tiles.apart, data_words(tiles), lanes)


@shared
@generic
def _transform_tiles(panel: Array, here: int, columns: int, to: int, odd: int, product: int, lanes: int) -> None:
    """Transform the data of a vector of tiles; ``odd``: words from even bytes to odd ones, ``product``: to the next product."""
    side, of_tile = static(SIDE), static(PRODUCTS)
    lines = [load(panel, here + n // 2 * columns + n % 2 * 2, 2 * lanes) for n in static_range(2 * side)]
    words = [shuffle(lines[n // 2], lines[n // 2], _alternate(lanes, n % 2)) for n in static_range(of_tile)]
    for is_odd in static_range(2):
        d = [_unsigned(words[n], is_odd) for n in static_range(of_tile)]
        t = [_of_data(d[n % 4], d[4 + n % 4], d[8 + n % 4], d[12 + n % 4], n // 4) for n in static_range(of_tile)]
        for m in static_range(of_tile):
            row = m // 4 * 4
            found = _of_data(t[row], t[row + 1], t[row + 2], t[row + 3], m % 4)
            store(panel, to + m * product + is_odd * odd, found.view(np.int32))


@generic
def transform_weights(weights: Weights, at: int, panel: Array, tiles: Tiles) -> None:
    """Transform the weights of BLOCK output channels, whose words begin at ``at``.

    A vector reaches into the pairs behind its own, which are stored later.
    """
    lanes, block = lanes_of_words(), static(BLOCK)
    for number in range(tiles.pairs // (2 * tiles.depth)):
        for row in range(BLOCK):
            for is_odd in static_range(2):
                for first in range(0, tiles.depth, lanes):
                    here = at + (number * TAPS * TAPS * block + row) * block + first
                    to = tiles.weights + row * channel_words(tiles) + (2 * number + is_odd) * tiles.depth + first
                    _transform_window(weights.words, here, panel, to, block * channel_words(tiles), is_odd, lanes)


@shared
@generic
def _transform_window(words: Array, here: int, panel: Array, to: int, product: int, is_odd: int, lanes: int) -> None:
    """Transform the weights of a vector of pairs; ``product``: words from a product of a tile to the next."""
    taps, of_tile, step = static(TAPS), static(PRODUCTS), static(BLOCK * BLOCK)
    g = [_signed(load(words, here + n * step, lanes), is_odd) for n in static_range(taps * taps)]
    t = [_of_weights(g[n % 3], g[3 + n % 3], g[6 + n % 3], n // 3) for n in static_range(4 * taps)]
    for m in static_range(of_tile):
        row = m // 4 * 3
        found = _of_weights(t[row], t[row + 1], t[row + 2], m % 4)
        store(panel, to + m * product, found.view(np.int32))


# ---- products ------------------------------------------------------------------------------------------------------------


@generic
def multiply_tiles(panel: Array, tiles: Tiles, weights: Weights, first: int) -> None:
    """Compute the lines of results of BLOCK output channels; ``first``: the first of them in the start of sums."""
    lanes, count = lanes_of_words(), (tiles.down * tiles.across + lanes_of_words() - 1) // lanes_of_words()
    for vector in range(0, count, VECTORS):
        for some in static_range(1, VECTORS + 1):
            if min(VECTORS, count - vector) == some:
                for n in range(PRODUCTS):
                    for row in range(0, BLOCK, TOGETHER):
                        _multiply(
                            panel, tiles.data + n * data_words(tiles) + vector * lanes, tiles.apart,
                            tiles.weights + (n * BLOCK + row) * channel_words(tiles), channel_words(tiles), tiles.pairs,
                            tiles.products + (n * BLOCK + row) * VECTORS * lanes, some, lanes,
                        )  # fmt: skip
                for row in range(BLOCK):
                    begin = weights.start[np.uint64(min(first + row, weights.last))]
                    line = tiles.lines + row * 2 * RESULTS * tiles.apart + RESULTS * vector * lanes
                    _transform_back(panel, tiles.products + row * VECTORS * lanes, line, tiles.apart, begin, some, lanes)


@shared
@generic
def _multiply(
    panel: Array, data: int, apart: int, weights: int, channel: int, pairs: int, to: int, vectors: int, lanes: int
) -> None:  # fmt: skip
    """Store the sums of ``pairs`` products, an even number, of TOGETHER output channels by some vectors of tiles."""
    rows = static(TOGETHER)
    totals = [splat(np.int32(0), lanes)] * (rows * vectors)
    for pair in range(0, pairs, 2):
        for more in static_range(2):
            here, at = data + (pair + more) * apart, weights + pair + more
            tiles = [load(panel, here + n * lanes, lanes).view(np.int16) for n in static_range(vectors)]
            for r in static_range(rows):
                own = splat(panel[np.uint64(at + r * channel)], lanes).view(np.int16)
                for v in static_range(vectors):
                    totals[r * vectors + v] = add_dot_of_pairs(totals[r * vectors + v], tiles[v], own)
    for r in static_range(rows):
        for v in static_range(vectors):
            store(panel, to + (r * static(VECTORS) + v) * lanes, totals[r * vectors + v])


@shared
@generic
def _transform_back(panel: Array, products: int, line: int, apart: int, begin: int, vectors: int, lanes: int) -> None:
    """Store the results of vectors of tiles of an output channel: those of even rows in a line, those of odd rows in the next."""
    of_tile, step = static(PRODUCTS), static(BLOCK * VECTORS)
    start = splat(np.int32(begin), lanes)
    for v in static_range(vectors):
        p = [load(panel, products + v * lanes + n * step * lanes, lanes) for n in static_range(of_tile)]
        t = [_of_products(p[n % 4], p[4 + n % 4], p[8 + n % 4], p[12 + n % 4], n // 4) for n in static_range(8)]
        y = [_of_products(t[n // 2 * 4], t[n // 2 * 4 + 1], t[n // 2 * 4 + 2], t[n // 2 * 4 + 3], n % 2) for n in static_range(4)]
        for i in static_range(2):
            even, odd = (y[2 * i] >> 2) + start, (y[2 * i + 1] >> 2) + start
            store(panel, line + i * RESULTS * apart + RESULTS * v * lanes, shuffle(even, odd, interleaved(lanes)))


@generic
def _copy_lines(panel: Array, tiles: Tiles, region: Region, rows: int, sums: Array, pitch: int) -> None:
    """Copy lines of results to sums, row by row; a vector reaches into the next row, which is stored later."""
    lanes = lanes_of_words()
    for row in range(rows):
        for y in range(region.rows):
            line = tiles.lines + (row * RESULTS + y % RESULTS) * RESULTS * tiles.apart + y // RESULTS * RESULTS * tiles.across
            for x in range(0, region.columns, lanes):
                store(sums, row * pitch + y * region.columns + x, load(panel, line + x, lanes))


@generic
def add_by_transforms(
    panel: Array, planes: Planes, region: Region, weights: Weights, steps: int, sums: Array, epilogue: Epilogue, part: Part
) -> None:  # fmt: skip
    """Compute and finish the sums of a part; ``weights``: of the group, ``steps``: of a tile of output channels."""
    tiles, pitch = tiles_of(region, planes), (part.run + LINE - 1) // LINE * LINE + LINE
    transform_planes(panel, planes, tiles)
    for tile in range(part.first, part.end):
        row = tile * BLOCK
        rows, to = min(BLOCK, part.outputs - row), part.to + row * part.positions
        transform_weights(weights, weights.at + tile * steps * BLOCK * BLOCK, panel, tiles)
        multiply_tiles(panel, tiles, weights, weights.first + row)
        _copy_lines(panel, tiles, region, rows, sums, pitch)
        epilogue.finish(epilogue.argv, to, rows, part.run, sums, 0, pitch)
