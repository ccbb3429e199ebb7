"""Convolution with a window of 3 x 3 by Winograd's algorithm F(2x2, 3x3): 16 products for 4 results, with stride 2 25, not 36.

See Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.  A tile ``d`` of 4 x 4 data gives 2 x 2 results
``A^T (sum over channels of U * (B^T d B)) A`` with ``U = G w G^T``.  The 16 sums are matrix products of filters and a stretch of
tiles, whose transformed data stay in the second cache.  With stride 2 a tile has 5 x 5 data; some of the 25 products have the
same of the 16 transformed filters (``native.jit.convolution.winograd_axis``).

The tiles of all pictures of a batch follow one another, so that small pictures fill vectors, too.  A transformation stores whole
vectors: elements behind a row of tiles are overwritten by the next row of tiles.

An error of rounding is at most ``81 * c * (c + 11) * u`` times the largest elements of the weight and of the data, with ``c``
input channels and the unit roundoff ``u``; of a direct sum it is at most ``81 * c * c * u`` times these.  An infinite element of
the data makes infinities or NaN of all results of its tiles: the transformation subtracts infinities.

Every element of the result is one sum in an order that depends on the sizes and its position only: the same bits for any number
of threads.  At most APART tiles behind whole lines are summed in another order than the others (``row_products``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...native.jit.convolution.image_rows import Image
from ...native.jit.convolution.winograd_axis import FILTERS, RESULTS, WINDOW
from ...native.jit.convolution.winograd_filters import transform_filters
from ...native.jit.convolution.winograd_tiles import LEAST_LANES, Elements, Pairs, transform_data, transform_sums
from ...native.jit.products.operands import Ahead, Panels, Rows
from ...native.jit.products.panel_products import multiply_panels
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.jit.products.row_products import multiply_by_rows
from ...native.memory import Array, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, ROW, Spatial
from .epilogue import Epilogue
from .geometry import Convolution
from .tiles import APART, LEAST_INNER

#: The elements of a filter.
TAPS = WINDOW * WINDOW
#: Tiles of a line: a cache line of elements; and of a stretch, an even number of lines.
LINE = PANEL_BYTES // 4
STRETCH = GROUP_PANELS * LINE
#: Columns of the narrowest tile of a product without masks.
HALF = LINE // 2
#: Channels that are transformed together: their lines are in the first cache until they are whole.
CHANNELS = 8
#: Output channels whose sums are transformed together.
BAND = 48


class Products(NamedTuple):
    """Transformed data or sums of tiles, by product and channel.

    ``step``: the elements from a product to the next; ``pitch``: from a channel to the next.
    """

    data: Array
    step: int
    pitch: int


@generic
def tile_side(stride: int) -> int:
    """The elements of a tile along an axis, and of its products."""
    return (RESULTS - 1) * stride + WINDOW


@generic
def filter_of(product: int, side: int) -> int:
    """The number of the transformed filter of a product: along an axis the last two products of stride 2 have the same."""
    return min(product // side, FILTERS - 1) * FILTERS + min(product % side, FILTERS - 1)


@generic
def stretch_count(tiles: int) -> int:
    """The number of stretches of a call: the last one may have APART tiles more."""
    return max((tiles - APART + STRETCH - 1) // STRETCH, min(tiles, 1))


@generic
def tile_pitch(tiles: int, wide: int) -> int:
    """The number of elements from a row of transformed data or sums to the next; ``tiles``: those of the call, ``wide`` a row.

    A transformation overwrites elements behind the last row of tiles.  Lines are odd in number: rows are in all sets of a cache.
    """
    lines = (tiles + (LEAST_LANES - 1) * wide % LEAST_LANES + LINE - 1) // LINE
    return min(lines // 2 * 2, GROUP_PANELS) * LINE + LINE


@generic
def tile_axes(out: Spatial) -> tuple[int, int]:
    """The tiles of a row of a picture, and the rows of tiles."""
    return (out.sizes[COLUMN] + 1) // RESULTS, (out.sizes[ROW] + 1) // RESULTS


@generic
def fill_panels(conv: Convolution, panels: Products, zeros: Array, first: int, end: int) -> None:
    """Transform the data of the tiles ``first`` to ``end`` (exclusive)."""
    (_, inputs, _, height, width), (batch, plane, _, _, _) = conv.data.sizes, conv.data.steps
    (wide, tall), data, stride = tile_axes(conv.out), conv.data.data, conv.window.stride[2]
    out, step, pitch = panels
    for channel in range(0, inputs, CHANNELS):
        tile = first
        while tile < end:
            row, column = tile // wide % tall, tile % wide
            count, channels = min(wide - column, end - tile), min(CHANNELS, inputs - channel)
            at, to = tile // (wide * tall) * batch + channel * plane, tile - first + channel * pitch
            y, x = row * RESULTS * stride - conv.window.before[1], column * RESULTS * stride - conv.window.before[2]
            image, transformed = Image(data, at, height, width, zeros), Elements(out, to, step, pitch)
            transform_data(image, plane, channels, y, x, transformed, count, stride)
            tile += count


@generic
def finish_tiles(
    conv: Convolution, of_sums: Products, results: int, channel: int, channels: int, first: int, end: int, epilogue: Epilogue
) -> None:
    """Transform the sums of some output channels, from ``channel`` on, to results, and finish these."""
    (sums, step, pitch), (wide, tall), out = of_sums, tile_axes(conv.out), conv.out
    below, across = RESULTS * pitch, RESULTS * RESULTS * pitch
    given, pairs = Elements(sums, 0, step, pitch), Pairs(sums, results, across, below)
    transform_sums(given, pairs, channels, end - first, conv.window.stride[2])
    tile = first
    while tile < end:
        row, column = tile // wide % tall, tile % wide
        count = min(wide - column, end - tile)
        size = min(count * RESULTS, out.sizes[COLUMN] - column * RESULTS)
        to = tile // (wide * tall) * out.steps[BATCH] + channel * out.steps[CHANNEL] + column * RESULTS
        for y in range(RESULTS):
            line = row * RESULTS + y
            if line < out.sizes[ROW]:
                source = results + y * below + (tile - first) * RESULTS
                epilogue.finish(epilogue.argv, to + line * out.steps[ROW], channels, size, sums, source, across)
        tile += count


@generic
def transform_weight(weight: Array, filters: Array, count: int, stride: int) -> None:
    """Store the 16 products of each of ``count`` filters: the filters' first, then their second, and so on."""
    width = PANEL_BYTES // weight.itemsize
    for n in range(0, count, width):
        transform_filters(weight, n * TAPS, filters, n, count, min(width, count - n), stride)


@generic
def columns_apart(tiles: int, inputs: int) -> int:
    """The number of tiles behind whole lines that are multiplied apart."""
    return tiles % LINE if tiles % LINE <= APART and inputs >= LEAST_INNER else 0


@generic
def columns_whole(tiles: int, apart: int) -> int:
    """The number of columns of a product of ``tiles`` tiles without those ``apart``.

    A tile that stores by masks takes longer than one of as many columns more: lanes behind the tiles are multiplied, too.
    """
    return tiles - apart if apart > 0 else (tiles + HALF - 1) // HALF * HALF


@generic
def clear_lanes(products: Products, groups: int, rows: int, first: int, lanes: int) -> None:
    """Store zeros in ``lanes`` elements, from ``first`` on, of each of ``rows`` channels of ``groups`` products."""
    for n in range(groups):
        for i in range(rows):
            at = n * products.step + i * products.pitch + first
            for j in range(lanes):
                products.data[np.uint64(at + j)] = 0


@generic
def clear_after(conv: Convolution, panels: Products, sums: Products, tiles: int) -> None:
    """Store zeros behind the last of ``tiles`` tiles, before these are filled, wherever vectors of data or of sums are read.

    Nobody has written there: products of subnormal numbers that happen to be there would take many times as long.
    """
    inputs, side = conv.data.sizes[CHANNEL], tile_side(conv.window.stride[2])
    if columns_apart(tiles, inputs) == 0 and tiles % HALF > 0:
        clear_lanes(panels, side * side, inputs, tiles // HALF * HALF, HALF)
    if tiles % LINE > 0:
        clear_lanes(sums, side * side, min(BAND, conv.out.sizes[CHANNEL]), tiles // LINE * LINE, LINE)


@generic
def turn_columns(panels: Products, at: int, inputs: int, products: int, columns: Array, apart: int) -> None:
    """Store ``apart`` tiles, from ``at`` on, by product, tile and channel."""
    to = 0
    for n in range(products):
        for j in range(apart):
            for i in range(inputs):
                columns[np.uint64(to + i)] = panels.data[np.uint64(at + n * panels.step + i * panels.pitch + j)]
            to += inputs


@generic
def multiply_band(
    conv: Convolution, panels: Products, columns: Array, sums: Products, channel: int, channels: int, count: int
) -> None:
    """Multiply the filters of some output channels by ``count`` tiles, each product by itself."""
    filters, outputs, inputs = conv.weight.data, conv.out.sizes[CHANNEL], conv.data.sizes[CHANNEL]
    side, apart = tile_side(conv.window.stride[2]), columns_apart(count, inputs)
    whole = columns_whole(count, apart)
    for n in range(side * side):
        base = filter_of(n, side) * outputs * inputs
        for top in range(0, channels, TILE_ROWS):
            here, to = base + (channel + top) * inputs, n * sums.step + top * sums.pitch
            rows, later = min(TILE_ROWS, channels - top), here + TILE_ROWS * inputs
            if top + TILE_ROWS >= channels:
                following = (channel + channels) % outputs * inputs
                later = (filter_of(n + 1, side) * outputs + channel) * inputs if n + 1 < side * side else following
            multiply_panels(
                Rows(filters, here, inputs), Panels(panels.data, n * panels.step, LINE, panels.pitch),
                Rows(sums.data, to, sums.pitch), rows, inputs, whole, 0, Ahead(0, GROUP_PANELS, 0, Rows(filters, later, inputs)),
            )  # fmt: skip
            if apart > 0:
                last, beside = Rows(columns, n * apart * inputs, inputs), Rows(sums.data, to + whole, sums.pitch)
                multiply_by_rows(Rows(filters, here, inputs), last, beside, rows, inputs, apart, 0)


class WinogradBuffers(NamedTuple):
    """Room for a stretch of tiles; for APART tiles; for the products of BAND output channels, and their results; for a row
    outside the data."""

    panels: Array
    columns: Array
    sums: Array
    zeros: Array


@generic
def convolve_winograd(conv: Convolution, buffers: WinogradBuffers, epilogue: Epilogue, low: int, high: int, band: int) -> None:
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: stretches of tiles, and of these each ``band`` output
    channels.

    Layout NCHW of data and result; the weight is transformed.
    """
    (panel_data, columns, sum_data, zeros), outputs, inputs = buffers, conv.out.sizes[CHANNEL], conv.data.sizes[CHANNEL]
    side, (wide, tall) = tile_side(conv.window.stride[2]), tile_axes(conv.out)
    tiles = conv.out.sizes[BATCH] * tall * wide
    pitch = tile_pitch(tiles, wide)
    # products are a line further apart than their rows: those of one tile are in different sets of a cache
    panels, sums = Products(panel_data, inputs * pitch + LINE, pitch), Products(sum_data, BAND * pitch + LINE, pitch)
    stretches, bands, filled = stretch_count(tiles), (outputs + band - 1) // band, -1
    for i in range(zeros.size):
        zeros[i] = 0
    for block in range(low, high):
        number, top = block // bands, block % bands * band
        first, bottom = number * STRETCH, min(top + band, outputs)
        end = tiles if number + 1 == stretches else first + STRETCH
        count = end - first
        if number != filled:
            apart = columns_apart(count, inputs)
            clear_after(conv, panels, sums, count)
            fill_panels(conv, panels, zeros, first, end)
            turn_columns(panels, count - apart, inputs, side * side, columns, apart)
            filled = number
        for o in range(top, bottom, BAND):
            channels = min(BAND, bottom - o)
            multiply_band(conv, panels, columns, sums, o, channels, count)
            finish_tiles(conv, sums, side * side * sums.step, o, channels, first, end, epilogue)
