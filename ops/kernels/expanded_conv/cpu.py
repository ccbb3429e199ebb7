"""A 1x1 convolution that expands channels, and the depthwise convolution of its result, which is never in memory.

The result of a network's expansion takes some MB, more than a second cache.  Here a few channels of a band of rows are expanded
into a buffer that stays in the caches, and convolved.  The data of a band are packed once, for all its channels, or read where
they are (``reads_rows_apart``).  Rows that the next band reads, too, are kept; a thread that begins between two bands computes
them again.

Every element is one sum over channels, in order, and the bias; then one sum over the window: the same bits for any number of
threads.  The bits are those of the two convolutions (``tiles``, ``depthwise``), except where ``tiles`` multiplies a few columns
apart and there are several bands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...native.inlining import apart
from ...native.jit.convolution.clipped_tile import Clip, clip_of, clip_rows, multiply_clipped
from ...native.jit.convolution.image_rows import Image, Results, Weights
from ...native.jit.convolution.panel_row import reads_rows_apart
from ...native.jit.convolution.window_taps import WINDOW, Planes, Windows, add_windows
from ...native.jit.convolution.window_taps import Limits as Bounds
from ...native.jit.products.operands import Panels, Rows
from ...native.jit.products.register_tile import PANEL_BYTES, TILE_ROWS
from ...native.jit.products.row_products import multiply_by_rows
from ...native.memory import Array, Axes, generic
from ...native.status import OK
from ..conv.depthwise import FINISHED
from ..conv.epilogue import Epilogue, Limits
from ..conv.geometry import Convolution, Filters, Window
from ..conv.tiles import columns_apart, copy_columns, stretch_columns
from ..shaped import Shaped
from ..spatial.cpu import CHANNEL, COLUMN, ROW, Spatial, spatial

#: Bytes of the data of a band, and of the expanded channels that are convolved together: with the results a part of the second
#: cache.  Measured on MobileNetV2, half as many bytes of data take 4 to 9 % more time; other changes by 2 are within 3 %.
PACKED_BYTES, EXPANDED_BYTES = 2**17, 2**16
#: The fewest rows of the result of a band.
LEAST_ROWS = 4
#: The fewest and the most tiles of expanded channels that are convolved together.
LEAST_TILES, MOST_TILES = 2, 8
#: Bytes of a weight that stays in no second cache between two bands: its rows are fetched ahead.
LARGE_BYTES = 2**16
#: The bytes between the expanded rows of two channels, so that few channels share a set of the first cache.
GAP_BYTES = PANEL_BYTES


@generic
def rows_together(out_rows: int, inputs: int, width: int, step: int, itemsize: int) -> int:
    """The rows of the result of a band, but for the last one: bands are of about one size."""
    most = max(PACKED_BYTES // max(inputs * width * itemsize, 1) // step, LEAST_ROWS)
    bands = max((out_rows + most - 1) // most, 1)
    return max((out_rows + bands - 1) // bands, 1)


@generic
def plane_pitch(rows: int, width: int, step: int, itemsize: int) -> int:
    """The elements from an expanded channel to the next, for ``rows`` rows of the result."""
    return ((rows - 1) * step + WINDOW) * width + GAP_BYTES // itemsize


@generic
def tiles_together(pitch: int, itemsize: int) -> int:
    """The tiles of expanded channels that are convolved together."""
    return min(max(EXPANDED_BYTES // (pitch * itemsize) // TILE_ROWS, LEAST_TILES), MOST_TILES)


@generic
def turn_columns(data: Array, at: int, inner: int, channel: int, apart: int, work: Array) -> None:
    """Copy ``apart`` columns of ``inner`` rows, which begin at ``at`` and are ``channel`` elements apart, as rows."""
    for j in range(apart):
        for k in range(inner):
            work[np.uint64(j * inner + k)] = data[np.uint64(at + k * channel + j)]


@generic
def expand_channels(
    weight: Rows, clip: Clip, channels: int, panels: Panels, columns: Array, out: Rows, count: int, apart: int
) -> None:
    """Compute some channels of the expansion, rows of ``out``, for ``count`` columns.

    The last ``apart`` columns are in ``columns``, as rows.  Meanwhile fetch the weights of the next tile.
    """
    inner, width = weight.step, PANEL_BYTES // out.data.itemsize
    tiles, stretch, whole = (channels + TILE_ROWS - 1) // TILE_ROWS, stretch_columns(inner, width), count - apart
    is_large = weight.data.size * weight.data.itemsize > LARGE_BYTES
    for begin in range(0, max(whole, 1), stretch):
        some = min(stretch, whole - begin)
        for tile in range(tiles):
            o = tile * channels // tiles
            rows = (tile + 1) * channels // tiles - o
            at, here = weight.at + o * inner, out.at + o * out.step
            bounds, first = clip_of(clip, o), panels.at + begin // width * panels.step
            multiply_clipped(
                Rows(weight.data, at, inner), Panels(panels.data, first, panels.step, panels.row),
                Rows(out.data, here + begin, out.step), rows, inner, some, bounds,
                Rows(weight.data, at + rows * inner, inner if begin == 0 and is_large else 0),
            )  # fmt: skip
            if apart > 0 and begin + some == whole:
                last = Rows(out.data, here + whole, out.step)
                multiply_by_rows(Rows(weight.data, at, inner), Rows(columns, 0, inner), last, rows, inner, apart, 0)
                clip_rows(last, rows, apart, bounds)


@generic
def copy_run(source: Array, at: int, target: Array, to: int, count: int) -> None:
    """Copy ``count`` elements."""
    for i in range(count):
        target[np.uint64(to + i)] = source[np.uint64(at + i)]


@generic
def convolve_channels(
    conv: Convolution, base: int, low: int, high: int, to: int, first: int, rows: int, zeros: Array, epilogue: Epilogue,
    limits: Limits,
) -> None:  # fmt: skip
    """Convolve the expanded channels ``low`` to ``high`` (exclusive); the data of ``conv`` are their rows from ``base`` on.

    ``rows`` rows of the result from ``first`` on; the first channel of the result begins at ``to``.
    """
    (data, sizes, steps), (out, out_sizes, out_steps), (addend, lowest, highest, is_limited) = conv.data, conv.out, limits
    step, before, plane, wide = conv.window.stride[2], conv.window.before, out_steps[CHANNEL], out_sizes[COLUMN]
    count = rows * wide
    together = max(FINISHED // count, 1) if rows == out_sizes[ROW] else 1
    for c in range(low, high, together):
        here, some = to + (c - low) * plane + first * wide, min(together, high - c)
        add_windows(
            Image(data, (c - low) * steps[CHANNEL] - base * sizes[COLUMN], sizes[ROW], sizes[COLUMN], zeros),
            Windows(first * step - before[1], -before[2], step, WINDOW), Weights(conv.weight.data, c * WINDOW * WINDOW, 1),
            Results(out, here, rows, wide), Planes(some, steps[CHANNEL], WINDOW * WINDOW, plane, plane),
            Bounds(addend, c, lowest, highest, is_limited),
        )  # fmt: skip
        if not is_limited:
            epilogue.finish(epilogue.argv, here, some, count)


class BandBuffers(NamedTuple):
    """Room for the data of a band; for those apart; for the channels that are convolved together; for the rows of all channels
    that two bands read; ``data_taps.ZERO_BYTES``."""

    panels: Array
    columns: Array
    expanded: Array
    kept: Array
    zeros: Array


@apart("before", "least", "most", "lowest", "highest")
@generic
def bands(
    data: Shaped, weight: Shaped, bias: Array, depthwise: Array, out: Shaped, low: int, high: int, buffers: BandBuffers,
    finish: Callable[..., None], argv: int, limits: Limits, step: int, before: Axes, least: float, most: float,
) -> int:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: a tile of channels in a band.

    Layout NCHW.  ``step``: the stride of the depthwise convolution; ``before``: its padding above and on the left; ``least``,
    ``most``: the bounds of the expansion; ``limits``: of the result.
    """
    (panels, columns, expanded, kept, zeros), channels, itemsize = buffers, weight.dims[0], out.data.itemsize
    (_, sizes, steps), results, epilogue = spatial(data, False), spatial(out, False), Epilogue(finish, argv)
    inputs, positions, height, wide, out_rows = sizes[CHANNEL], steps[CHANNEL], sizes[ROW], sizes[COLUMN], results.sizes[ROW]
    if out.data.size == 0:
        return OK
    for i in range(zeros.size):
        zeros[i] = 0
    rows = rows_together(out_rows, inputs, wide, step, itemsize)
    pitch = plane_pitch(rows, wide, step, itemsize)
    tiles, band_count = (channels + TILE_ROWS - 1) // TILE_ROWS, (out_rows + rows - 1) // rows
    window = Filters(depthwise, (channels, 1, 1, WINDOW, WINDOW), (WINDOW * WINDOW, WINDOW * WINDOW, 1))
    wide_data, around = Spatial(expanded, sizes, (0, pitch, 0, wide, 1)), (0, before[0], before[1])
    conv = Convolution(wide_data, window, results, Window((1, step, step), around, (1, 1, 1)), channels)
    together, kept_pitch = tiles_together(pitch, itemsize), (WINDOW - step) * wide
    width, number = PANEL_BYTES // itemsize, low
    while number < high:
        tile, band = number % tiles, number // tiles % band_count
        some, b = min(tiles - tile, high - number), number // tiles // band_count
        first = band * rows
        here = min(rows, out_rows - first)
        base = min(max(first * step - before[0], 0), height)
        end = max(min((first + here - 1) * step - before[0] + WINDOW, height), base)
        following = min(max((first + here) * step - before[0], base), end)
        # the rows that the band before has computed, in this call
        is_kept = band > 0 and number - tiles >= low
        begin = max(base, min(max((first - 1) * step - before[0] + WINDOW, 0), height)) if is_kept else base
        count, at = (end - begin) * wide, b * inputs * positions + begin * wide
        # of the columns apart of a picture, those that a window reads
        apart = max(columns_apart(positions, inputs, width) - positions + count, 0) if band_count == 1 else 0
        if not reads_rows_apart():
            copy_columns(panels, data.data, at, inputs, positions, count)
        turn_columns(data.data, at + count - apart, inputs, positions, apart, columns)
        groups = (some + together - 1) // together
        for g in range(groups):
            top = (tile + g * some // groups) * channels // tiles
            bottom = (tile + (g + 1) * some // groups) * channels // tiles
            for c in range(top, bottom if begin > base else top):
                copy_run(kept, c * kept_pitch, expanded, (c - top) * pitch, (begin - base) * wide)
            to = (begin - base) * wide
            source = Panels(data.data, at, width, positions) if reads_rows_apart() else Panels(panels, 0, inputs * width, width)
            if count > 0:
                rows_of_weight, clip = Rows(weight.data, top * inputs, inputs), Clip(bias, bias, top, least, most, False, True)
                expand_channels(rows_of_weight, clip, bottom - top, source, columns, Rows(expanded, to, pitch), count, apart)
            first_result = (b * channels + top) * results.steps[CHANNEL]
            convolve_channels(conv, base, top, bottom, first_result, first, here, zeros, epilogue, limits)
            for c in range(top, bottom if band + 1 < band_count else top):
                last = (c - top) * pitch + (following - base) * wide
                copy_run(expanded, last, kept, c * kept_pitch, (end - following) * wide)
        number += some
    return OK
