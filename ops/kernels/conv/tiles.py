"""Convolution as tiles of matrix products (``native/jit/products``): implicit GEMM, channels first.

The weight is the left matrix as it is.  The right matrix has a column per position of the result and a row per channel and tap;
only a group of panels of it exists at a time, packed from the data into a buffer that stays in the second cache.  With one tap,
stride 1 and no padding, the data are that matrix.  Registers as wide as a line read it where it is: packing takes longer than it
saves.  Narrower registers read each row of the data again for each panel: the first tile stores what it reads as a panel, which
the other tiles read (``packing_tile``); where a tile has too few rows for that, whole lines of the data are copied first.
The columns of several small images are one matrix (``by_images``).

Every element of the result is one sum over channels and taps, in order: the same bits for any tiles and any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...native.jit.convolution.clipped_tile import Clip, clip_of, clip_rows, multiply_clipped
from ...native.jit.convolution.packing_tile import PACKING_ROWS, multiply_and_pack
from ...native.jit.convolution.panel_row import reads_rows_apart, store_run
from ...native.jit.products.operands import Ahead, Panels, Rows
from ...native.jit.products.panel_products import copy_line, multiply_panels
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.jit.products.row_products import multiply_by_rows
from ...native.memory import Array, generic
from ..spatial.cpu import BATCH, CHANNEL
from .by_images import FINISHED_ROWS, convolve_images, images_together
from .epilogue import Epilogue, ScaledLimits, clip_of_channels
from .geometry import Convolution, lanes_between, pack_panel, place_taps, tap_count

#: Rows of the right matrix that are packed at once, unless the taps of one channel are more; output channels of two bands, and of
#: a block of ``by_shifts``.
INNER, ROWS = 512, 48
#: The most columns behind whole panels that are multiplied apart, and the least terms with which this is faster: 49 positions, of
#: pictures of 7 x 7, are three whole panels and one column.
APART, LEAST_INNER = 4, 64
#: Bytes and number of the most panels that are packed at once if they are more than a group: half of the first cache.
WIDE_BYTES, WIDE_PANELS = 2**14, 16
#: Bytes between addresses that belong to the same set of a first cache.
PAGE_BYTES = 4096


class Product(NamedTuple):
    """The sizes of a product: ``rows`` by ``inner`` by ``columns``; ``add``: 0, or the product is added to the sums."""

    rows: int
    inner: int
    columns: int
    add: int


class Packing(NamedTuple):
    """Columns of the data that a product packs, or reads where they are.

    ``unpacked``: the rows of columns that the first tile packs, with a step of 0 if the columns are complete; ``ahead``: the
    elements from columns that are read where they are to those that are fetched, or 0.
    """

    unpacked: Rows
    ahead: int


@generic
def stretch_columns(terms: int, width: int) -> int:
    """The positions whose operands are packed at once: neighbours in a line of the data and of the result.

    For few terms they are more than a group of panels, as memory delivers long runs of a row faster.
    """
    return max(min(WIDE_BYTES // (max(terms, 1) * PANEL_BYTES), WIDE_PANELS), GROUP_PANELS) * width


@generic
def stretch_count(positions: int, columns: int) -> int:
    """The number of stretches of ``columns`` positions: a few more positions belong to the last stretch."""
    return max((positions - APART + columns - 1) // columns, min(positions, 1))


@generic
def band_count(outputs: int) -> int:
    """The bands of output channels with the same operands.  They are an even number, so that two threads have as many each."""
    return min((outputs + ROWS - 1) // ROWS * 2, outputs)


@generic
def copy_columns(panels: Array, data: Array, at: int, channels: int, channel: int, count: int) -> None:
    """Copy ``count`` columns of rows that begin at ``at`` and are ``channel`` elements apart into panels, whole lines each."""
    width = PANEL_BYTES // panels.itemsize
    whole, some = count // width * width, lanes_between(0, count % width, width)
    for i in range(channels):
        for j in range(0, whole, width):
            copy_line(data, at + j, panels, j * channels + i * width)
        if some > 0:
            store_run(panels, whole * channels + i * width, data, at + whole, some)
        at += channel


@generic
def columns_apart(count: int, inner: int, width: int) -> int:
    """The number of columns behind whole panels that are multiplied apart."""
    return count % width if count % width <= APART and inner >= LEAST_INNER else 0


@generic
def packs_by_products(rows: int, count: int, inner: int, width: int) -> bool:
    """Whether the first tile of ``rows`` output channels packs the panels."""
    tiles = (rows + TILE_ROWS - 1) // TILE_ROWS
    return rows // tiles >= PACKING_ROWS and (count - columns_apart(count, inner, width)) % width == 0


@generic
def multiply_columns(
    a: Rows, columns: Panels, out: Rows, product: Product, weight: Rows, unpacked: Rows, clip: Clip, is_limited: bool
) -> None:
    """Multiply ``a`` by columns, and limit the sums by ``clip`` if ``is_limited``; ``weight``: next rows, which are fetched.

    ``unpacked``: the rows of columns that are packed, with a step of 0 if the columns are complete.
    """
    (rows, inner, count, add), width = product, PANEL_BYTES // out.data.itemsize
    for j in range(0, count if unpacked.step > 0 else 0, width):
        # the first panel fetches the weights of the next tile: a request takes time, of lines that are in the cache too
        next_rows = Rows(weight.data, weight.at, weight.step if j == 0 else 0)
        source, results = Rows(unpacked.data, unpacked.at + j, unpacked.step), Rows(out.data, out.at + j, out.step)
        multiply_and_pack(a, source, columns.data, j * inner, results, rows, inner, add, next_rows, clip, is_limited)
    if unpacked.step == 0 and is_limited:
        multiply_clipped(a, columns, out, rows, inner, count, clip, weight)
    elif unpacked.step == 0:
        multiply_panels(a, columns, out, rows, inner, count, add, Ahead(0, GROUP_PANELS, 0, weight))


@generic
def copy_rows(weight: Rows, rows: int, inner: int, out: Rows) -> None:
    """Copy ``inner`` elements of each of ``rows`` rows."""
    width, first, to, work = PANEL_BYTES // out.data.itemsize, weight.at, out.at, out.data
    whole = inner // width * width
    for _ in range(rows):
        for k in range(0, whole, width):
            copy_line(weight.data, first + k, work, to + k)
        for k in range(whole, inner):
            work[to + k] = weight.data[first + k]
        first += weight.step
        to += out.step


@generic
def multiply_rows(
    weight: Rows, columns: Panels, out: Rows, sums: Array, work: Array, product: Product, packing: Packing, is_last: bool,
    epilogue: Epilogue, fetch_operands: Callable[..., None], clip: Clip, is_limited: bool,
) -> None:  # fmt: skip
    """Multiply output channels by columns: those of panels, or of the data.

    A few columns behind whole panels are copied to the end of ``work`` as rows.  If these are the last terms of the sums, finish
    the results of a few tiles at a time, which are in the first cache.  Meanwhile fetch the weights of the next tile and the
    operands of ``finish``.

    ``sums``: the array of ``out``, or a buffer for the rows that are finished together, or for all rows if there are terms before
    or after these.  If ``is_limited``, these are all terms, and the epilogue is that sums are limited by ``clip``: before they
    are stored in the result, which is ``sums``.
    """
    (channels, inner, count, add), (unpacked, ahead) = product, packing
    tiles, begin, width = (channels + TILE_ROWS - 1) // TILE_ROWS, 0, PANEL_BYTES // out.data.itemsize
    is_apart, across = sums.ctypes.data != out.data.ctypes.data, (count + width - 1) // width * width
    # the elements from a row of sums to the next; the channel whose sums are at ``held``
    ld, origin, held = (across, 0, 0) if is_apart else (out.step, 0, out.at)
    apart = columns_apart(count, inner, width)
    whole, transposed = count - apart, work.size - APART * inner
    # rows of the weight that are whole pages apart are in the same sets of the first cache, and push each other out
    is_copied, pitch = weight.step * out.data.itemsize % PAGE_BYTES == 0 and not reads_rows_apart(), inner + width
    copied = transposed - TILE_ROWS * pitch
    for j in range(apart):
        for k in range(inner):
            if unpacked.step > 0:
                at = unpacked.at + whole + k * unpacked.step + j
                work[np.uint64(transposed + j * inner + k)] = unpacked.data[np.uint64(at)]
            else:
                at = columns.at + whole // width * columns.step + k * columns.row + j
                work[np.uint64(transposed + j * inner + k)] = columns.data[np.uint64(at)]
    for tile in range(tiles):
        o = tile * channels // tiles
        rows = (tile + 1) * channels // tiles - o
        following = rows if o + rows < channels else -o
        own, bounds = Rows(weight.data, weight.at + o * weight.step, weight.step), clip_of(clip, o)
        next_rows = Rows(weight.data, own.at + following * weight.step, weight.step)
        if is_last and not is_limited:
            fetch_operands(epilogue.argv, out.at + o * out.step, rows, count)
        here, part = Rows(sums, held + (o - origin) * ld, ld), Product(rows, inner, whole, add)
        to_pack = Rows(unpacked.data, unpacked.at, unpacked.step if tile == 0 else 0)
        if is_copied:
            copy = Rows(work, copied, pitch)
            copy_rows(own, rows, inner, copy)
            multiply_columns(copy, columns, here, part, next_rows, to_pack, bounds, is_limited)
        elif to_pack.step > 0 or is_limited:
            multiply_columns(own, columns, here, part, next_rows, to_pack, bounds, is_limited)
        else:
            fetched = Ahead(ahead, tile if ahead > 0 else GROUP_PANELS, tile + 1, next_rows)
            multiply_panels(own, columns, here, rows, inner, whole, add, fetched)
        if apart > 0:
            last, beside = Rows(work, transposed, inner), Rows(sums, here.at + whole, ld)
            multiply_by_rows(own, last, beside, rows, inner, apart, add)
            if is_limited:
                clip_rows(beside, rows, apart, bounds)
        is_enough = (o + rows - begin + TILE_ROWS) * across > FINISHED_ROWS * GROUP_PANELS * width
        if is_last and not is_limited and (is_enough or o + rows == channels):
            first = held + (begin - origin) * ld
            epilogue.finish(epilogue.argv, out.at + begin * out.step, o + rows - begin, count, sums, first, ld)
            begin = o + rows
            origin = begin if is_apart and add == 0 else origin


@generic
def convolve_tiles(
    conv: Convolution, panels: Array, table: Array, sums: Array, epilogue: Epilogue, fetch_operands: Callable[..., None],
    limits: ScaledLimits, low: int, high: int,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: some output channels at some positions.

    Layout NCHW of data and result, OIHW of the weight.  ``panels``: for a group; ``table``: for the records of all taps and
    three numbers per column of a panel; ``sums``: until they are finished, or the result.  Blocks of the same positions follow
    one another: their columns are packed once.
    """
    (data, _, steps), inputs, out = conv.data, conv.weight.sizes[1], conv.out
    width, taps, positions, channel = PANEL_BYTES // out.data.itemsize, tap_count(conv.weight), out.steps[CHANNEL], steps[CHANNEL]
    outputs, terms, (stride, before, _) = conv.weight.sizes[0] // conv.groups, inputs * taps, conv.window
    columns = stretch_columns(terms, width)
    bands, stretches = band_count(outputs), stretch_count(positions, columns)
    parts = (inputs + max(INNER // taps, 1) - 1) // max(INNER // taps, 1)
    is_moved = stride[0] * stride[1] * stride[2] > 1 or before[0] + before[1] + before[2] > 0
    is_matrix = taps == 1 and positions == channel and not is_moved
    # where columns are read from the data, tiles fetch those that follow instead
    is_limited = limits.is_limited and parts == 1 and sums.ctypes.data == out.data.ctypes.data and not reads_rows_apart()
    images, number = images_together(conv, panels, columns) if is_matrix and not reads_rows_apart() else 1, low
    if images > 1:
        convolve_images(conv, images, panels, sums, epilogue, limits, is_limited, bands, low, high)
        number = high
    while number < high:
        band, stretch = number % bands, number // bands
        end_band = min(bands, band + high - number)
        g, b = stretch // stretches % conv.groups, stretch // stretches // conv.groups
        begin = stretch % stretches * columns
        count = columns if stretch % stretches + 1 < stretches else positions - begin
        top, bottom = g * outputs + band * outputs // bands, g * outputs + end_band * outputs // bands
        clip = clip_of_channels(limits, top)
        results = Rows(out.data, b * out.steps[BATCH] + begin + top * positions, positions)
        for part in range(parts):
            i = part * inputs // parts
            channels = (part + 1) * inputs // parts - i
            inner, is_last = channels * taps, part + 1 == parts
            at = b * steps[BATCH] + (g * inputs + i) * channel
            weight, sizes = Rows(conv.weight.data, top * terms + i * taps, terms), Product(bottom - top, inner, count, i)
            if is_matrix and reads_rows_apart():
                packing = Packing(Rows(data, 0, 0), columns if begin + count < positions else 0)
                source = Panels(data, at + begin, width, positions)
                multiply_rows(
                    weight, source, results, sums, panels, sizes, packing, is_last, epilogue, fetch_operands, clip, False
                )
                continue
            unpacked = Rows(data, 0, 0)
            if is_matrix and packs_by_products(bottom - top, count, inner, width):
                unpacked = Rows(data, at + begin, channel)
            elif is_matrix:
                copy_columns(panels, data, at + begin, channels, channel, count)
            for j in range(0, 0 if is_matrix else count, width):
                place_taps(table, width, begin + j, min(width, count - j), conv)
                pack_panel(panels, j * inner, data, at, channels, channel, table, taps)
            source, packing = Panels(panels, 0, inner * width, width), Packing(unpacked, 0)
            multiply_rows(
                weight, source, results, sums, panels, sizes, packing, is_last, epilogue, fetch_operands, clip, is_limited
            )
        number += end_band - band
