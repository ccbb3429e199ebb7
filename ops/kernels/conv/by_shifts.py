"""Convolution as tiles of a matrix product over shifts of padded data: no column is packed.

The weight is the left matrix as it is.  A band of rows of the result reads some rows of the data, which are copied once, with
zeros around them, in phases by stride (see ``by_plane``).  The operands of a tap at neighbouring positions are then neighbours:
each row of the right matrix is the padded data from an offset of its own.

Rows of the result are computed one by one, or those of a band together, with the columns between them that padding adds.  Such
columns are left out when the sums are copied into the result.

Every element of the result is one sum over channels and taps, in order: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...native.jit.convolution.shifted_tile import multiply_shifted
from ...native.jit.products.operands import Rows
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.memory import Array, Axes, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW
from .by_plane import fill_plane, padded_sizes, tap_start
from .tiles import FINISHED_ROWS, ROWS

#: Elements of the padded rows of a band, unless those of one row of the result are more.  A band stays in the second cache.
BAND = 2**15
#: Positions whose sums are computed together.
TOGETHER = 512


@generic
def band_rows(rows: int, elements: int, between: int) -> int:
    """The most rows of the result in a band: of ``rows``.

    A row reads ``elements`` of padded data, and all rows ``between`` rows more than their number.
    """
    return max(min(rows, BAND // max(elements, 1) - between), 1)


@generic
def place_offsets(
    numbers: Array, width: int, channel: int, padded: Axes, kernel: Axes, stride: Axes, dilation: Axes
) -> None:  # fmt: skip
    """Store multiples of the stride for a vector of ``width``, then the offsets of all taps of all input channels."""
    for j in range(width):
        numbers[j] = j * stride[2]
    at = width
    for i in range(kernel[1]):
        for z in range(kernel[2]):
            for y in range(kernel[3]):
                for x in range(kernel[4]):
                    numbers[at] = i * channel + tap_start((z, y, x), padded, stride, dilation)
                    at += 1


@generic
def multiply_shifts(
    weight: Array, o: int, rows: int, terms: int, work: Array, at: int, numbers: Array, out: Array, to: int, out_row: int,
    length: int,
) -> None:  # fmt: skip
    """Compute ``length`` neighbouring positions of ``rows`` output channels from ``o`` on."""
    width = PANEL_BYTES // out.itemsize
    panels, tiles = (length + width - 1) // width, (rows + TILE_ROWS - 1) // TILE_ROWS
    groups = (panels + GROUP_PANELS - 1) // GROUP_PANELS
    for group in range(groups):
        first = group * panels // groups * width
        columns = min((group + 1) * panels // groups * width, length) - first
        for tile in range(tiles):
            top = tile * rows // tiles
            bottom = (tile + 1) * rows // tiles
            multiply_shifted(
                Rows(weight, (o + top) * terms, terms), work, at + first, numbers, width,
                Rows(out, to + top * out_row + first, out_row), bottom - top, terms, columns,
            )  # fmt: skip


@generic
def copy_rows(
    sums: Array, length: int, pitch: int, out: Array, to: int, positions: int, count: int, rows: int, columns: int
) -> None:
    """Copy ``rows`` rows of ``count`` output channels without the columns between them."""
    for i in range(count):
        for y in range(rows):
            source, target = i * length + y * pitch, to + i * positions + y * columns
            for x in range(columns):
                out[np.uint64(target + x)] = sums[np.uint64(source + x)]


@generic
def multiply_rows(
    weight: Array, top: int, bottom: int, terms: int, work: Array, at: int, pitch: int, numbers: Array, sums: Array, out: Array,
    to: int, positions: int, rows: int, columns: int, finish: Callable[..., None], argv: int,
) -> None:  # fmt: skip
    """Compute and finish ``rows`` rows of the output channels ``top`` to ``bottom`` (exclusive); ``to``: their channel 0.

    ``at``: the first element of their padded data.
    """
    width = PANEL_BYTES // out.itemsize
    length = (rows - 1) * pitch + columns
    # together they take fewer vectors; copying takes as long as some products
    is_together = (length + width - 1) // width * 16 < (columns + width - 1) // width * rows * 15
    chunks = (bottom - top + FINISHED_ROWS - 1) // FINISHED_ROWS
    for chunk in range(chunks):
        o = top + chunk * (bottom - top) // chunks
        count = top + (chunk + 1) * (bottom - top) // chunks - o
        here = to + o * positions
        if is_together:
            multiply_shifts(weight, o, count, terms, work, at, numbers, sums, 0, length, length)
            copy_rows(sums, length, pitch, out, here, positions, count, rows, columns)
            finish(argv, here, count, rows * columns)
        else:
            for y in range(rows):
                first = at + y * pitch
                multiply_shifts(weight, o, count, terms, work, first, numbers, out, here + y * columns, positions, columns)
                finish(argv, here + y * columns, count, columns)


@generic
def multiply_band(
    weight: Array, top: int, bottom: int, terms: int, work: Array, pitch: int, numbers: Array, sums: Array, out: Array, to: int,
    positions: int, rows: int, columns: int, finish: Callable[..., None], argv: int,
) -> None:  # fmt: skip
    """As ``multiply_rows`` for all rows of a band, as many at a time as are computed together."""
    most = max(TOGETHER // max(pitch, 1), 1)
    for y in range(0, rows, most):
        multiply_rows(
            weight, top, bottom, terms, work, y * pitch, pitch, numbers, sums, out, to + y * columns, positions,
            min(most, rows - y), columns, finish, argv,
        )  # fmt: skip


@generic
def convolve_shifts(
    data: Array, weight: Array, out: Array, work: Array, sums: Array, numbers: Array, finish: Callable[..., None], argv: int,
    low: int, high: int, sizes: Axes, steps: Axes, out_sizes: Axes, out_steps: Axes, kernel: Axes, groups: int, stride: Axes,
    before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: some output channels at some rows.

    Layout NCHW of data and result, OIHW of the weight.  ``work``: buffer for the padded rows of a band and a vector; ``sums``:
    for those of a band; ``numbers``: for a vector and an offset for each channel and tap.  Blocks of the same rows follow one
    another: the rows are padded once.
    """
    one_row = padded_sizes((1, 1, 1, 1, out_sizes[COLUMN]), kernel, stride, dilation)
    phases, between = stride[0] * stride[1] * stride[2], one_row[1] - 1
    most = band_rows(out_sizes[ROW], kernel[1] * phases * one_row[0] * one_row[2], between)
    bands = (out_sizes[ROW] + most - 1) // most
    padded = (one_row[0], most + between, one_row[2])
    channel = phases * padded[0] * padded[1] * padded[2]
    outputs, terms = kernel[0] // groups, kernel[1] * kernel[2] * kernel[3] * kernel[4]
    parts = (outputs + ROWS - 1) // ROWS
    place_offsets(numbers, PANEL_BYTES // out.itemsize, channel, padded, kernel, stride, dilation)
    number = low
    while number < high:
        part, place = number % parts, number // parts
        end_part = min(parts, part + high - number)
        band, z = place % bands, place // bands % out_sizes[DEPTH]
        g, b = place // bands // out_sizes[DEPTH] % groups, place // bands // out_sizes[DEPTH] // groups
        y, end_y = band * out_sizes[ROW] // bands, (band + 1) * out_sizes[ROW] // bands
        moved = (before[0] - z * stride[0], before[1] - y * stride[1], before[2])
        at = b * steps[BATCH] + g * kernel[1] * steps[CHANNEL]
        for i in range(kernel[1]):
            fill_plane(work, i * channel, padded, data, at + i * steps[CHANNEL], sizes, steps, stride, moved, numbers)
        multiply_band(
            weight, g * outputs + part * outputs // parts, g * outputs + end_part * outputs // parts, terms, work, padded[2],
            numbers, sums, out, b * out_steps[BATCH] + z * out_steps[DEPTH] + y * out_steps[ROW], out_steps[CHANNEL], end_y - y,
            out_sizes[COLUMN], finish, argv,
        )  # fmt: skip
        number += end_part - part
