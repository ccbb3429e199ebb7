"""The geometry of a convolution of bytes: sizes, regions of the result, and the planes of words that a region reads.

A word is the 4 bytes that an instruction multiplies by 4 weights.  In the form CHANNELS they are 4 channels at one place of the
data: a plane of words is read at each tap of the window, shifted.  In the form COLUMNS they are 4 neighbouring columns of one
channel, for each column of the result: a plane is read at each row of the window.  The form BLOCKS has the words of CHANNELS in
blocks, whose planes are read together at each tap: see ``blocks``.
"""

from __future__ import annotations

from typing import NamedTuple

from ....shape_funcs.defs.convolution.conv import BYTE_BLOCK as BLOCK
from ....shape_funcs.defs.convolution.conv import BYTE_WORD as WORD
from ...native.memory import Array, Axes, generic

#: The forms of words.
CHANNELS, COLUMNS, BLOCKS = range(3)
#: The positions of the result in a region, unless a row has more, and the most columns of a region: the sums of a tile, and the
#: words of some channels, are in the first cache.
POSITIONS, MOST_COLUMNS = 512, 1024
#: The most words of planes with a phase for each column of the window: a half of the second cache.
DENSE_WORDS = 2**17
#: Words of a cache line.
LINE = 16


class ByteWindow(NamedTuple):
    """The steps of a window along rows and columns: see ``conv.geometry.Window``; ``taps``: its rows and columns."""

    stride: Axes
    before: Axes
    dilation: Axes
    taps: Axes


class ByteConvolution(NamedTuple):
    """Data ``[batch, channels, rows, columns]``, and the rows and columns of the result.

    ``groups``: groups of channels; ``form``: of words; ``pad``: the byte around the data, an array of one element; ``order``:
    of bytes in words (``words.place_order``).
    """

    data: Array
    sizes: Axes
    out_sizes: Axes
    window: ByteWindow
    groups: int
    form: int
    pad: Array
    order: Array


class Region(NamedTuple):
    """A rectangle of positions of the result: the first row and column, rows and columns."""

    row: int
    column: int
    rows: int
    columns: int


class Planes(NamedTuple):
    """The planes of words of a region, in the order of the weights.

    ``number``: of planes; ``phases``: of rows and of columns; ``rows``, ``columns``: of a phase; ``apart``: words from a plane to
    the next.  A phase has the words whose rows and columns are a stride apart, so that neighbours of the result read neighbours.
    """

    number: int
    phases: Axes
    rows: int
    columns: int
    apart: int


@generic
def words_of_columns(taps: int) -> int:
    """The words of a row of the window, in the form COLUMNS."""
    return (taps + WORD - 1) // WORD


@generic
def plane_count(channels: int, columns: int, form: int) -> int:
    """The planes of the channels of a group; ``columns``: of the window."""
    return channels * words_of_columns(columns) if form == COLUMNS else (channels + WORD - 1) // WORD


@generic
def phase_count(stride: int, taps: int, dilation: int) -> int:
    """The phases that taps read."""
    return min(stride, taps) if dilation == 1 else stride


@generic
def planes_of(conv: ByteConvolution, region: Region) -> Planes:
    """The planes of a region."""
    (stride, _, dilation, taps), form = conv.window, conv.form
    count = plane_count(conv.sizes[1] // conv.groups, taps[1], form)
    rows = region.rows + (taps[0] - 1) * dilation[0] // stride[0]
    down = phase_count(stride[0], taps[0], dilation[0])
    if form == COLUMNS:
        return Planes(count, (down, 1), rows, region.columns, down * rows * region.columns)
    across = phase_count(stride[1], taps[1], dilation[1])
    columns = region.columns + (taps[1] - 1) * dilation[1] // stride[1]
    words = down * across * rows * columns
    return Planes(count, (down, across), rows, columns, apart_for_blocks(words) if form == BLOCKS else words)


@generic
def apart_for_blocks(words: int) -> int:
    """The words from a plane to the next: whole cache lines, of an odd number, so that planes are in all sets of the cache."""
    return (words + LINE - 1) // LINE // 2 * 2 * LINE + LINE


@generic
def block_count(planes: int) -> int:
    """The blocks of planes; one if there are none."""
    return max((planes + BLOCK - 1) // BLOCK, 1)


@generic
def block_depth(planes: int) -> int:
    """The planes of a block: from 1 to BLOCK, in all blocks as many, so that few are beyond the last one."""
    return max((planes + block_count(planes) - 1) // block_count(planes), 1)


@generic
def column_regions(columns: int) -> int:
    """The regions along a row."""
    return max((columns + MOST_COLUMNS - 1) // MOST_COLUMNS, 1)


@generic
def row_regions(rows: int, columns: int) -> int:
    """The regions of a column."""
    together = max(POSITIONS // max(columns, 1), 1)
    return max((rows + together - 1) // together, 1)


@generic
def region_of(out_sizes: Axes, number: int) -> Region:
    """A region of the result, by its number."""
    rows, columns = out_sizes[0], out_sizes[1]
    across, down = column_regions(columns), row_regions(rows, columns)
    i, j = number // across, number % across
    row, column = i * rows // down, j * columns // across
    return Region(row, column, (i + 1) * rows // down - row, (j + 1) * columns // across - column)


@generic
def streams_positions(region: Region, planes: Planes) -> int:
    """The positions of a region as planes have them: columns that are in planes only are between rows."""
    return (region.rows - 1) * planes.columns + region.columns
