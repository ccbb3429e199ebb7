"""The largest elements of windows of neighbouring columns: a row of results in tiles of vector registers.

A tile has as many results as a register has lanes.  Its columns are parted by their place in a step between windows: with a step
of 2 into even and odd ones.  A tap of a window is one of these parts, moved by whole steps, with the first columns of the next
tile behind it.  So each column of a line is loaded once, and nothing is stored between lines and columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vector_registers import vector_bytes
from ...native.vectors import Vector, any_lane, lane_numbers, lanes_below, load, load_or_zero, select, shuffle, store, store_some
from ..spatial.cpu import CHANNEL, COLUMN, DEPTH, ROW, Spatial, end_inside, first_inside
from .largest_of_taps import MOST_STEP, larger
from .windows import Windows

#: The most columns of a window.
MOST_TAPS = 5
#: A number of lines that is known to the compiler: windows of 3 x 3 take 0.64 to 0.73 of the time without loops over lines.
USUAL_LINES = 3
#: Bytes of the registers that have masks of lanes of any size; smaller ones have some for lanes of 4 bytes and more.
_MASKED_BYTES, _MASKED_LANE = 64, 4


class Lines(NamedTuple):
    """Lines of the data that are compared, in planes: the element in column 0 of the first, from a plane and from a line to the
    next, in elements; the numbers of planes and of lines of each, at least 1; the number of columns."""

    data: Array
    at: int
    plane_step: int
    line_step: int
    planes: int
    lines: int
    columns: int


@at_compile_time
def fits_tiles(taps: int, step: int, itemsize: int) -> bool:
    """Whether windows of ``taps`` columns, ``step`` apart, are compared in tiles; ``taps`` is 0 for columns that are apart.

    ``itemsize``: bytes of a lane.
    """
    has_masks = vector_bytes() >= _MASKED_BYTES or (2 * vector_bytes() >= _MASKED_BYTES and itemsize >= _MASKED_LANE)
    return has_masks and 0 < taps <= MOST_TAPS and step <= MOST_STEP and (taps - 1) // step <= vector_bytes() // itemsize


@at_compile_time
def moved(lanes: int, count: int) -> tuple[int, ...]:
    """The order of the lanes of two vectors that moves them by ``count``."""
    return tuple(range(count, count + lanes))


@generic
def largest_by_tiles(
    data: Spatial, out: Spatial, nothing: Vector, low: int, high: int, windows: Windows, taps: int, step: int
) -> None:
    """Store the largest elements of the windows of the planes ``low`` to ``high`` (exclusive): the channels of each batch.

    Windows have ``taps`` neighbouring columns and are ``step`` apart; vectors are as long as ``nothing``.
    """
    (elements, sizes, steps), (pool_size, stride, before, dilation), results = data, windows, out.sizes
    count = results[COLUMN]
    plane_size = results[DEPTH] * results[ROW] * count
    to, end_of_out = low * plane_size, high * plane_size  # rows of results follow one another
    for plane in range(low, high):
        for i in range(results[DEPTH]):
            z = i * stride[0] - before[0]
            first, end = first_inside(z, dilation[0]), end_inside(z, dilation[0], sizes[DEPTH], pool_size[0])
            for j in range(results[ROW]):
                y = j * stride[1] - before[1]
                top, bottom = first_inside(y, dilation[1]), end_inside(y, dilation[1], sizes[ROW], pool_size[1])
                at = plane * steps[CHANNEL] + (z + first * dilation[0]) * steps[DEPTH] + (y + top * dilation[1]) * steps[ROW]
                planes, rows, columns = end - first, bottom - top, sizes[COLUMN]
                if planes <= 0 or rows <= 0 or columns == 0:
                    planes, rows, columns = 1, 1, 0
                lines = Lines(elements, at, dilation[0] * steps[DEPTH], dilation[1] * steps[ROW], planes, rows, columns)
                if planes == 1 and rows == USUAL_LINES:
                    lines = Lines(elements, at, 0, lines.line_step, static(1), static(USUAL_LINES), columns)
                    largest_in_tiles(lines, -before[2], nothing, out.data, to, count, end_of_out, taps, step)
                else:
                    largest_in_tiles(lines, -before[2], nothing, out.data, to, count, end_of_out, taps, step)
                to += count


@generic
def largest_in_tiles(
    given: Lines, first: int, nothing: Vector, out: Array, to: int, count: int, end: int, taps: int, step: int
) -> None:
    """Store the largest elements of ``count`` windows of ``taps`` columns, the first from column ``first`` on, ``step`` apart.

    ``nothing``: every element outside the columns, in the lanes of a tile.  Elements of ``out`` behind the results may be
    overwritten, below ``end``: masked stores take a dozen cycles on Zen 3.  NaN propagates.  Floats are first compared as if
    there was none, and added up beside: a sum that is a number had no NaN.
    """
    readable = given.columns
    if first + (count - 1) * step + taps <= readable:  # columns behind are in no window
        readable = len(given.data) - given.at - (given.planes - 1) * given.plane_step - (given.lines - 1) * given.line_step
    if not _compare(given, first, readable, nothing, out, to, count, end, taps, step, static(0)):
        _compare(given, first, readable, nothing, out, to, count, end, taps, step, static(1))


@generic
def _compare(
    given: Lines,
    first: int,
    readable: int,
    nothing: Vector,
    out: Array,
    to: int,
    count: int,
    end: int,
    taps: int,
    step: int,
    finds_nan: int,
) -> bool:
    """As ``largest_in_tiles``; whether the elements have no NaN, or NaN is found.

    Columns below ``readable`` may be read with others: elements behind the columns are in no window, or ``readable`` excludes
    them.
    """
    lanes = static(len(nothing))
    both, total = _columns(given, first, readable, nothing, step, finds_nan)
    even, odd = both[::step], both[step - 1 :: step]
    for tile in range(0, count, lanes):
        left, next_even, next_odd = count - tile, nothing, nothing
        if (left - 1) * step + taps > lanes * step:
            both, more = _columns(given, first + (tile + lanes) * step, readable, nothing, step, finds_nan)
            next_even, next_odd, total = both[::step], both[step - 1 :: step], total + more
        found = even
        for tap in static_range(1, taps):
            if tap % step == 0:
                found = _larger(found, shuffle(even, next_even, moved(lanes, tap // step)), finds_nan)
            else:
                found = _larger(found, shuffle(odd, next_odd, moved(lanes, tap // step)), finds_nan)
        if left >= lanes or to + tile + lanes <= end:
            store(out, to + tile, found)
        else:
            store_some(out, to + tile, found, lanes_below(left, lanes))
        even, odd = next_even, next_odd
    return not any_lane(total != total)


@generic
def _larger(largest: Vector, value: Vector, finds_nan: int) -> Vector:
    """As ``larger``, with or without NaN."""
    if finds_nan == 1:
        return larger(largest, value)
    return select(value > largest, value, largest)


@generic
def _columns(given: Lines, first: int, readable: int, nothing: Vector, step: int, finds_nan: int) -> tuple[Vector, Vector]:
    """The largest elements of the lines in each of the columns of a tile, from column ``first`` on; and their sums.

    If NaN is found, the sums are zeros.  ``readable``: as of ``_compare``.
    """
    lanes = static(len(nothing) * step)
    if first >= 0 and first + lanes <= readable:
        largest = load(given.data, given.at + first, lanes)
        total = largest
        for plane in range(given.planes):
            at = given.at + plane * given.plane_step + first
            for line in range(0 if plane > 0 else 1, given.lines):
                value = load(given.data, at + line * given.line_step, lanes)
                largest, total = _larger(largest, value, finds_nan), total + value
        return largest, total
    before, end = min(max(-first, 0), lanes), min(max(given.columns - first, 0), lanes)
    numbers = lane_numbers(lanes).astype(np.int32)
    inside = (numbers >= np.int32(before)) & (numbers < np.int32(end))
    outside = shuffle(nothing, nothing, _every_lane(len(nothing), step))
    total = load_or_zero(given.data, given.at + first, inside)
    largest = select(inside, total, outside)
    for plane in range(given.planes):
        at = given.at + plane * given.plane_step + first
        for line in range(0 if plane > 0 else 1, given.lines):
            value = load_or_zero(given.data, at + line * given.line_step, inside)
            largest, total = _larger(largest, select(inside, value, outside), finds_nan), total + value
    return largest, total


@at_compile_time
def _every_lane(lanes: int, step: int) -> tuple[int, ...]:
    """The order of the lanes of a vector, ``step`` times."""
    return tuple(range(lanes)) * step
