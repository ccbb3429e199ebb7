"""Convolution as tiles of a matrix product over shifts of padded data: no column is packed.

The weight is the left matrix as it is.  A band of rows of the result reads some rows of the data, which are copied once, with
zeros around them, in phases by stride (see ``by_plane``).  The operands of a tap at neighbouring positions are then neighbours:
each row of the right matrix is the padded data from an offset of its own.

Rows of the result are computed one by one, or those of a band together, with the columns between them that padding adds.  Such
columns are left out when the sums are copied into the result.

Every element of the result is one sum over channels and taps, in order: the same bits for any number of threads.
"""

from __future__ import annotations

import numpy as np

from ...native.jit.convolution.clipped_tile import Clip, clip_of
from ...native.jit.convolution.shifted_tile import multiply_shifted
from ...native.jit.convolution.tap_vectors import has_mask_registers
from ...native.jit.products.operands import Rows
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.memory import Array, Axes, generic
from ...native.prefetch import fetch_early
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW
from .by_images import FINISHED_ROWS
from .by_plane import fill_plane, padded_sizes, tap_start
from .epilogue import Epilogue, ScaledLimits, clip_of_channels
from .geometry import Convolution, Window, tap_count
from .tiles import ROWS

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
def place_offsets(numbers: Array, width: int, channel: int, padded: Axes, conv: Convolution) -> None:
    """Store multiples of the stride for a vector of ``width``, then the offsets of all taps of all input channels."""
    kernel = conv.weight.sizes
    for j in range(width):
        numbers[j] = j * conv.window.stride[2]
    at = width
    for i in range(kernel[1]):
        for z in range(kernel[2]):
            for y in range(kernel[3]):
                for x in range(kernel[4]):
                    numbers[at] = i * channel + tap_start((z, y, x), padded, conv.window)
                    at += 1


@generic
def multiply_shifts(
    weight: Rows, work: Array, at: int, numbers: Array, out: Rows, rows: int, length: int, clip: Clip, is_limited: bool
) -> None:
    """Compute ``length`` neighbouring positions of ``rows`` output channels; ``at``: the first element of their padded data.

    If ``is_limited``, sums are limited by ``clip``.
    """
    width, terms = PANEL_BYTES // out.data.itemsize, weight.step
    # where parts of vectors are slow to store, the last panel ends with the row: elements computed twice have the same bits
    whole = length if has_mask_registers() or length < width else length // width * width
    panels, tiles = (whole + width - 1) // width, (rows + TILE_ROWS - 1) // TILE_ROWS
    groups = (panels + GROUP_PANELS - 1) // GROUP_PANELS
    for group in range(groups + (1 if whole < length else 0)):
        first = group * panels // groups * width if group < groups else length - width
        columns = min((group + 1) * panels // groups * width, whole) - first if group < groups else width
        for tile in range(tiles):
            top = tile * rows // tiles
            bottom = (tile + 1) * rows // tiles
            multiply_shifted(
                Rows(weight.data, weight.at + top * terms, terms), work, at + first, numbers, width,
                Rows(out.data, out.at + top * out.step + first, out.step), bottom - top, terms, columns,
                clip_of(clip, top), is_limited,
            )  # fmt: skip


@generic
def copy_rows(sums: Array, length: int, pitch: int, out: Rows, count: int, rows: int, columns: int) -> None:
    """Copy ``rows`` rows of ``count`` output channels without the columns between them."""
    for i in range(count):
        for y in range(rows):
            source, target = i * length + y * pitch, out.at + i * out.step + y * columns
            for x in range(columns):
                out.data[np.uint64(target + x)] = sums[np.uint64(source + x)]


@generic
def multiply_rows(
    weight: Rows, channels: int, padded: Rows, numbers: Array, sums: Array, out: Rows, rows: int, columns: int,
    epilogue: Epilogue, clip: Clip, is_limited: bool,
) -> None:  # fmt: skip
    """Compute and finish ``rows`` rows of some output channels; rows of the weight and of ``out`` are their channels.

    ``padded``: the rows of their padded data; rows of the result have ``columns`` elements.  If ``is_limited``, the epilogue is
    that sums are limited by ``clip``, before they are stored.
    """
    width, pitch = PANEL_BYTES // out.data.itemsize, padded.step
    length = (rows - 1) * pitch + columns
    # together they take fewer vectors; copying takes as long as some products
    is_together = (length + width - 1) // width * 16 < (columns + width - 1) // width * rows * 15
    for o in range(0, channels, FINISHED_ROWS):  # whole tiles of rows
        count = min(FINISHED_ROWS, channels - o)
        bounds = clip_of(clip, o)
        of_weight, here = Rows(weight.data, weight.at + o * weight.step, weight.step), out.at + o * out.step
        if is_together:
            multiply_shifts(of_weight, padded.data, padded.at, numbers, Rows(sums, 0, length), count, length, bounds, is_limited)
            copy_rows(sums, length, pitch, Rows(out.data, here, out.step), count, rows, columns)
            if not is_limited:
                epilogue.finish(epilogue.argv, here, count, rows * columns, out.data, here, out.step)
        else:
            for y in range(rows):
                first, to = padded.at + y * pitch, here + y * columns
                results = Rows(out.data, to, out.step)
                multiply_shifts(of_weight, padded.data, first, numbers, results, count, columns, bounds, is_limited)
                if has_mask_registers() and not is_limited:
                    epilogue.finish(epilogue.argv, to, count, columns, out.data, to, out.step)
            if not has_mask_registers() and not is_limited:  # elements behind the whole vectors of a row are finished one by one
                epilogue.finish(epilogue.argv, here, count, rows * columns, out.data, here, out.step)


@generic
def fetch_band(conv: Convolution, place: int, bands: int, turn: int, turns: int) -> None:
    """Ask for the data that the band with number ``place`` pads, of results of one depth: for a part of it in each of ``turns``.

    Padding goes down the rows of a phase, which are far apart: a processor fetches none of them on its own.
    """
    data, (stride, before, dilation), rows, inputs = conv.data, conv.window, conv.out.sizes[ROW], conv.weight.sizes[1]
    band, group = place % bands, place // bands
    first = max(band * rows // bands * stride[1] - before[1], 0)
    end = ((band + 1) * rows // bands - 1) * stride[1] + (conv.weight.sizes[3] - 1) * dilation[1] - before[1] + 1
    count = max(min(end, data.sizes[ROW]) - first, 0) * data.steps[ROW]
    at = group // conv.groups * data.steps[BATCH] + first * data.steps[ROW]
    for i in range(group % conv.groups * inputs, (group % conv.groups + 1) * inputs):
        begin = at + i * data.steps[CHANNEL]
        for j in range(begin + turn * count // turns, begin + (turn + 1) * count // turns, PANEL_BYTES // data.data.itemsize):
            fetch_early(data.data, j)


@generic
def convolve_shifts(
    conv: Convolution, work: Array, sums: Array, numbers: Array, epilogue: Epilogue, limits: ScaledLimits, low: int, high: int
) -> None:
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: some output channels at some rows.

    Layout NCHW of data and result, OIHW of the weight.  ``work``: for the padded rows of a band and a vector; ``sums``: for
    those of a band that are computed together; ``numbers``: for a vector and an offset for each channel and tap.  Blocks of the
    same rows follow one another: the rows are padded once.
    """
    data, out, (stride, before, dilation) = conv.data, conv.out, conv.window
    one_row = padded_sizes((1, 1, out.sizes[COLUMN]), conv)
    phases, between = stride[0] * stride[1] * stride[2], one_row[1] - 1
    outputs, inputs = conv.weight.sizes[0] // conv.groups, conv.weight.sizes[1]
    most = band_rows(out.sizes[ROW], inputs * phases * one_row[0] * one_row[2], between)
    bands, terms = (out.sizes[ROW] + most - 1) // most, inputs * tap_count(conv.weight)
    padded = (one_row[0], most + between, one_row[2])
    channel, pitch = phases * padded[0] * padded[1] * padded[2], padded[2]
    parts, together = (outputs + ROWS - 1) // ROWS, max(TOGETHER // max(pitch, 1), 1)
    place_offsets(numbers, PANEL_BYTES // out.data.itemsize, channel, padded, conv)
    number = low
    while number < high:
        part, place = number % parts, number // parts
        end_part = min(parts, part + high - number)
        band, z = place % bands, place // bands % out.sizes[DEPTH]
        g, b = place // bands // out.sizes[DEPTH] % conv.groups, place // bands // out.sizes[DEPTH] // conv.groups
        y, end_y = band * out.sizes[ROW] // bands, (band + 1) * out.sizes[ROW] // bands
        moved = Window(stride, (before[0] - z * stride[0], before[1] - y * stride[1], before[2]), dilation)
        at = b * data.steps[BATCH] + g * inputs * data.steps[CHANNEL]
        for i in range(inputs):
            fill_plane(work, i * channel, padded, data, at + i * data.steps[CHANNEL], moved, numbers)
        top = g * outputs + part * outputs // parts
        channels, weight = g * outputs + end_part * outputs // parts - top, Rows(conv.weight.data, top * terms, terms)
        to = b * out.steps[BATCH] + top * out.steps[CHANNEL] + z * out.steps[DEPTH]
        following, turns = number + end_part - part, (end_y - y + together - 1) // together
        for line in range(y, end_y, together):  # as many rows of the band as are computed together
            if following < high and out.sizes[DEPTH] == 1:
                fetch_band(conv, following // parts, bands, (line - y) // together, turns)
            source = Rows(work, (line - y) * pitch, pitch)
            results = Rows(out.data, to + line * out.steps[ROW], out.steps[CHANNEL])
            rows = min(together, end_y - line)
            multiply_rows(
                weight, channels, source, numbers, sums, results, rows, out.sizes[COLUMN], epilogue,
                clip_of_channels(limits, top), limits.is_limited,
            )  # fmt: skip
        number = following
