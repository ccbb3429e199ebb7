"""Means of windows of neighbouring columns: a row of results in tiles of vector registers, with sums in float64.

The lines of a window are added first, so that each column is read once, then the columns of the window.  A tile has as many
results as a register has lanes of 4 bytes.  Its columns are parted by their place in a step between windows, as in
``tiles_of_rows``.
"""

from __future__ import annotations

import numpy as np

from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vector_registers import vector_bytes
from ...native.vectors import Vector, lane_numbers, lanes_below, load, load_or_zero, select, shuffle, splat, store, store_some
from ..spatial.cpu import COLUMN, DEPTH, ROW, Spatial, end_inside, first_inside, start_of
from .largest_of_taps import MOST_STEP
from .mean_rows import SMALLEST, has_masks
from .tiles_of_rows import MOST_TAPS, Lines, moved
from .windows import Windows


@at_compile_time
def _lanes() -> int:
    """The results of a tile."""
    return vector_bytes() // SMALLEST


@at_compile_time
def fits_means(taps: int, step: int, itemsize: int) -> bool:
    """Whether windows of ``taps`` columns, ``step`` apart, are added in tiles; ``taps`` is 0 for columns that are apart.

    ``itemsize``: bytes of a result; halves would be rounded twice.
    """
    return has_masks() and itemsize >= SMALLEST and 0 < taps <= MOST_TAPS and step <= MOST_STEP


@generic
def means_by_tiles(
    data: Spatial, out: Spatial, counts: Array, windows: Windows, taps: int, step: int, count_include_pad: bool
) -> None:
    """Store the means of windows of ``taps`` neighbouring columns, ``step`` apart; both are static.

    ``counts``: for each column of the result the elements of its window in a line, or ones with ``count_include_pad``.
    """
    (elements, sizes, steps), (pool_size, stride, before, dilation), (to, _, results) = data, windows, out
    positions = pool_size[0] * pool_size[1] * pool_size[2]
    end_of_out = out.sizes[0] * out.sizes[1] * out.sizes[DEPTH] * out.sizes[ROW] * out.sizes[COLUMN]  # rows follow one another
    for channel in range(out.sizes[0] * out.sizes[1]):
        b, c = channel // out.sizes[1], channel % out.sizes[1]
        for z in range(out.sizes[DEPTH]):
            plane = z * stride[0] - before[0]
            first, end = first_inside(plane, dilation[0]), end_inside(plane, dilation[0], sizes[DEPTH], pool_size[0])
            for y in range(out.sizes[ROW]):
                row = y * stride[1] - before[1]
                top, bottom = first_inside(row, dilation[1]), end_inside(row, dilation[1], sizes[ROW], pool_size[1])
                columns, lines = sizes[COLUMN], max(end - first, 0) * max(bottom - top, 0)
                if lines == 0:
                    first, end, top, bottom, columns = 0, 1, 0, 1, 0
                at = start_of(data, b, c) + (plane + first * dilation[0]) * steps[DEPTH] + (row + top * dilation[1]) * steps[ROW]
                given = Lines(
                    elements, at, dilation[0] * steps[DEPTH], dilation[1] * steps[ROW], end - first, bottom - top, columns
                )
                here = start_of(out, b, c) + z * results[DEPTH] + y * results[ROW]
                counted = float(positions if count_include_pad else lines)
                _store_row(given, -before[2], counts, counted, to, here, out.sizes[COLUMN], end_of_out, taps, step)


@generic
def _store_row(
    given: Lines, first: int, counts: Array, lines: float, out: Array, to: int, count: int, end_of_out: int, taps: int, step: int
) -> None:
    """Store ``count`` means of ``taps`` columns of the lines, the first from column ``first`` on, ``step`` apart.

    Sums are divided by ``lines * counts[i]``, and by 1 at least.  Elements of ``out`` behind the row may be overwritten, below
    ``end_of_out``: masked stores take a dozen cycles on Zen 3.
    """
    lanes = static(_lanes())
    nothing = splat(0.0, lanes)
    one, both = nothing + 1.0, _sums_of_columns(given, first, lanes, step)
    even, odd = both[::step], both[step - 1 :: step]
    for tile in range(0, count, lanes):
        left, next_even, next_odd = count - tile, nothing, nothing
        if (left - 1) * step + taps > lanes * step:
            both = _sums_of_columns(given, first + (tile + lanes) * step, lanes, step)
            next_even, next_odd = both[::step], both[step - 1 :: step]
        total = even
        for tap in static_range(1, taps):
            if tap % step == 0:
                total = total + shuffle(even, next_even, moved(lanes, tap // step))
            else:
                total = total + shuffle(odd, next_odd, moved(lanes, tap // step))
        kept = lanes_below(left, lanes)
        elements = load_or_zero(counts, tile, kept) * lines
        means = (total / select(elements > one, elements, one)).astype(out.dtype)
        if left >= lanes or to + tile + lanes <= end_of_out:
            store(out, to + tile, means)
        else:
            store_some(out, to + tile, means, kept)
        even, odd = next_even, next_odd


@generic
def _sums_of_columns(given: Lines, first: int, lanes: int, step: int) -> Vector:
    """The sum of the lines in each of the columns of a tile, from column ``first`` on; 0 outside the columns."""
    total, is_inside = splat(0.0, static(lanes * step)), first >= 0 and first + lanes * step <= given.columns
    numbers = lane_numbers(static(lanes * step)).astype(np.int32)
    inside = (numbers >= np.int32(max(-first, 0))) & (numbers < np.int32(given.columns - first))
    for plane in range(given.planes):
        at = given.at + plane * given.plane_step + first
        for line in range(given.lines):
            if is_inside:
                total = total + load(given.data, at + line * given.line_step, static(lanes * step)).astype(np.float64)
            else:
                total = total + load_or_zero(given.data, at + line * given.line_step, inside).astype(np.float64)
    return total
