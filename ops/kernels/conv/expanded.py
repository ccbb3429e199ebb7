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

import numpy as np

from ...native.inlining import apart
from ...native.jit.convolution.clipped_tile import Clip, multiply_clipped
from ...native.jit.convolution.image_rows import Image, Results, Weights
from ...native.jit.convolution.panel_row import reads_rows_apart
from ...native.jit.convolution.window_taps import WINDOW, Later, Limits, Windows, add_windows
from ...native.jit.products.operands import Panels, Rows
from ...native.jit.products.register_tile import PANEL_BYTES, TILE_ROWS
from ...native.jit.products.row_products import multiply_by_rows
from ...native.memory import Array, Axes, generic
from ...native.status import OK
from .depthwise import FINISHED
from .tiles import columns_apart, copy_columns, stretch_columns

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
def clip_runs(
    out: Array, at: int, pitch: int, rows: int, count: int, bias: Array, channel: int, least: float, most: float
) -> None:
    """Add the bias to ``rows`` runs of ``count`` elements, and limit them."""
    for _ in range(rows):
        for i in range(at, at + count):
            total = out[i] + bias[channel]
            out[i] = out.dtype.type(least) if total < least else (out.dtype.type(most) if total > most else total)
        at += pitch
        channel += 1


@generic
def expand_channels(
    weight: Array, bias: Array, top: int, bottom: int, inner: int, panels: Array, first: int, panel: int, row: int,
    columns: Array, count: int, apart: int, out: Array, to: int, pitch: int, least: float, most: float,
) -> None:  # fmt: skip
    """Compute the channels ``top`` to ``bottom`` (exclusive) of the expansion for ``count`` columns, in panels from ``first`` on.

    ``panel``, ``row``: the elements from a panel to the next, and from a row of a panel to the next.  The last ``apart`` columns
    are in ``columns``, as rows.  Meanwhile fetch the weights of the next tile.
    """
    width = PANEL_BYTES // out.itemsize
    tiles, stretch, whole = (bottom - top + TILE_ROWS - 1) // TILE_ROWS, stretch_columns(inner, width), count - apart
    is_large = weight.size * weight.itemsize > LARGE_BYTES
    for begin in range(0, max(whole, 1), stretch):
        some = min(stretch, whole - begin)
        for tile in range(tiles):
            o = top + tile * (bottom - top) // tiles
            rows = top + (tile + 1) * (bottom - top) // tiles - o
            here = to + (o - top) * pitch
            multiply_clipped(
                Rows(weight, o * inner, inner), Panels(panels, first + begin // width * panel, panel, row),
                Rows(out, here + begin, pitch), rows, inner, some, Clip(bias, o, least, most),
                Rows(weight, (o + rows) * inner, inner if begin == 0 and is_large else 0),
            )  # fmt: skip
            if apart > 0 and begin + some == whole:
                multiply_by_rows(weight, o * inner, inner, columns, 0, inner, out, here + whole, pitch, rows, inner, apart, 0)
                clip_runs(out, here + whole, pitch, rows, apart, bias, o, least, most)


@generic
def copy_run(source: Array, at: int, target: Array, to: int, count: int) -> None:
    """Copy ``count`` elements."""
    for i in range(count):
        target[np.uint64(to + i)] = source[np.uint64(at + i)]


@generic
def convolve_channels(
    expanded: Array, pitch: int, base: int, low: int, high: int, weight: Array, out: Array, to: int, sizes: Axes, out_sizes: Axes,
    first: int, rows: int, step: int, before: Axes, zeros: Array, finish: Callable[..., None], argv: int, addend: Array,
    lowest: float, highest: float, is_limited: bool,
) -> None:  # fmt: skip
    """Convolve the expanded channels ``low`` to ``high`` (exclusive), whose rows from ``base`` on are in ``expanded``.

    ``rows`` rows of the result from ``first`` on; the first channel of the result begins at ``to``.  ``sizes``, ``out_sizes``:
    rows and columns.
    """
    plane, count = out_sizes[0] * out_sizes[1], rows * out_sizes[1]
    is_whole, begin = rows == out_sizes[0], low
    together = max(FINISHED // count, 1) if is_whole else 1
    for c in range(low, high):
        here = to + (c - low) * plane + first * out_sizes[1]
        add_windows(
            Image(expanded, (c - low) * pitch - base * sizes[1], sizes[0], sizes[1], zeros),
            Windows(first * step - before[0], -before[1], step), Weights(weight, c * WINDOW * WINDOW, 1),
            Results(out, here, rows, out_sizes[1]), Later(0, plane), Limits(addend[c] if is_limited else -0.0, lowest, highest),
        )  # fmt: skip
        if is_limited:
            continue
        if c + 1 - begin == together or c + 1 == high:
            finish(argv, here - (c - begin) * plane, c + 1 - begin, count)
            begin = c + 1


@apart("before", "least", "most", "lowest", "highest")
@generic
def bands(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, bias: Array, depthwise: Array, out: Array, out_dims: Axes,
    low: int, high: int, panels: Array, columns: Array, expanded: Array, kept: Array, zeros: Array, finish: Callable[..., None],
    argv: int, addend: Array, step: int, before: Axes, least: float, most: float, lowest: float, highest: float,
    is_limited: bool,
) -> int:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: a tile of channels in a band.

    Layout NCHW.  ``panels``: room for the data of a band; ``columns``: for those apart; ``expanded``: for the channels that are
    convolved together; ``kept``: for the rows of all channels that two bands read; ``zeros``: ``data_taps.ZERO_BYTES``.

    ``step``: the stride of the depthwise convolution; ``before``: its padding above and on the left; ``least``, ``most``: the
    bounds of the expansion; the others: as of ``codegen.cpu.channel_limits``, of the result.
    """
    inputs, channels, itemsize = data_dims[1], weight_dims[0], out.itemsize
    sizes, out_sizes = (data_dims[2], data_dims[3]), (out_dims[2], out_dims[3])
    positions, plane = sizes[0] * sizes[1], out_sizes[0] * out_sizes[1]
    if out.size == 0:
        return OK
    for i in range(zeros.size):
        zeros[i] = 0
    rows = rows_together(out_sizes[0], inputs, sizes[1], step, itemsize)
    pitch = plane_pitch(rows, sizes[1], step, itemsize)
    tiles, band_count = (channels + TILE_ROWS - 1) // TILE_ROWS, (out_sizes[0] + rows - 1) // rows
    together, kept_pitch = tiles_together(pitch, itemsize), (WINDOW - step) * sizes[1]
    width, number = PANEL_BYTES // itemsize, low
    while number < high:
        tile, band = number % tiles, number // tiles % band_count
        some, b = min(tiles - tile, high - number), number // tiles // band_count
        first = band * rows
        here = min(rows, out_sizes[0] - first)
        base = min(max(first * step - before[0], 0), sizes[0])
        end = max(min((first + here - 1) * step - before[0] + WINDOW, sizes[0]), base)
        following = min(max((first + here) * step - before[0], base), end)
        # the rows that the band before has computed, in this call
        is_kept = band > 0 and number - tiles >= low
        begin = max(base, min(max((first - 1) * step - before[0] + WINDOW, 0), sizes[0])) if is_kept else base
        count, at = (end - begin) * sizes[1], b * inputs * positions + begin * sizes[1]
        # of the columns apart of a picture, those that a window reads
        apart = max(columns_apart(positions, inputs, width) - positions + count, 0) if band_count == 1 else 0
        if not reads_rows_apart():
            copy_columns(panels, data, at, inputs, positions, count)
        turn_columns(data, at + count - apart, inputs, positions, apart, columns)
        groups = (some + together - 1) // together
        for g in range(groups):
            top = (tile + g * some // groups) * channels // tiles
            bottom = (tile + (g + 1) * some // groups) * channels // tiles
            for c in range(top, bottom if begin > base else top):
                copy_run(kept, c * kept_pitch, expanded, (c - top) * pitch, (begin - base) * sizes[1])
            to = (begin - base) * sizes[1]
            if count > 0 and reads_rows_apart():
                expand_channels(
                    weight, bias, top, bottom, inputs, data, at, width, positions, columns, count, apart, expanded, to, pitch,
                    least, most,
                )  # fmt: skip
            elif count > 0:
                expand_channels(
                    weight, bias, top, bottom, inputs, panels, 0, inputs * width, width, columns, count, apart, expanded, to,
                    pitch, least, most,
                )  # fmt: skip
            convolve_channels(
                expanded, pitch, base, top, bottom, depthwise, out, (b * channels + top) * plane, sizes, out_sizes, first, here,
                step, before, zeros, finish, argv, addend, lowest, highest, is_limited,
            )  # fmt: skip
            for c in range(top, bottom if band + 1 < band_count else top):
                last = (c - top) * pitch + (following - base) * sizes[1]
                copy_run(expanded, last, kept, c * kept_pitch, (end - following) * sizes[1])
        number += some
    return OK
