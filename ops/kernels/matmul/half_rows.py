"""Products of a few rows of halves with rows of halves, summed in float32: a tile widens each of its elements once.

Each lane of a register sums every so many-th product; at the end halves of the register are added.
"""

from __future__ import annotations

import numpy as np

from ...native.inlining import keep_out_of_line
from ...native.jit.products.operands import Rows
from ...native.memory import Array, generic
from ...native.static_values import static_range
from ...native.vector_registers import vector_bytes
from ...native.vectors import Vector, fused_multiply_add, halvings, lanes_below, load, load_or_zero, splat, sum_of_lanes

#: The most rows of a tile, and the columns of a tile of a product that has as many.
ROWS, COLUMNS = 4, 4


@generic
def dots_of_halves(a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int, m: int, n: int, k: int) -> None:
    """``out[m, n]``: the dot products of the rows of ``a[m, k]`` with the rows of ``b[n, k]``."""
    for columns in static_range(1, COLUMNS + 1, COLUMNS - 1):
        if (columns == COLUMNS) == (n >= COLUMNS):
            for column in range(0, n, columns):
                first, row = min(column, n - columns), 0  # the last tile may compute columns again
                for rows in halvings(2 * ROWS):
                    while m - row >= rows:
                        left, right = Rows(a, a_at + row * k, k), Rows(b, b_at + first * k, k)
                        _tile(left, right, Rows(out, out_at + row * n + first, n), rows, columns, k)
                        row += rows


@generic
def _tile(a: Rows, b: Rows, out: Rows, rows: int, columns: int, k: int) -> None:
    """As ``dots_of_halves``, for static numbers of rows and columns."""
    keep_out_of_line()
    lanes = vector_bytes() // out.data.itemsize
    sums, whole = [splat(out.data.dtype.type(0), lanes)] * (rows * columns), k & -lanes
    for p in range(0, whole, lanes):
        right = [load(b.data, b.at + j * b.step + p, lanes) for j in static_range(columns)]
        for i in static_range(rows):
            left = load(a.data, a.at + i * a.step + p, lanes)
            for j in static_range(columns):
                sums[i * columns + j] = fused_multiply_add(left, right[j], sums[i * columns + j])
    if whole < k:
        _add_rest(sums, Rows(a.data, a.at + whole, a.step), Rows(b.data, b.at + whole, b.step), columns, k - whole)
    for i in static_range(rows):
        for j in static_range(columns):
            out.data[np.uint64(out.at + i * out.step + j)] = sum_of_lanes(sums[i * columns + j])


@generic
def _add_rest(sums: list[Vector], a: Rows, b: Rows, columns: int, count: int) -> None:
    """Add the products of the last ``count`` elements, which are less than a vector."""
    mask = lanes_below(count, len(sums[0]))
    right = [load_or_zero(b.data, b.at + j * b.step, mask) for j in static_range(columns)]
    for i in static_range(len(sums) // columns):
        left = load_or_zero(a.data, a.at + i * a.step, mask)
        for j in static_range(columns):
            sums[i * columns + j] = fused_multiply_add(left, right[j], sums[i * columns + j])
