"""The geometry of a convolution: its images, its weight, and the steps of its window, as one record; the places of its taps.

The places of the taps at a vector of positions are records of integers, from which panels are packed.
"""

from __future__ import annotations

from typing import NamedTuple

from ...native.jit.convolution.panel_row import store_alternate, store_gathered, store_run, store_two_runs
from ...native.jit.products.register_tile import PANEL_BYTES
from ...native.memory import Array, Axes, generic
from ..shaped import Shaped
from ..spatial.cpu import COLUMN, DEPTH, ROW, Spatial, spatial
from .weight_layout import Layouts, group_count, kernel_sizes, kernel_strides

#: Forms of a row of a panel: operands that follow one another, in one or two rows of the data, every second element, or operands
#: anywhere.
RUN, TWO_RUNS, ALTERNATE, ANYWHERE = range(4)
#: Numbers of the record of a tap, before its operands: its form, its first operand, a bit for each operand inside the data.  Of
#: two runs the operands are the place and the bits of the second run.
(_FORM, _FIRST, _INSIDE, _OPERANDS) = range(4)


class Filters(NamedTuple):
    """A weight.

    ``sizes``: output channels, input channels of a group, depth, rows, columns.  ``steps``: the elements from an output channel
    to the next, from an input channel and from a tap; taps are in row-major order.
    """

    data: Array
    sizes: Axes
    steps: Axes


class Window(NamedTuple):
    """The steps of a window along depth, rows and columns, in elements of the data.

    ``stride``: from a result to the next; ``before``: the padding before the data; ``dilation``: from a tap to the next.
    """

    stride: Axes
    before: Axes
    dilation: Axes


class Convolution(NamedTuple):
    """A convolution of ``groups`` groups of channels."""

    data: Spatial
    weight: Filters
    out: Spatial
    window: Window
    groups: int


@generic
def convolution(data: Shaped, weight: Shaped, out: Shaped, window: Window, layouts: Layouts) -> Convolution:
    """The convolution of tensors in ``layouts``."""
    of_data, sizes = spatial(data, layouts[1]), kernel_sizes(weight.dims, layouts[0])
    filters = Filters(weight.data, sizes, kernel_strides(sizes, layouts[0]))
    return Convolution(of_data, filters, spatial(out, layouts[2]), window, group_count(of_data.sizes, sizes))


@generic
def tap_count(weight: Filters) -> int:
    """The taps of a weight."""
    return weight.sizes[2] * weight.sizes[3] * weight.sizes[4]


@generic
def tap_place(weight: Filters, tap: int) -> tuple[int, int, int]:
    """Depth, row and column of a tap of a weight."""
    return tap // (weight.sizes[3] * weight.sizes[4]), tap // weight.sizes[4] % weight.sizes[3], tap % weight.sizes[4]


@generic
def position_count(of: Spatial) -> int:
    """The positions of an image."""
    return of.sizes[DEPTH] * of.sizes[ROW] * of.sizes[COLUMN]


@generic
def position(out: Spatial, number: int) -> tuple[int, int, int]:
    """Depth, row and column of a position of an image."""
    row = number // out.sizes[COLUMN]
    return row // out.sizes[ROW], row % out.sizes[ROW], number % out.sizes[COLUMN]


@generic
def tap_source(window: Window, place: Axes, tap: Axes) -> tuple[int, int, int]:
    """Depth, row and column of the data that a tap reads for a position of the result; each a triple."""
    return (
        place[0] * window.stride[0] + tap[0] * window.dilation[0] - window.before[0],
        place[1] * window.stride[1] + tap[1] * window.dilation[1] - window.before[1],
        place[2] * window.stride[2] + tap[2] * window.dilation[2] - window.before[2],
    )


@generic
def has_row(data: Spatial, depth: int, row: int) -> bool:
    """Whether images have a row."""
    return 0 <= depth < data.sizes[DEPTH] and 0 <= row < data.sizes[ROW]


@generic
def lanes_between(first: int, end: int, width: int) -> int:
    """A bit for each of ``width`` lanes from ``first`` to ``end`` (exclusive)."""
    first, end = min(max(first, 0), width), min(max(end, 0), width)
    return (1 << end) - (1 << first) if first < end else 0


@generic
def record_length(width: int) -> int:
    """The integers of the record of a tap."""
    return _OPERANDS + width


@generic
def place_columns(table: Array, at: int, width: int, place: Axes, conv: Convolution) -> None:
    """Store depth, row and column of the first tap for the positions from ``place`` (depth, row, column) on."""
    (stride, before, _), out_sizes, (z, y, x) = conv.window, conv.out.sizes, place
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
def place_anywhere(table: Array, record: int, at: int, width: int, count: int, tap: Axes, data: Spatial) -> None:
    """Store the record of a tap, which is so far from the first tap, whose places are at ``at``."""
    inside, broken = 0, 0
    for j in range(width):
        z, y, x = table[at + j] + tap[0], table[at + width + j] + tap[1], table[at + 2 * width + j] + tap[2]
        is_inside = has_row(data, z, y) and 0 <= x < data.sizes[COLUMN] and j < count
        table[record + _OPERANDS + j] = z * data.steps[DEPTH] + y * data.steps[ROW] + x
        inside |= (1 if is_inside else 0) << j
    for j in range(count):
        broken += 0 if table[record + _OPERANDS + j] == table[record + _OPERANDS] + j else 1
    table[record + _FORM] = RUN if broken == 0 else ANYWHERE
    table[record + _FIRST] = table[record + _OPERANDS]
    table[record + _INSIDE] = inside


@generic
def place_two_runs(table: Array, record: int, width: int, first: Axes, second: Axes, split: int, data: Spatial) -> None:
    """Store the record of a tap whose operands begin at ``first``, and from column ``split`` on at ``second``: one row each."""
    (_, _, deep, below, _), columns = data.steps, data.sizes[COLUMN]
    table[record + _FORM] = TWO_RUNS
    table[record + _FIRST] = first[0] * deep + first[1] * below + first[2]
    in_first, in_second = has_row(data, first[0], first[1]), has_row(data, second[0], second[1])
    table[record + _INSIDE] = lanes_between(-first[2], min(split, columns - first[2]) if in_first else 0, width)
    before = split - second[2]
    table[record + _OPERANDS] = second[0] * deep + second[1] * below - before
    table[record + _OPERANDS + 1] = lanes_between(max(split, before), before + columns if in_second else 0, width)


@generic
def place_taps(table: Array, width: int, begin: int, count: int, conv: Convolution) -> None:
    """Store the records of all taps for ``count`` positions from ``begin`` on."""
    place, columns, (stride, before, dilation) = position(conv.out, begin), conv.out.sizes[COLUMN], conv.window
    data, kernel = conv.data, conv.weight.sizes
    is_row = count == width and place[2] + width <= columns and stride[2] <= 2
    z, y, x = place[0] * stride[0] - before[0], place[1] * stride[1] - before[1], place[2] * stride[2] - before[2]
    last, at = (width - 1) * stride[2], tap_count(conv.weight) * record_length(width)
    place_columns(table, at, width, place, conv)
    # columns of the end of one row of the result and of the beginning of the next, ``split`` from the first one on
    split = columns - place[2]
    is_two_rows = count == width and stride[2] == 1 and split < width <= split + columns
    # the next row of the data, from this one
    is_deeper = place[1] + 1 == conv.out.sizes[ROW]
    dz, dy = stride[0] if is_deeper else 0, -place[1] * stride[1] if is_deeper else stride[1]
    record = 0
    for tz in range(z, z + kernel[2] * dilation[0], dilation[0]):
        for ty in range(y, y + kernel[3] * dilation[1], dilation[1]):
            for tx in range(x, x + kernel[4] * dilation[2], dilation[2]):
                if is_row:
                    is_inside = has_row(data, tz, ty)
                    table[record + _FORM] = RUN if stride[2] == 1 else ALTERNATE
                    table[record + _FIRST] = tz * data.steps[DEPTH] + ty * data.steps[ROW] + tx
                    # of every second element; the last one is not followed by another, which may be behind the data
                    table[record + _INSIDE] = lanes_between(-tx, data.sizes[COLUMN] - tx if is_inside else 0, last + 1)
                elif is_two_rows:
                    second = tz + dz, ty + dy, tx - x - before[2]
                    place_two_runs(table, record, width, (tz, ty, tx), second, split, data)
                else:
                    place_anywhere(table, record, at, width, count, (tz - z, ty - y, tx - x), data)
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
