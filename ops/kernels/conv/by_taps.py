"""Convolution tap by tap, channels first: each tap multiplies only the rectangle of the data that it reaches.

With a wide dilation most operands of most taps are padding: of pictures of 14 x 14 and a dilation of 12 one tap of nine reads the
whole picture, and a tap of a corner reads 2 x 2 positions.  The weight is stored tap by tap, output channels last (``HWIO``), so
that a tap is a matrix by itself.  Its rows are copied into panels of output channels; vectors hold output channels, as in
``by_positions``.  The data are read where they are: the positions of a run follow one another in a row of the data and of the
result.  Channels that are pages apart share few sets of the first cache: their runs are copied first.

Every element of the result is one sum over parts of the channels, taps and channels, in order: the same bits for any number of
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...native.jit.convolution.panel_row import reads_rows_apart, store_run
from ...native.jit.convolution.transposed_tile import multiply_transposed
from ...native.jit.products.operands import Panels, Rows
from ...native.jit.products.panel_products import copy_line
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.memory import Array, Axes, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside
from .by_positions import turn
from .epilogue import Epilogue
from .geometry import Convolution, has_row, lanes_between, tap_count, tap_place, tap_source
from .tiles import copy_columns

#: Input channels of a part: a panel of them, and the data of a few positions, stay in the first cache.
INNER = 128
#: Positions of a region whose sums are computed together, and the most groups of panels: sums, panels of a part and the data of a
#: part stay in the second cache.
TOGETHER, GROUPS = 256, 4
#: The most positions of a run with which a tile holds the output channels of several panels.
SHORT = 3
#: Elements of a channel of the data from which runs are copied, and divisors of fewer with which they are: a quarter of a page.
PACKED, ALIASED = 1024, 256
#: Numbers of a run: its first element in a channel of the data, its first position in the region, its positions.
(_FROM, _TO, _LENGTH, RUN_NUMBERS) = range(4)


@generic
def region_count(positions: int) -> int:
    """The regions of a picture of so many positions."""
    return (positions + TOGETHER - 1) // TOGETHER


@generic
def is_copied(step: int) -> bool:
    """Whether runs are copied of channels that are ``step`` elements apart."""
    return step >= PACKED or step % ALIASED == 0


@generic
def place_runs(numbers: Array, tap: Axes, begin: int, end: int, conv: Convolution) -> int:
    """Store the runs of the positions ``begin`` to ``end`` (exclusive) that a tap (depth, row, column) reaches; their number.

    A run whose data and positions follow the last run's prolongs it: a tap of the middle column reaches whole rows.
    """
    data, stride, rows, columns, count = conv.data, conv.window.stride[2], conv.out.sizes[ROW], conv.out.sizes[COLUMN], 0
    offset = tap[2] * conv.window.dilation[2] - conv.window.before[2]
    first, last = first_inside(offset, stride), end_inside(offset, stride, data.sizes[COLUMN], columns)
    for line in range(begin // columns, (end + columns - 1) // columns):
        z, y, _ = tap_source(conv.window, (line // rows, line % rows, 0), tap)
        low, high = max(first, begin - line * columns), min(last, end - line * columns)
        if not (has_row(data, z, y) and low < high):
            continue
        source, to = z * data.steps[DEPTH] + y * data.steps[ROW] + offset + low, line * columns + low - begin
        at = (count - 1) * RUN_NUMBERS
        if (
            count > 0
            and numbers[at + _FROM] + numbers[at + _LENGTH] == source
            and numbers[at + _TO] + numbers[at + _LENGTH] == to
        ):
            numbers[at + _LENGTH] += high - low
        else:
            at += RUN_NUMBERS
            numbers[at + _FROM] = source
            numbers[at + _TO] = to
            numbers[at + _LENGTH] = high - low
            count += 1
    return count


@generic
def row_elements(positions: int, width: int) -> int:
    """The elements of a row of copied runs: an odd number of lines, with a line behind the positions."""
    return ((positions + width - 1) // width // 2 * 2 + 3) * width


@generic
def copy_runs(data: Array, at: int, step: int, inner: int, numbers: Array, runs: int, work: Array, row: int) -> None:
    """Copy the runs of ``inner`` channels, ``step`` elements apart, one behind the other into rows of ``row`` elements.

    The first numbers of the runs become their places in a row.
    """
    width = PANEL_BYTES // work.itemsize
    for k in range(inner):
        to = k * row
        for run in range(0, runs * RUN_NUMBERS, RUN_NUMBERS):
            source, length = at + numbers[run + _FROM], numbers[run + _LENGTH]
            whole = length // width * width
            for j in range(0, whole, width):
                copy_line(data, source + j, work, to + j)
            if whole < length:
                store_run(work, to + whole, data, source + whole, lanes_between(0, length - whole, width))
            to += length
        at += step
    to = 0
    for run in range(0, runs * RUN_NUMBERS, RUN_NUMBERS):
        numbers[run + _FROM] = to
        to += numbers[run + _LENGTH]


@generic
def add_run(data: Rows, panels: Panels, sums: Rows, count: int, inner: int, columns: int) -> None:
    """Add to the sums of ``count`` positions, a row each, their products with panels of ``columns`` channels."""
    tiles = (count + TILE_ROWS - 1) // TILE_ROWS
    for tile in range(tiles):
        i = tile * count // tiles
        rows = (tile + 1) * count // tiles - i
        here = Rows(sums.data, sums.at + i * sums.step, sums.step)
        multiply_transposed(Rows(data.data, data.at + i, data.step), panels, here, rows, inner, columns, 1)


@generic
def add_tap(data: Rows, panels: Array, inner: int, count: int, sums: Array, region: int, numbers: Array, runs: int) -> None:
    """Add the products of a tap with ``count`` panels to the sums at the positions of its runs.

    ``sums``: the sums of each group of panels for ``region`` positions.
    """
    width = PANEL_BYTES // sums.itemsize
    across, panel = GROUP_PANELS * width, inner * width
    joint = GROUP_PANELS if reads_rows_apart() else 1
    for group in range(0, count, GROUP_PANELS):
        here, some = group * region * width, min(count - group, GROUP_PANELS)
        for j in range(0, some, joint):
            of_panels = Panels(panels, (group + j) * panel, panel, width)
            for run in range(0, runs * RUN_NUMBERS, RUN_NUMBERS):
                if joint > 1 or numbers[run + _LENGTH] > SHORT:
                    source = Rows(data.data, data.at + numbers[run + _FROM], data.step)
                    to = Rows(sums, here + numbers[run + _TO] * across + j * width, across)
                    add_run(source, of_panels, to, numbers[run + _LENGTH], inner, min(joint, some) * width)
        for run in range(0, 0 if joint > 1 else runs * RUN_NUMBERS, RUN_NUMBERS):
            if numbers[run + _LENGTH] <= SHORT:
                source = Rows(data.data, data.at + numbers[run + _FROM], data.step)
                to = Rows(sums, here + numbers[run + _TO] * across, across)
                add_run(source, Panels(panels, group * panel, panel, width), to, numbers[run + _LENGTH], inner, some * width)


class TapBuffers(NamedTuple):
    """Room for the panels of a part; for the sums of a region; for the runs of a tap; for their copies of a part; for the results
    of a group of panels until they are finished, or the result."""

    panels: Array
    sums: Array
    numbers: Array
    work: Array
    results: Array


@generic
def add_taps(conv: Convolution, buffers: TapBuffers, at: int, begin: int, end: int, top: int, columns: int) -> None:
    """Compute the sums of the positions ``begin`` to ``end`` (exclusive) for ``columns`` output channels from ``top`` on.

    ``at``: the first element of the picture.
    """
    panels, sums, numbers, work, _ = buffers
    data, channel, outputs, inputs = conv.data.data, conv.data.steps[CHANNEL], conv.weight.sizes[0], conv.weight.sizes[1]
    width = PANEL_BYTES // sums.itemsize
    count, parts = (columns + width - 1) // width, (inputs + INNER - 1) // INNER
    groups = (count + GROUP_PANELS - 1) // GROUP_PANELS
    is_packed, row = is_copied(channel), row_elements(end - begin, width)
    for i in range(groups * GROUP_PANELS * width * (end - begin)):
        sums[np.uint64(i)] = 0
    for part in range(parts):
        k = part * inputs // parts
        inner = (part + 1) * inputs // parts - k
        for tap in range(tap_count(conv.weight)):
            runs = place_runs(numbers, tap_place(conv.weight, tap), begin, end, conv)
            if runs > 0:
                copy_columns(panels, conv.weight.data, (tap * inputs + k) * outputs + top, inner, outputs, columns)
                if is_packed:
                    copy_runs(data, at + k * channel, channel, inner, numbers, runs, work, row)
                    add_tap(Rows(work, 0, row), panels, inner, count, sums, end - begin, numbers, runs)
                else:
                    add_tap(Rows(data, at + k * channel, channel), panels, inner, count, sums, end - begin, numbers, runs)


@generic
def convolve_taps(
    conv: Convolution, buffers: TapBuffers, epilogue: Epilogue, fetch_operands: Callable[..., None], low: int, high: int
) -> None:
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: a panel of output channels at the positions of a region.

    Layout NCHW of data and result, HWIO of the weight.
    """
    sums, results, out, outputs = buffers.sums, buffers.results, conv.out, conv.weight.sizes[0]
    width, positions = PANEL_BYTES // out.data.itemsize, out.steps[CHANNEL]
    count, regions, across = (outputs + width - 1) // width, region_count(positions), GROUP_PANELS * width
    is_apart, number = results.ctypes.data != out.data.ctypes.data, low
    while number < high:
        first, region, b = number % count, number // count % regions, number // count // regions
        last = min(count, first + min(high - number, GROUPS * GROUP_PANELS))
        begin, end = region * positions // regions, (region + 1) * positions // regions
        top = first * width
        columns = min(last * width, outputs) - top
        add_taps(conv, buffers, b * conv.data.steps[BATCH], begin, end, top, columns)
        for o in range(0, columns, across):
            here, rows = b * out.steps[BATCH] + (top + o) * positions + begin, min(across, columns - o)
            held, row = (0, end - begin) if is_apart else (here, positions)
            fetch_operands(epilogue.argv, here, rows, end - begin)
            turn(sums, o * (end - begin), across, rows, end - begin, results, held, row)
            epilogue.finish(epilogue.argv, here, rows, end - begin, results, held, row)
        number += last - first
