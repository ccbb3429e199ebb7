"""A tile of a matrix product with a factor and a bias for each row, limited to bounds, before it leaves the registers.

With few terms a product takes hardly more time than another pass over its results would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...inlining import keep_out_of_line, keep_short, shared
from ...memory import Array, Element, generic
from ...static_values import static, static_range
from ...vectors import Vector, from_element, select, splat
from ..products.operands import Panels, Rows, flat, flat_panels, panels_from, rows_from
from ..products.panel_products import add_chunks, add_steps
from ..products.register_tile import TILE_ROWS, RegisterTile
from ..products.tile_steps import STEPS, each_run, fetch_results, is_one_tile, masks_of, no_sums, steps_of, store_sums


class Clip(NamedTuple):
    """A factor and a bias for each row, from element ``at`` on, and the bounds of ``sum * factor + bias``: numbers, not NaN.

    ``is_scaled``, ``is_shifted``: whether rows have a factor, and a bias; otherwise the arrays are not read.
    """

    factor: Array
    bias: Array
    at: int
    low: Element
    high: Element
    is_scaled: bool
    is_shifted: bool


@generic
def flat_clip(clip: Clip, number: Callable[[Element], Element]) -> Clip:
    """The arrays with one axis; the bounds as elements."""
    factor, bias = clip.factor.reshape(-1), clip.bias.reshape(-1)
    return Clip(factor, bias, clip.at, number(clip.low), number(clip.high), clip.is_scaled, clip.is_shifted)


@generic
def clip_of(clip: Clip, row: int) -> Clip:
    """The clip of the rows from ``row`` on."""
    return Clip(clip.factor, clip.bias, clip.at + row, clip.low, clip.high, clip.is_scaled, clip.is_shifted)


@generic
def clip_from(clip: Clip) -> Clip:
    """The clip in arrays that begin with its first row."""
    factor, bias = from_element(clip.factor, clip.at), from_element(clip.bias, clip.at)
    return Clip(factor, bias, 0, clip.low, clip.high, clip.is_scaled, clip.is_shifted)


@generic
def multiply_clipped(a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, clip: Clip, later: Rows) -> None:
    """Compute ``out[i, j] = min(max(sum of a[i, k] * panels[j / width, k, j % width] * factor[i] + bias[i], low), high)``.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``; ``k`` below ``inner``, in order, and
    the factor and the bias last: the sums of ``multiply_panels``.  A sum that is NaN stays NaN.  Contiguous arrays of one dtype,
    float32 or float64.

    Meanwhile fetch the rows ``later``; with a step of 0: none.
    """
    for n in static_range(1, TILE_ROWS + 1):
        if rows == n:
            limits = flat_clip(clip, out.data.dtype.type)
            clipped_tiles(flat(a), flat_panels(panels), flat(out), n, inner, columns, limits, flat(later))


class _More(NamedTuple):
    clip: Clip
    later: Rows


@shared
@generic
def clipped_tiles(a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, clip: Clip, later: Rows) -> None:
    """As ``multiply_clipped``, for a static number of rows."""
    each_run(_compute, a, panels, out, rows, inner, columns, _More(clip_from(clip), later))


@generic
def _compute(a: Rows, panels: Panels, out: Rows, tile: RegisterTile, inner: int, column: int, end: int, more: _More) -> None:
    keep_out_of_line(), keep_short()
    if is_one_tile(tile, out.data.itemsize):
        _tile(rows_from(a, 0), panels_from(panels, column), rows_from(out, column), tile, inner, end - column, column, more)
    else:
        for first in range(column, end, tile.vectors * tile.lanes):
            _tile(rows_from(a, 0), panels_from(panels, first), rows_from(out, first), tile, inner, end - first, first, more)


@generic
def _tile(a: Rows, panels: Panels, out: Rows, tile: RegisterTile, inner: int, columns: int, column: int, more: _More) -> None:
    """A tile, whose operands are in arrays that begin with them."""
    masks, steps = masks_of(columns, tile), steps_of(tile, out.data.itemsize, STEPS)
    # the first columns fetch the rows: a request takes time, of lines that are in the cache too
    later = rows_from(Rows(more.later.data, more.later.at, more.later.step if column == 0 else 0), 0)
    fetch_results(out, tile)
    sums, whole = no_sums(out, tile), inner & -steps
    add_chunks(sums, a, whole, steps, panels, masks, tile, later)
    if steps > 1:
        for k in range(whole, inner):
            add_steps(sums, a, k, static(1), panels, masks, tile)
    limit_sums(sums, more.clip, tile)
    store_sums(out, sums, masks, tile)


@generic
def limit_sums(sums: list[Vector], clip: Clip, tile: RegisterTile) -> None:
    """Multiply each sum by the factor of its row, add the bias, and limit it."""
    if clip.is_scaled:
        for i in static_range(tile.rows):
            factor = splat(clip.factor[np.uint64(clip.at + i)], tile.lanes)
            for j in static_range(tile.vectors):
                sums[i * tile.vectors + j] = sums[i * tile.vectors + j] * factor
    if clip.is_shifted:
        for i in static_range(tile.rows):
            bias = splat(clip.bias[np.uint64(clip.at + i)], tile.lanes)
            for j in static_range(tile.vectors):
                sums[i * tile.vectors + j] = sums[i * tile.vectors + j] + bias
    if clip.low > -np.inf:
        low = splat(clip.low, tile.lanes)
        for i in static_range(tile.rows * tile.vectors):
            sums[i] = select(sums[i] < low, low, sums[i])  # false for NaN
    if clip.high < np.inf:
        high = splat(clip.high, tile.lanes)
        for i in static_range(tile.rows * tile.vectors):
            sums[i] = select(sums[i] > high, high, sums[i])


@generic
def clip_rows(out: Rows, rows: int, columns: int, clip: Clip) -> None:
    """Multiply, add to and limit ``rows`` rows of a few sums one by one: a sum that is NaN stays NaN."""
    number = out.data.dtype.type
    low, high = number(clip.low), number(clip.high)
    for i in range(rows):
        for j in range(columns):
            at = np.uint64(out.at + i * out.step + j)
            total = out.data[at]
            if clip.is_scaled:
                total = total * clip.factor[np.uint64(clip.at + i)]
            if clip.is_shifted:
                total = total + clip.bias[np.uint64(clip.at + i)]
            total = low if total < low else total
            out.data[at] = high if total > high else total
