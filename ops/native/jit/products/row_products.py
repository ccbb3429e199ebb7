"""Products of rows with rows: sums along contiguous elements, for few columns, which leave a tile's vectors mostly empty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...inlining import keep_out_of_line
from ...memory import generic
from ...static_values import static_range
from ...vectors import Vector, fused_multiply_add, lanes_below, load, load_some, splat, sum_of_lanes
from .operands import Rows
from .register_tile import TILE_ROWS, panel_width


@generic
def multiply_by_rows(a: Rows, b: Rows, out: Rows, rows: int, inner: int, columns: int, add: int) -> None:
    """Compute ``out[i, j] = sum of a[i, k] * b[j, k]``; add it to ``out[i, j]`` if ``add`` is not 0.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``; ``k`` below ``inner``: each lane of a vector sums every
    ``panel_width``-th element, then halves of the vector are added.  Contiguous arrays of one dtype, float32 or float64.
    """
    for n in static_range(1, TILE_ROWS + 1):
        if rows == n:
            _multiply(a, b, out, n, inner, columns, add)


@generic
def _multiply(a: Rows, b: Rows, out: Rows, rows: int, inner: int, columns: int, add: int) -> None:
    """As ``multiply_by_rows``, for a static number of rows."""
    keep_out_of_line()
    results, lanes = out.data.reshape(-1), panel_width(out.data.itemsize)
    for column in range(columns):
        sums, other = [splat(results.dtype.type(0), lanes)] * rows, b.at + column * b.step
        whole = inner & -lanes
        for k in range(0, whole, lanes):
            factor = load(b.data, other + k, lanes)
            for i in static_range(rows):
                sums[i] = fused_multiply_add(load(a.data, a.at + i * a.step + k, lanes), factor, sums[i])
        rest = _rest(a, Rows(b.data, other, 0), sums, whole, inner)
        for i in static_range(rows):
            place = np.uint64(out.at + i * out.step + column)
            before = results[place]
            results[place] = (before if add != 0 else results.dtype.type(0)) + sum_of_lanes(rest[i])


@generic
def _rest(a: Rows, b: Rows, sums: Sequence[Vector], whole: int, inner: int) -> list[Vector]:
    """The sums with the products of the last, partial vectors of the rows."""
    lanes = len(sums[0])
    mask, nothing = lanes_below(inner - whole, lanes), splat(sums[0].dtype.type(0), lanes)
    factor = load_some(b.data, b.at + whole, mask, nothing)
    last = [load_some(a.data, a.at + i * a.step + whole, mask, nothing) for i in static_range(len(sums))]
    return [fused_multiply_add(last[i], factor, sums[i]) for i in static_range(len(sums))]
