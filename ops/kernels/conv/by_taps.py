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

import numpy as np

from ...native.jit.convolution.panel_row import reads_rows_apart, store_run
from ...native.jit.convolution.transposed_tile import multiply_transposed
from ...native.jit.products.operands import Panels, Rows
from ...native.jit.products.panel_products import copy_line
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.memory import Array, Axes, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside
from .by_plane import lanes_between
from .by_positions import turn
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
def place_runs(
    numbers: Array, tap: Axes, begin: int, end: int, sizes: Axes, steps: Axes, out_sizes: Axes, stride: Axes, before: Axes,
    dilation: Axes,
) -> int:  # fmt: skip
    """Store the runs of the positions ``begin`` to ``end`` (exclusive) that a tap (depth, row, column) reaches; their number.

    A run whose data and positions follow the last run's prolongs it: a tap of the middle column reaches whole rows.
    """
    offset = tap[2] * dilation[2] - before[2]
    first, last = first_inside(offset, stride[2]), end_inside(offset, stride[2], sizes[COLUMN], out_sizes[COLUMN])
    columns, count = out_sizes[COLUMN], 0
    for line in range(begin // columns, (end + columns - 1) // columns):
        z = line // out_sizes[ROW] * stride[0] + tap[0] * dilation[0] - before[0]
        y = line % out_sizes[ROW] * stride[1] + tap[1] * dilation[1] - before[1]
        low, high = max(first, begin - line * columns), min(last, end - line * columns)
        if not (0 <= z < sizes[DEPTH] and 0 <= y < sizes[ROW] and low < high):
            continue
        source, to = z * steps[DEPTH] + y * steps[ROW] + offset + low, line * columns + low - begin
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
def add_run(
    data: Array, at: int, step: int, panels: Array, first: int, panel: int, sums: Array, to: int, across: int, count: int,
    inner: int, columns: int,
) -> None:  # fmt: skip
    """Add to the sums of ``count`` positions, ``across`` elements apart, their products with panels of ``columns`` channels."""
    tiles = (count + TILE_ROWS - 1) // TILE_ROWS
    for tile in range(tiles):
        i = tile * count // tiles
        rows = (tile + 1) * count // tiles - i
        of_panels = Panels(panels, first, panel, PANEL_BYTES // panels.itemsize)
        multiply_transposed(Rows(data, at + i, step), of_panels, Rows(sums, to + i * across, across), rows, inner, columns, 1)


@generic
def add_tap(
    data: Array, at: int, step: int, panels: Array, inner: int, count: int, sums: Array, region: int, numbers: Array, runs: int
) -> None:  # fmt: skip
    """Add the products of a tap with ``count`` panels to the sums at the positions of its runs.

    ``sums``: the sums of each group of panels for ``region`` positions.
    """
    width = PANEL_BYTES // sums.itemsize
    across, panel = GROUP_PANELS * width, inner * width
    joint = GROUP_PANELS if reads_rows_apart() else 1
    for group in range(0, count, GROUP_PANELS):
        here, some = group * region * width, min(count - group, GROUP_PANELS)
        for j in range(0, some, joint):
            for run in range(0, runs * RUN_NUMBERS, RUN_NUMBERS):
                if joint > 1 or numbers[run + _LENGTH] > SHORT:
                    add_run(
                        data, at + numbers[run + _FROM], step, panels, (group + j) * panel, panel, sums,
                        here + numbers[run + _TO] * across + j * width, across, numbers[run + _LENGTH], inner,
                        min(joint, some) * width,
                    )  # fmt: skip
        for run in range(0, 0 if joint > 1 else runs * RUN_NUMBERS, RUN_NUMBERS):
            if numbers[run + _LENGTH] <= SHORT:
                add_run(
                    data, at + numbers[run + _FROM], step, panels, group * panel, panel, sums,
                    here + numbers[run + _TO] * across, across, numbers[run + _LENGTH], inner, some * width,
                )  # fmt: skip


@generic
def add_taps(
    data: Array, at: int, weight: Array, top: int, columns: int, panels: Array, sums: Array, numbers: Array, begin: int, end: int,
    sizes: Axes, steps: Axes, out_sizes: Axes, kernel: Axes, stride: Axes, before: Axes, dilation: Axes, work: Array,
) -> None:  # fmt: skip
    """Compute the sums of the positions ``begin`` to ``end`` (exclusive) for ``columns`` output channels from ``top`` on."""
    width = PANEL_BYTES // sums.itemsize
    count, parts = (columns + width - 1) // width, (kernel[1] + INNER - 1) // INNER
    groups = (count + GROUP_PANELS - 1) // GROUP_PANELS
    is_packed, row = is_copied(steps[CHANNEL]), row_elements(end - begin, width)
    for i in range(groups * GROUP_PANELS * width * (end - begin)):
        sums[np.uint64(i)] = 0
    for part in range(parts):
        k = part * kernel[1] // parts
        inner = (part + 1) * kernel[1] // parts - k
        for tap in range(kernel[2] * kernel[3] * kernel[4]):
            place = (tap // (kernel[3] * kernel[4]), tap // kernel[4] % kernel[3], tap % kernel[4])
            runs = place_runs(numbers, place, begin, end, sizes, steps, out_sizes, stride, before, dilation)
            if runs > 0:
                copy_columns(panels, weight, (tap * kernel[1] + k) * kernel[0] + top, inner, kernel[0], columns)
                if is_packed:
                    copy_runs(data, at + k * steps[CHANNEL], steps[CHANNEL], inner, numbers, runs, work, row)
                    add_tap(work, 0, row, panels, inner, count, sums, end - begin, numbers, runs)
                else:
                    add_tap(data, at + k * steps[CHANNEL], steps[CHANNEL], panels, inner, count, sums, end - begin, numbers, runs)


@generic
def convolve_taps(
    data: Array, weight: Array, out: Array, panels: Array, sums: Array, numbers: Array, work: Array, results: Array,
    finish: Callable[..., None], fetch_operands: Callable[..., None], argv: int, low: int, high: int, sizes: Axes, steps: Axes,
    out_sizes: Axes, out_steps: Axes, kernel: Axes, stride: Axes, before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: a panel of output channels at the positions of a region.

    Layout NCHW of data and result, HWIO of the weight.  ``panels``: buffer for the panels of a part; ``sums``: for the sums of a
    region; ``numbers``: for the runs of a tap; ``work``: for their copies of a part; ``results``: for the results of a group of
    panels until they are finished, or ``out``.
    """
    width, positions = PANEL_BYTES // out.itemsize, out_steps[CHANNEL]
    count, regions, across = (kernel[0] + width - 1) // width, region_count(positions), GROUP_PANELS * width
    is_apart, number = results.ctypes.data != out.ctypes.data, low
    while number < high:
        first, region, b = number % count, number // count % regions, number // count // regions
        last = min(count, first + min(high - number, GROUPS * GROUP_PANELS))
        begin, end = region * positions // regions, (region + 1) * positions // regions
        top = first * width
        columns = min(last * width, kernel[0]) - top
        add_taps(
            data, b * steps[BATCH], weight, top, columns, panels, sums, numbers, begin, end, sizes, steps, out_sizes, kernel,
            stride, before, dilation, work,
        )  # fmt: skip
        for o in range(0, columns, across):
            here, rows = b * out_steps[BATCH] + (top + o) * positions + begin, min(across, columns - o)
            held, row = (0, end - begin) if is_apart else (here, positions)
            fetch_operands(argv, here, rows, end - begin)
            turn(sums, o * (end - begin), across, rows, end - begin, results, held, row)
            finish(argv, here, rows, end - begin, results, held, row)
        number += last - first
