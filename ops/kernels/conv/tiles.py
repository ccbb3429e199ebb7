"""Convolution as tiles of matrix products (``native/jit/products``): implicit GEMM, channels first.

The weight is the left matrix as it is.  The right matrix has a column per position of the result and a row per channel and tap;
only a group of panels of it exists at a time, packed from the data into a buffer that stays in the second cache.  With one tap,
stride 1 and no padding, the data are that matrix.  Registers as wide as a line read it where it is: packing takes longer than it
saves.  Narrower registers read each row of the data again for each panel: the first tile stores what it reads as a panel, which
the other tiles read (``packing_tile``); where a tile has too few rows for that, whole lines of the data are copied first.

Every element of the result is one sum over channels and taps, in order: the same bits for any tiles and any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...native.jit.convolution.packing_tile import PACKING_ROWS, multiply_and_pack
from ...native.jit.convolution.panel_row import reads_rows_apart, store_alternate, store_gathered, store_run, store_two_runs
from ...native.jit.products.operands import Ahead, Panels, Rows
from ...native.jit.products.panel_products import copy_line, multiply_panels
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.jit.products.row_products import multiply_by_rows
from ...native.memory import Array, Axes, generic
from ...native.prefetch import fetch_early
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW
from .by_plane import lanes_between

#: Rows of the right matrix that are packed at once, unless the taps of one channel are more; output channels of two bands, and of
#: a block of ``by_shifts``.
INNER, ROWS = 512, 48
#: The most rows of a group of panels that are finished at once, or as many elements: a fifth of the first cache.
FINISHED_ROWS = 24
#: The most columns behind whole panels that are multiplied apart, and the least terms with which this is faster: 49 positions, of
#: pictures of 7 x 7, are three whole panels and one column.
APART, LEAST_INNER = 4, 64
#: Bytes and number of the most panels that are packed at once if they are more than a group: half of the first cache.
WIDE_BYTES, WIDE_PANELS = 2**14, 16
#: The most lines that are fetched together: a processor waits for a few at a time, and further ones stop it.
FETCHED_LINES = 16
#: Bytes between addresses that belong to the same set of a first cache.
PAGE_BYTES = 4096
#: Forms of a row of a panel: operands that follow one another, in one or two rows of the data, every second element, or operands
#: anywhere.
RUN, TWO_RUNS, ALTERNATE, ANYWHERE = range(4)
#: Numbers of the record of a tap, before its operands: its form, its first operand, a bit for each operand inside the data.  Of
#: two runs the operands are the place and the bits of the second run.
(_FORM, _FIRST, _INSIDE, _OPERANDS) = range(4)


@generic
def record_length(width: int) -> int:
    """The integers of the record of a tap."""
    return _OPERANDS + width


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
def place_columns(table: Array, at: int, width: int, place: Axes, out_sizes: Axes, stride: Axes, before: Axes) -> None:
    """Store depth, row and column of the first tap for the positions from ``place`` (depth, row, column) on."""
    z, y, x = place
    for j in range(width):
        table[at + j] = z * stride[0] - before[0]
        table[at + width + j] = y * stride[1] - before[1]
        table[at + 2 * width + j] = x * stride[2] - before[2]
        x += 1
        if x == out_sizes[COLUMN]:
            x = 0
            y += 1
            if y == out_sizes[ROW]:
                y = 0
                z += 1


@generic
def place_anywhere(table: Array, record: int, at: int, width: int, count: int, tap: Axes, sizes: Axes, steps: Axes) -> None:
    """Store the record of a tap, which is so far from the first tap, whose places are at ``at``."""
    inside, broken = 0, 0
    for j in range(width):
        z, y, x = table[at + j] + tap[0], table[at + width + j] + tap[1], table[at + 2 * width + j] + tap[2]
        is_inside = 0 <= z < sizes[DEPTH] and 0 <= y < sizes[ROW] and 0 <= x < sizes[COLUMN] and j < count
        table[record + _OPERANDS + j] = z * steps[DEPTH] + y * steps[ROW] + x
        inside |= (1 if is_inside else 0) << j
    for j in range(count):
        broken += 0 if table[record + _OPERANDS + j] == table[record + _OPERANDS] + j else 1
    table[record + _FORM] = RUN if broken == 0 else ANYWHERE
    table[record + _FIRST] = table[record + _OPERANDS]
    table[record + _INSIDE] = inside


@generic
def place_two_runs(
    table: Array, record: int, width: int, first: Axes, second: Axes, split: int, sizes: Axes, steps: Axes
) -> None:
    """Store the record of a tap whose operands begin at ``first``, and from column ``split`` on at ``second``: one row each."""
    table[record + _FORM] = TWO_RUNS
    in_first = 0 <= first[0] < sizes[DEPTH] and 0 <= first[1] < sizes[ROW]
    table[record + _FIRST] = first[0] * steps[DEPTH] + first[1] * steps[ROW] + first[2]
    table[record + _INSIDE] = lanes_between(-first[2], min(split, sizes[COLUMN] - first[2]) if in_first else 0, width)
    in_second, before = 0 <= second[0] < sizes[DEPTH] and 0 <= second[1] < sizes[ROW], split - second[2]
    table[record + _OPERANDS] = second[0] * steps[DEPTH] + second[1] * steps[ROW] - before
    table[record + _OPERANDS + 1] = lanes_between(max(split, before), before + sizes[COLUMN] if in_second else 0, width)


@generic
def place_taps(
    table: Array, width: int, begin: int, count: int, sizes: Axes, steps: Axes, kernel: Axes, out_sizes: Axes, stride: Axes,
    before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Store the records of all taps for ``count`` positions from ``begin`` on."""
    line = begin // out_sizes[COLUMN]
    place = (line // out_sizes[ROW], line % out_sizes[ROW], begin % out_sizes[COLUMN])
    is_row = count == width and place[2] + width <= out_sizes[COLUMN] and stride[2] <= 2
    z, y, x = place[0] * stride[0] - before[0], place[1] * stride[1] - before[1], place[2] * stride[2] - before[2]
    last, at = (width - 1) * stride[2], kernel[2] * kernel[3] * kernel[4] * record_length(width)
    place_columns(table, at, width, place, out_sizes, stride, before)
    # columns of the end of one row of the result and of the beginning of the next, ``split`` from the first one on
    split = out_sizes[COLUMN] - place[2]
    is_two_rows = count == width and stride[2] == 1 and split < width <= split + out_sizes[COLUMN]
    # the next row of the data, from this one
    is_deeper = place[1] + 1 == out_sizes[ROW]
    dz, dy = stride[0] if is_deeper else 0, -place[1] * stride[1] if is_deeper else stride[1]
    record = 0
    for tz in range(z, z + kernel[2] * dilation[0], dilation[0]):
        for ty in range(y, y + kernel[3] * dilation[1], dilation[1]):
            for tx in range(x, x + kernel[4] * dilation[2], dilation[2]):
                if is_row:
                    is_inside = 0 <= tz < sizes[DEPTH] and 0 <= ty < sizes[ROW]
                    table[record + _FORM] = RUN if stride[2] == 1 else ALTERNATE
                    table[record + _FIRST] = tz * steps[DEPTH] + ty * steps[ROW] + tx
                    # of every second element; the last one is not followed by another, which may be behind the data
                    table[record + _INSIDE] = lanes_between(-tx, sizes[COLUMN] - tx if is_inside else 0, last + 1)
                elif is_two_rows:
                    place_two_runs(
                        table, record, width, (tz, ty, tx), (tz + dz, ty + dy, tx - x - before[2]), split, sizes, steps
                    )
                else:
                    place_anywhere(table, record, at, width, count, (tz - z, ty - y, tx - x), sizes, steps)
                record += record_length(width)


@generic
def pack_panel(panel: Array, to: int, data: Array, at: int, channels: int, channel: int, table: Array, taps: int) -> None:
    """Pack the columns whose taps have records; the first channel starts at ``at``, the next ``channel`` elements on."""
    width = PANEL_BYTES // panel.itemsize
    for _ in range(channels):
        for record in range(0, taps * record_length(width), record_length(width)):
            form = table[record + _FORM]
            if form == RUN:
                store_run(panel, to, data, at + table[record + _FIRST], table[record + _INSIDE])
            elif form == TWO_RUNS:
                second, also_inside = table[record + _OPERANDS], table[record + _OPERANDS + 1]
                store_two_runs(panel, to, data, at + table[record + _FIRST], table[record + _INSIDE], second + at, also_inside)
            elif form == ALTERNATE:
                store_alternate(panel, to, data, at + table[record + _FIRST], table[record + _INSIDE])
            else:
                store_gathered(panel, to, (1 << width) - 1, data, at, table, record + _OPERANDS, table[record + _INSIDE])
            to += width
        at += channel


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
def fetch_columns(data: Array, later: Axes, low: int, high: int) -> None:
    """Ask for the columns of the channels ``low`` to ``high`` (exclusive) of ``later`` (see ``multiply_rows``)."""
    for i in range(low, min(high, later[1])):
        for j in range(0, later[3], PANEL_BYTES // data.itemsize):
            fetch_early(data, later[0] + i * later[2] + j)


@generic
def multiply_columns(
    a: Array, a_at: int, a_row: int, columns: Array, first: int, panel: int, row: int, out: Array, to: int, positions: int,
    rows: int, inner: int, count: int, add: int, weight: Array, later_at: int, terms: int, data: Array, unpacked: Axes,
    later: Axes, low: int, pace: int,
) -> None:  # fmt: skip
    """Multiply ``rows`` rows by ``count`` columns; with each panel fetch ``pace`` channels of ``later``, from ``low`` on."""
    width = PANEL_BYTES // out.itemsize
    some = width if unpacked[1] > 0 or pace > 0 else max(count, 1)
    for j in range(0, count, some):
        fetch_columns(data, later, low, low + pace)
        low += pace
        # the first panel fetches the weights of the next tile: a request takes time, of lines that are in the cache too
        later_row = terms if j == 0 else 0
        if unpacked[1] > 0:
            multiply_and_pack(
                Rows(a, a_at, a_row), Rows(data, unpacked[0] + j, unpacked[1]), columns, j * inner, Rows(out, to + j, positions),
                rows, inner, add, Rows(weight, later_at, later_row),
            )  # fmt: skip
        else:
            multiply_panels(
                Rows(a, a_at, a_row), Panels(columns, first + j // width * panel, panel, row), Rows(out, to + j, positions), rows,
                inner, min(some, count - j), add, Ahead(0, GROUP_PANELS, 0, Rows(weight, later_at, later_row)),
            )  # fmt: skip


@generic
def copy_rows(weight: Array, first: int, step: int, rows: int, inner: int, work: Array, to: int, pitch: int) -> None:
    """Copy ``inner`` elements of rows ``step`` elements apart to rows ``pitch`` elements apart."""
    width = PANEL_BYTES // work.itemsize
    whole = inner // width * width
    for _ in range(rows):
        for k in range(0, whole, width):
            copy_line(weight, first + k, work, to + k)
        for k in range(whole, inner):
            work[to + k] = weight[first + k]
        first += step
        to += pitch


@generic
def multiply_rows(
    weight: Array, top: int, bottom: int, at: int, terms: int, columns: Array, first: int, panel: int, row: int, out: Array,
    to: int, positions: int, sums: Array, inner: int, count: int, add: int, ahead: int, work: Array, data: Array, unpacked: Axes,
    later: Axes, is_last: bool, finish: Callable[..., None], fetch_operands: Callable[..., None], argv: int,
) -> None:  # fmt: skip
    """Multiply the output channels ``top`` to ``bottom`` (exclusive) by columns: those of panels, or of the data.

    A few columns behind whole panels are copied to the end of ``work`` as rows.  If these are the last terms of the sums, finish
    the results of a few tiles at a time, which are in the first cache.  Meanwhile fetch the weights of the next tile, the
    operands of ``finish``, and the columns ``ahead`` elements on, unless that is 0: a processor fetches no rows on its own that
    are far apart.

    ``unpacked``: the first element of columns of ``data`` that the first tile packs, and the elements from a channel to the next;
    0 and 0 if ``columns`` are complete.  ``later``: the first element of columns of ``data`` that will be packed, their channels,
    the elements from a channel to the next, and their number.

    ``panel``, ``row``: the elements from a panel to the next, and from a row of a panel to the next.  ``sums``: ``out``, or a
    buffer for the rows that are finished together, or for all rows if there are terms before or after these.
    """
    tiles, begin = (bottom - top + TILE_ROWS - 1) // TILE_ROWS, top
    width = PANEL_BYTES // out.itemsize
    is_apart, across = sums.ctypes.data != out.ctypes.data, (count + width - 1) // width * width
    # the elements from a row of sums to the next; the channel whose sums are at ``held``
    ld, origin, held = (across, top, 0) if is_apart else (positions, 0, to)
    apart = columns_apart(count, inner, width)
    whole, transposed = count - apart, work.size - APART * inner
    # rows of the weight that are whole pages apart are in the same sets of the first cache, and push each other out
    is_copied, pitch = terms * out.itemsize % PAGE_BYTES == 0 and not reads_rows_apart(), inner + width
    copied, panels = transposed - TILE_ROWS * pitch, max((whole + width - 1) // width, 1)
    # the channels whose columns are fetched with each panel of a tile; 0: those of a tile are fetched together
    is_many = later[1] * ((later[3] + width - 1) // width) > FETCHED_LINES * tiles and bottom - top >= PACKING_ROWS * tiles
    pace = later[1] // (tiles * panels) + 1 if is_many else 0
    for j in range(apart):
        for k in range(inner):
            if unpacked[1] > 0:
                work[np.uint64(transposed + j * inner + k)] = data[np.uint64(unpacked[0] + whole + k * unpacked[1] + j)]
            else:
                work[np.uint64(transposed + j * inner + k)] = columns[np.uint64(first + whole // width * panel + k * row + j)]
    for tile in range(tiles):
        o = top + tile * (bottom - top) // tiles
        rows = top + (tile + 1) * (bottom - top) // tiles - o
        following = rows if o + rows < bottom else top - o
        if is_last:
            fetch_operands(argv, to + o * positions, rows, count)
        here, later_at = held + (o - origin) * ld, (o + following) * terms + at
        low = tile * panels * pace
        if pace == 0:
            fetch_columns(data, later, tile * later[1] // tiles, (tile + 1) * later[1] // tiles)
        if is_copied:
            copy_rows(weight, o * terms + at, terms, rows, inner, work, copied, pitch)
        to_pack = (unpacked[0], unpacked[1] if tile == 0 else 0)
        if is_copied:
            multiply_columns(
                work, copied, pitch, columns, first, panel, row, sums, here, ld, rows, inner, whole, add, weight, later_at,
                terms, data, to_pack, later, low, pace,
            )  # fmt: skip
        elif pace > 0 or to_pack[1] > 0:
            multiply_columns(
                weight, o * terms + at, terms, columns, first, panel, row, sums, here, ld, rows, inner, whole, add, weight,
                later_at, terms, data, to_pack, later, low, pace,
            )  # fmt: skip
        else:
            multiply_panels(
                Rows(weight, o * terms + at, terms), Panels(columns, first, panel, row), Rows(sums, here, ld), rows, inner, whole,
                add, Ahead(ahead, tile if ahead > 0 else GROUP_PANELS, tile + 1, Rows(weight, later_at, terms)),
            )  # fmt: skip
        if apart > 0:
            last, beside = Rows(work, transposed, inner), Rows(sums, here + whole, ld)
            multiply_by_rows(Rows(weight, o * terms + at, terms), last, beside, rows, inner, apart, add)
        is_enough = (o + rows - begin + TILE_ROWS) * across > FINISHED_ROWS * GROUP_PANELS * width
        if is_last and (is_enough or o + rows == bottom):
            finish(argv, to + begin * positions, o + rows - begin, count, sums, held + (begin - origin) * ld, ld)
            begin = o + rows
            origin = begin if is_apart and add == 0 else origin


@generic
def convolve_tiles(
    data: Array, weight: Array, out: Array, panels: Array, table: Array, sums: Array, finish: Callable[..., None],
    fetch_operands: Callable[..., None], argv: int, low: int, high: int, sizes: Axes, steps: Axes, out_sizes: Axes,
    out_steps: Axes, kernel: Axes, groups: int, stride: Axes, before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Compute the blocks ``low`` to ``high`` (exclusive) of the result: some output channels at some positions.

    Layout NCHW of data and result, OIHW of the weight.  ``panels``: buffer for a group of panels; ``table``: for the records of
    all taps and three numbers per column of a panel; ``sums``: for the sums until they are finished, or ``out``.  Blocks of the
    same positions follow one another: their columns are packed once.
    """
    width = PANEL_BYTES // out.itemsize
    taps, positions = kernel[2] * kernel[3] * kernel[4], out_steps[CHANNEL]
    outputs, terms = kernel[0] // groups, kernel[1] * taps
    columns = stretch_columns(terms, width)
    bands, stretches = band_count(outputs), stretch_count(positions, columns)
    parts = (kernel[1] + max(INNER // taps, 1) - 1) // max(INNER // taps, 1)
    is_moved = stride[0] * stride[1] * stride[2] > 1 or before[0] + before[1] + before[2] > 0
    is_matrix = taps == 1 and positions == steps[CHANNEL] and not is_moved
    number = low
    while number < high:
        band, stretch = number % bands, number // bands
        end_band = min(bands, band + high - number)
        g, b = stretch // stretches % groups, stretch // stretches // groups
        begin = stretch % stretches * columns
        count = columns if stretch % stretches + 1 < stretches else positions - begin
        top, bottom = g * outputs + band * outputs // bands, g * outputs + end_band * outputs // bands
        for part in range(parts):
            i = part * kernel[1] // parts
            channels = (part + 1) * kernel[1] // parts - i
            inner = channels * taps
            at = b * steps[BATCH] + (g * kernel[1] + i) * steps[CHANNEL]
            if is_matrix and reads_rows_apart():
                ahead = columns if begin + count < positions else 0
                multiply_rows(
                    weight, top, bottom, i * taps, terms, data, at + begin, width, positions, out,
                    b * out_steps[BATCH] + begin, positions, sums, inner, count, i, ahead, panels, data, (0, 0), (0, 0, 0, 0),
                    part + 1 == parts, finish, fetch_operands, argv,
                )  # fmt: skip
                continue
            unpacked = (0, 0)
            if is_matrix and packs_by_products(bottom - top, count, inner, width):
                unpacked = (at + begin, steps[CHANNEL])
            elif is_matrix:
                copy_columns(panels, data, at + begin, channels, steps[CHANNEL], count)
            for j in range(0, 0 if is_matrix else count, width):
                place_taps(
                    table, width, begin + j, min(width, count - j), sizes, steps, kernel, out_sizes, stride, before, dilation
                )
                pack_panel(panels, j * inner, data, at, channels, steps[CHANNEL], table, taps)
            later = (0, 0, 0, 0)
            if is_matrix and part + 1 < parts:
                later = (at + begin + channels * steps[CHANNEL], channels, steps[CHANNEL], count)
            elif is_matrix and begin + count < positions:
                # the first part's columns of the next stretch
                following = b * steps[BATCH] + g * kernel[1] * steps[CHANNEL] + begin + count
                later = (following, kernel[1] // parts, steps[CHANNEL], min(columns, positions - begin - count))
            multiply_rows(
                weight, top, bottom, i * taps, terms, panels, 0, inner * width, width, out, b * out_steps[BATCH] + begin,
                positions, sums, inner, count, i, 0, panels, data, unpacked, later, part + 1 == parts, finish, fetch_operands,
                argv,
            )  # fmt: skip
        number += end_band - band
