"""Means of windows that are one column apart: vectors of sums in float64, in the order of the window's elements."""

from __future__ import annotations

import numpy as np

from ...native.memory import Array, Axes, generic
from ...native.static_values import at_compile_time, static
from ...native.vector_registers import vector_bytes
from ...native.vectors import lane_numbers, lanes_below, load_or_zero, select, splat, store_some
from ..spatial.cpu import COLUMN, DEPTH, ROW, Spatial, end_inside, first_inside
from .windows import Windows

#: Bytes of a sum, and of the smallest results: halves would be rounded twice.
_SUM_BYTES, SMALLEST = 8, 4
#: Bytes of the registers that have masks.
_MASKED_BYTES = 32


@at_compile_time
def has_masks() -> bool:
    """Whether this machine reads parts of vectors as fast as whole ones."""
    return vector_bytes() >= _MASKED_BYTES


@generic
def store_row_of_means(
    data: Array,
    at: int,
    sizes: Axes,
    steps: Axes,
    rows: Axes,
    taps: Axes,
    out: Array,
    to: int,
    count: int,
    counts: Array,
    lines: float,
) -> None:
    """Store the means of ``count`` windows side by side: sums by ``lines * counts[i]``, and by 1 at least.

    ``at``: the element in column 0 of the window's first row; ``sizes``: planes, rows of each and columns; ``steps``: elements
    from a plane and from a row to the next; ``rows``: the first and the end of the planes and of the rows that are inside the
    data; ``taps``: columns of a window, from one to the next, and of padding before the data.
    """
    lanes, zero = static(vector_bytes() // _SUM_BYTES), splat(0.0, static(vector_bytes() // _SUM_BYTES))
    numbers, one = lane_numbers(lanes), zero + 1.0
    for first in range(0, count, lanes):
        total = zero
        for z in range(rows[0], rows[1]):
            for y in range(rows[2], rows[3]):
                line = at + z * steps[0] + y * steps[1] + first
                for tap in range(taps[0]):
                    offset = tap * taps[1] - taps[2]
                    inside = (numbers >= -offset - first) & (numbers < sizes[2] - offset - first)
                    total = total + load_or_zero(data, line + offset, inside & (numbers < count - first)).astype(np.float64)
        kept = lanes_below(count - first, lanes)
        elements = load_or_zero(counts, first, kept) * lines
        means = total / select(elements > one, elements, one)
        store_some(out, to + first, means.astype(out.dtype), kept)


@generic
def row_of_means(
    data: Spatial, at: int, place: Axes, windows: Windows, out: Spatial, to: int, counts: Array, count_include_pad: bool
) -> None:
    """Store a row of means of windows that are one column apart; ``at``: the start of the channel."""
    (elements, sizes, steps), (pool_size, stride, before, dilation) = data, windows
    z, y = place[0] * stride[0] - before[0], place[1] * stride[1] - before[1]
    rows = (
        first_inside(z, dilation[0]),
        end_inside(z, dilation[0], sizes[DEPTH], pool_size[0]),
        first_inside(y, dilation[1]),
        end_inside(y, dilation[1], sizes[ROW], pool_size[1]),
    )
    inside = max(rows[1] - rows[0], 0) * max(rows[3] - rows[2], 0)
    lines = float(pool_size[0] * pool_size[1] * pool_size[2] if count_include_pad else inside)
    start, apart = at + z * steps[DEPTH] + y * steps[ROW], (dilation[0] * steps[DEPTH], dilation[1] * steps[ROW])
    taps = (pool_size[2], dilation[2], before[2])
    shape = (sizes[DEPTH], sizes[ROW], sizes[COLUMN])
    store_row_of_means(elements, start, shape, apart, rows, taps, out.data, to, out.sizes[COLUMN], counts, lines)
