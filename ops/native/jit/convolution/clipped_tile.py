"""A tile of a matrix product with a bias for each row, limited to bounds, before it leaves the registers.

With few terms a product takes hardly more time than another pass over its results would.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...inlining import keep_out_of_line, keep_short, shared
from ...memory import Array, Element, generic
from ...static_values import static, static_range
from ...vectors import Vector, from_element, select, splat
from ..products.operands import Panels, Rows, flat, flat_panels, rows_from
from ..products.panel_products import add_chunks, add_steps
from ..products.register_tile import TILE_ROWS, RegisterTile
from ..products.tile_steps import STEPS, each_tile, fetch_results, masks_of, no_sums, steps_of, store_sums


class Clip(NamedTuple):
    """A bias for each row, from element ``at`` on, and the bounds of a sum with it: numbers, not NaN."""

    bias: Array
    at: int
    low: Element
    high: Element


@generic
def multiply_clipped(a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, clip: Clip, later: Rows) -> None:
    """Compute ``out[i, j] = min(max(sum of a[i, k] * panels[j / width, k, j % width] + bias[i], low), high)``.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``; ``k`` below ``inner``, in order, and the bias last: the sums
    of ``multiply_panels``.  A sum that is NaN stays NaN.  Contiguous arrays of one dtype, float32 or float64.

    Meanwhile fetch the rows ``later``; with a step of 0: none.
    """
    for n in static_range(1, TILE_ROWS + 1):
        if rows == n:
            number = out.data.dtype.type
            limits = Clip(clip.bias.reshape(-1), clip.at, number(clip.low), number(clip.high))
            clipped_tiles(flat(a), flat_panels(panels), flat(out), n, inner, columns, limits, flat(later))


class _More(NamedTuple):
    clip: Clip
    later: Rows


@shared
@generic
def clipped_tiles(a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, clip: Clip, later: Rows) -> None:
    """As ``multiply_clipped``, for a static number of rows."""
    of_rows = Clip(from_element(clip.bias, clip.at), 0, clip.low, clip.high)
    each_tile(_compute, rows_from(a, 0), panels, out, rows, inner, columns, _More(of_rows, rows_from(later, 0)))


@generic
def _compute(a: Rows, panels: Panels, out: Rows, tile: RegisterTile, inner: int, columns: int, column: int, more: _More) -> None:
    keep_out_of_line(), keep_short()
    masks, steps, later = masks_of(columns, tile), steps_of(tile, out.data.itemsize, STEPS), more.later
    fetch_results(out, tile)
    sums, whole = no_sums(out, tile), inner & -steps
    add_chunks(sums, a, whole, steps, panels, masks, tile, later)
    if steps > 1:
        for k in range(whole, inner):
            add_steps(sums, a, k, static(1), panels, masks, tile)
    _limit(sums, more.clip, tile)
    store_sums(out, sums, masks, tile)


@generic
def _limit(sums: list[Vector], clip: Clip, tile: RegisterTile) -> None:
    """Add the bias of its row to each sum, and limit it."""
    low, high = splat(clip.low, tile.lanes), splat(clip.high, tile.lanes)
    for i in static_range(tile.rows):
        bias = splat(clip.bias[np.uint64(clip.at + i)], tile.lanes)
        for j in static_range(tile.vectors):
            total = sums[i * tile.vectors + j] + bias
            total = select(total < low, low, total)  # false for NaN
            sums[i * tile.vectors + j] = select(total > high, high, total)
