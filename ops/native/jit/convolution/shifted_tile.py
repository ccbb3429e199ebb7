"""A tile of a matrix product whose second matrix has its rows anywhere in memory: each at an offset of its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...inlining import keep_out_of_line, keep_short, shared
from ...memory import Array, generic
from ...static_values import static, static_range
from ...vectors import Mask, Vector, from_element
from ..products.operands import Panels, Rows, flat, panels_from, rows_from
from ..products.register_tile import TILE_ROWS, RegisterTile, panel_width
from ..products.tile_steps import (
    STEPS,
    add_products,
    column_of,
    each_run,
    fetch_results,
    is_one_tile,
    masks_of,
    no_sums,
    steps_of,
    store_sums,
)
from .clipped_tile import Clip, clip_from, flat_clip, limit_sums


@generic
def multiply_shifted(
    a: Rows, b: Array, b_at: int, offsets: Array, first: int, out: Rows, rows: int, inner: int, columns: int, clip: Clip,
    is_limited: bool,
) -> None:  # fmt: skip
    """Compute ``out[i, j] = sum of a[i, k] * b[offsets[first + k] + j]``, limited by ``clip`` if ``is_limited``.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``, at most GROUP_PANELS times the width of a panel; ``k`` below
    ``inner``, in order: the bits of ``multiply_panels``.  Contiguous arrays of one dtype, float32 or float64; ``b_at``: the first
    element.  ``offsets``: an int64 array of one axis.
    """
    for n in static_range(1, TILE_ROWS + 1):
        if rows == n:
            limits = flat_clip(clip, out.data.dtype.type)
            of_taps = from_element(offsets, first)
            shifted_tiles(flat(a), b.reshape(-1), b_at, of_taps, flat(out), n, inner, columns, limits, is_limited)


class _More(NamedTuple):
    offsets: Array
    clip: Clip
    is_limited: bool


@shared
@generic
def shifted_tiles(
    a: Rows, b: Array, at: int, offsets: Array, out: Rows, rows: int, inner: int, columns: int, clip: Clip, is_limited: bool
) -> None:
    """As ``multiply_shifted``, for a static number of rows."""
    across = Panels(b, at, panel_width(b.itemsize), 0)
    each_run(_compute, a, across, out, rows, inner, columns, _More(offsets, clip_from(clip), is_limited))


@generic
def _compute(a: Rows, b: Panels, out: Rows, tile: RegisterTile, inner: int, column: int, end: int, more: _More) -> None:
    keep_out_of_line(), keep_short()
    if is_one_tile(tile, out.data.itemsize):
        _tile(rows_from(a, 0), panels_from(b, column), rows_from(out, column), tile, inner, end - column, more)
    else:
        for first in range(column, end, tile.vectors * tile.lanes):
            _tile(rows_from(a, 0), panels_from(b, first), rows_from(out, first), tile, inner, end - first, more)


@generic
def _tile(a: Rows, b: Panels, out: Rows, tile: RegisterTile, inner: int, columns: int, more: _More) -> None:
    """A tile, whose operands are in arrays that begin with them."""
    masks, steps = masks_of(columns, tile), steps_of(tile, out.data.itemsize, STEPS)
    fetch_results(out, tile)
    sums, whole = no_sums(out, tile), inner & -steps
    for k in range(0, whole, steps):
        _add_steps(sums, a, k, steps, b, more.offsets, masks, tile)
    if steps > 1:
        for k in range(whole, inner):
            _add_steps(sums, a, k, static(1), b, more.offsets, masks, tile)
    if more.is_limited:
        limit_sums(sums, more.clip, tile)
    store_sums(out, sums, masks, tile)


@generic
def _add_steps(
    sums: list[Vector], a: Rows, first: int, steps: int, b: Panels, offsets: Array, masks: list[Mask], tile: RegisterTile
) -> None:
    for n in static_range(steps):
        down = column_of(a.data, a.at + first + n, a.step, tile)
        add_products(sums, down, b, offsets[np.uint64(first + n)], masks, tile)
