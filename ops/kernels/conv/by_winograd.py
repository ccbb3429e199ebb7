"""Convolution with a window of 3 x 3 by Winograd's algorithm F(2x2, 3x3): 16 products for 4 results instead of 36.

See Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.  A tile ``d`` of 4 x 4 data gives 2 x 2 results
``A^T (sum over channels of U * (B^T d B)) A`` with ``U = G w G^T``.  The 16 sums are matrix products of filters and a stretch of
tiles, whose panels stay in the second cache.

Padded data is in phases of even and odd rows and columns (see ``by_plane``), so that the same element of neighbouring tiles is a
vector.  A row of tiles ends with one that has no results: rows of tiles follow one another without a gap.

An error of rounding is at most ``81 * c * (c + 11) * u`` times the largest elements of the weight and of the data, with ``c``
input channels and the unit roundoff ``u``; of a direct sum it is at most ``81 * c * c * u`` times these.  An infinite element of
the data makes infinities or NaN of all results of its tiles: the transformation subtracts infinities.

Every element of the result is one sum in an order that depends on its position only: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....shape_funcs.defs.conv import WINOGRAD_PRODUCTS
from ...native.jit.convolution.winograd_vectors import RESULTS, WINDOW, transform_data, transform_filters, transform_sums
from ...native.jit.product_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS, multiply_panels
from ...native.memory import Array, Axes, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, ROW
from .by_plane import fill_plane
from .tiles import FINISHED_ROWS

#: The products of a tile, and the elements of a filter.
PRODUCTS, TAPS = WINOGRAD_PRODUCTS, WINDOW * WINDOW
#: Channels that are padded together: a load waits for the stores of different parts of its elements.
CHANNELS = 8
#: Tiles of a stretch: those of a group of panels.
STRETCH = GROUP_PANELS * PANEL_BYTES // np.dtype(np.float32).itemsize


@generic
def fill_panels(
    data: Array, at: int, panels: Array, room: Array, every: Array, channels: int, row: int, rows: int, pitch: int, start: int,
    count: int, sizes: Axes, steps: Axes, before: Axes,
) -> None:  # fmt: skip
    """Transform ``count`` tiles of all channels, from tile ``start`` of row ``row`` of tiles on; they touch ``rows`` rows."""
    width = PANEL_BYTES // panels.itemsize
    phase, moved = (rows + 1) * pitch, (0, before[1] - row * RESULTS, before[2])
    for first in range(0, channels, CHANNELS):
        end = min(first + CHANNELS, channels)
        for i in range(first, end):
            fill_plane(
                room, (i - first) * RESULTS * RESULTS * phase, (1, rows + 1, pitch), data, at + i * steps[CHANNEL], sizes, steps,
                (1, RESULTS, RESULTS), moved, every,
            )  # fmt: skip
        for i in range(first, end):
            source = (i - first) * RESULTS * RESULTS * phase + start
            for j in range(0, count, width):
                transform_data(room, source + j, phase, pitch, panels, j * channels + i * width, channels * STRETCH)


@generic
def finish_tiles(
    sums: Array, results: int, to: int, channels: int, row: int, rows: int, pitch: int, start: int, count: int,
    out_sizes: Axes, out_steps: Axes, finish: Callable[..., None], argv: int,
) -> None:  # fmt: skip
    """Transform the sums of some output channels to results, from ``results`` on, and finish these."""
    width, wide = PANEL_BYTES // sums.itemsize, (out_sizes[COLUMN] + 1) // RESULTS
    for i in range(channels):
        for j in range(0, count, width):
            transform_sums(
                sums, i * STRETCH + j, FINISHED_ROWS * STRETCH, sums, results + (i * STRETCH * RESULTS + j) * RESULTS,
                STRETCH * RESULTS,
            )  # fmt: skip
    for tiles in range(rows):
        before = tiles * pitch - start
        first, end = max(-before, 0), min(count - before, wide)
        size = min(end * RESULTS, out_sizes[COLUMN]) - first * RESULTS
        for y in range(RESULTS):
            line = (row + tiles) * RESULTS + y
            if size > 0 and line < out_sizes[ROW]:
                target = to + line * out_steps[ROW] + first * RESULTS
                source = results + (y * STRETCH + before + first) * RESULTS
                finish(argv, target, channels, size, sums, source, STRETCH * RESULTS * RESULTS)


@generic
def transform_weight(weight: Array, filters: Array, count: int) -> None:
    """Store the 16 products of each of ``count`` filters: the filters' first, then their second, and so on."""
    width = PANEL_BYTES // weight.itemsize
    for n in range(0, count, width):
        transform_filters(weight, n * TAPS, filters, n, count, min(width, count - n))


@generic
def convolve_winograd(
    data: Array, filters: Array, out: Array, panels: Array, sums: Array, room: Array, every: Array,
    finish: Callable[..., None], argv: int, low: int, high: int, band: int, sizes: Axes, steps: Axes, out_sizes: Axes,
    out_steps: Axes, before: Axes,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: stretches of tiles, of each element of the batch, and
    of these each ``band`` output channels.

    Layout NCHW of data and result.  ``filters``: the transformed weight; ``panels``: for a stretch of tiles; ``sums``: for the
    products of some output channels, and their results; ``room``: for padded channels and a vector.
    """
    outputs, inputs, width = out_sizes[CHANNEL], sizes[CHANNEL], PANEL_BYTES // out.itemsize
    count_filters, results = outputs * inputs, PRODUCTS * FINISHED_ROWS * STRETCH
    wide, tall = (out_sizes[COLUMN] + 1) // RESULTS, (out_sizes[ROW] + 1) // RESULTS
    pitch = wide + 1
    length = tall * pitch - 1
    stretches = (length + STRETCH - 1) // STRETCH
    bands, filled = (outputs + band - 1) // band, -1
    for block in range(low, high):
        number, top_channel = block // bands, block % bands * band
        b, first = number // stretches, number % stretches * STRETCH
        count, row = min(STRETCH, length - first), first // pitch
        rows, start = (first + count - 1) // pitch + 1 - row, first % pitch
        if number != filled:
            fill_panels(data, b * steps[BATCH], panels, room, every, inputs, row, rows, pitch, start, count, sizes, steps, before)
            filled = number
        bottom = min(top_channel + band, outputs)
        for o in range(top_channel, bottom, FINISHED_ROWS):
            channels = min(FINISHED_ROWS, bottom - o)
            for n in range(PRODUCTS):
                for top in range(0, channels, TILE_ROWS):
                    here = n * count_filters + (o + top) * inputs
                    following = TILE_ROWS * inputs if top + TILE_ROWS < channels else count_filters - top * inputs
                    multiply_panels(
                        filters, here, inputs, panels, n * inputs * STRETCH, inputs * width,
                        width, sums, (n * FINISHED_ROWS + top) * STRETCH, STRETCH, min(TILE_ROWS, channels - top), inputs, count,
                        0, 0, GROUP_PANELS, 0, filters, here + following, inputs,
                    )  # fmt: skip
            finish_tiles(
                sums, results, b * out_steps[BATCH] + o * out_steps[CHANNEL], channels, row, rows, pitch, start, count,
                out_sizes, out_steps, finish, argv,
            )  # fmt: skip
