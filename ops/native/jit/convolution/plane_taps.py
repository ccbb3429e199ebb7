"""Weighted sums of shifted rows of a plane, in vector registers: the taps of a convolution of one channel."""

from __future__ import annotations

from ...inlining import shared
from ...memory import Array, generic
from ...static_values import at_compile_time, static, static_range
from ...vectors import Vector, from_element, fused_multiply_add, load, load_some, splat
from ..products.operands import Rows, rows_from
from ..products.register_tile import panel_width
from .tap_columns import (
    ColumnWeights,
    Taps,
    add_columns,
    next_columns,
    rows_from_first,
    store_rows,
    table_of,
    weights_from_first,
)
from .tap_vectors import first_lanes, lanes_of

#: Rows of sums that are computed together, the most first: an addition waits for the one before it in its row.  Most planes of
#: networks have a multiple of 7 rows.
_ROWS = (7, 4, 2, 1)
#: The most rows of sums that are computed together.
TOGETHER = _ROWS[0]
#: The most rows of a column of taps.  Rows of sums that are computed together share the operands of a column's rows.
HEIGHTS = 5
#: Words of a column of taps: the first operand of its first tap, from the first of the plane, and its weight.
COLUMN_WORDS = 2


def read_ahead(itemsize: int) -> int:
    """The number of elements behind the last operand that ``add_taps`` may read."""
    return panel_width(itemsize) - 1


@generic
def add_taps(plane: Rows, taps: Taps, weights: ColumnWeights, out: Rows, rows: int, columns: int, add: int) -> None:
    """Compute ``out[y, x] = sum of weight[w + t * w_row] * plane[y + t, x + start]``; add it to ``out`` if ``add`` is not 0.

    The sum is over the columns of taps, in order, and over the rows ``t`` of each, at most HEIGHTS.  The words of a column are
    ``start`` and ``w``.  ``y`` below ``rows``, ``x`` below ``columns``, at least one each.  Contiguous arrays of one dtype,
    float32 or float64; ``taps``: int64.  ``read_ahead`` elements behind the operands are read, too.
    """
    plane_sums(
        rows_from_first(plane), table_of(taps), weights_from_first(weights), rows_from_first(out), rows, columns, add
    )  # fmt: skip


@at_compile_time
def _row_counts() -> tuple[int, ...]:
    return _ROWS


@shared
@generic
def plane_sums(plane: Rows, table: Array, weights: ColumnWeights, out: Rows, rows: int, columns: int, add: int) -> None:
    """As ``add_taps``, for arrays of one axis that begin with the operands."""
    y = 0
    for count in _row_counts():
        while rows - y >= count:
            here = from_element(plane.data, y * plane.step)
            _add_rows(Rows(here, 0, plane.step), table, weights, rows_from(out, y * out.step), count, columns, add)
            y += count


@generic
def _add_rows(plane: Rows, table: Array, weights: ColumnWeights, out: Rows, count: int, columns: int, add: int) -> None:
    """As ``add_taps``, for a static number of rows."""
    lanes, is_new, x = lanes_of(out.data.itemsize), add == 0, 0
    zero = splat(out.data.dtype.type(0), lanes)
    while x < columns:
        before = first_lanes(0 if is_new else columns - x, lanes)
        sums = [load_some(out.data, r * out.step + x, before, zero) for r in static_range(count)]
        given = Rows(from_element(plane.data, x), 0, plane.step)
        add_columns(_add_column, sums, table, static(COLUMN_WORDS), static(HEIGHTS), weights, given)
        store_rows(Rows(out.data, x, out.step), sums, columns - x)
        x = next_columns(x, columns, lanes, is_new)


@generic
def _add_column(sums: list[Vector], factors: list[Vector], column: Array, plane: Rows) -> None:
    row = from_element(plane.data, column[0])
    for r in static_range(len(sums) + len(factors) - 1):
        operand = load(row, 0, len(sums[0]))
        for t in static_range(max(r - len(sums) + 1, 0), min(r + 1, len(factors))):
            sums[r - t] = fused_multiply_add(factors[t], operand, sums[r - t])
        row = from_element(row, plane.step)
