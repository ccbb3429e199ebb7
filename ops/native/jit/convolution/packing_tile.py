"""A tile of a matrix product that packs a panel: it reads rows far apart, and stores the panel for the tiles that follow.

A step along the inner axis has many multiply-adds; the stores of the vectors that it reads take no further time.
"""

from __future__ import annotations

from ...inlining import keep_out_of_line, keep_short
from ...memory import Array, generic
from ...prefetch import fetch_early
from ...static_values import at_compile_time, static, static_range
from ...vectors import Mask, Vector, from_element, store
from ..products.operands import Panels, Rows, flat, rows_from
from ..products.panel_products import add_steps
from ..products.register_tile import TILE_ROWS, RegisterTile, panel_width, register_tile
from ..products.tile_steps import STEPS, across, fetch_results, fetch_rows, load_sums, masks_of, no_sums, steps_of, store_sums
from .clipped_tile import Clip, clip_from, flat_clip, limit_sums

#: The fewest rows of a tile that packs: tiles of fewer have less to compute in a step than to store.
PACKING_ROWS = 5


@at_compile_time
def _tile_of_panel(itemsize: int, rows: int) -> RegisterTile:
    """The tile of ``rows`` rows of a part of a panel, or of a panel."""
    widest = register_tile(itemsize, rows)
    return widest._replace(vectors=min(widest.vectors, panel_width(itemsize) // widest.lanes))


@generic
def multiply_and_pack(
    a: Rows, data: Rows, panels: Array, panel_at: int, out: Rows, rows: int, inner: int, add: int, later: Rows, clip: Clip,
    is_limited: bool,
) -> None:  # fmt: skip
    """Compute ``out[i, j] = sum of a[i, k] * data[k, j]``, added to ``out[i, j]`` if ``add`` is not 0, for a panel's columns.

    If ``is_limited``, sums are limited by ``clip``.

    Store ``data[k, j]`` in the panel that begins at ``panel_at``.  ``i`` below ``rows``, PACKING_ROWS to TILE_ROWS; ``k`` below
    ``inner``, in order: the bits of ``multiply_panels``.  Meanwhile fetch the rows ``later``, and of the data the columns of the
    next panel: a processor fetches no rows on its own that are far apart.  Contiguous arrays of one dtype, float32 or float64.
    """
    for n in static_range(PACKING_ROWS, TILE_ROWS + 1):
        if rows == n:
            tile, panel = _tile_of_panel(out.data.itemsize, n), from_element(panels.reshape(-1), panel_at)
            for column in static_range(0, panel_width(out.data.itemsize), tile.vectors * tile.lanes):
                of_data, of_out = rows_from(flat(data), column), rows_from(flat(out), column)
                of_panel = from_element(panel, column)
                limits = clip_from(flat_clip(clip, out.data.dtype.type))
                of_rows, of_later = rows_from(flat(a), 0), rows_from(flat(later), 0)
                _compute(of_rows, of_data, of_panel, of_out, tile, inner, add, of_later, limits, is_limited)


@generic
def _compute(
    a: Rows, data: Rows, panel: Array, out: Rows, tile: RegisterTile, inner: int, add: int, later: Rows, clip: Clip,
    is_limited: bool,
) -> None:  # fmt: skip
    keep_out_of_line(), keep_short()
    steps, whole_lines = steps_of(tile, out.data.itemsize, STEPS), Panels(data.data, data.at, 0, data.step)
    masks, sums = masks_of(tile.vectors * tile.lanes, tile), no_sums(out, tile)
    fetch_results(out, tile)
    if add != 0:
        load_sums(sums, out, masks, tile)
    whole = inner & -steps
    for k in range(0, whole, steps):
        _pack_steps(sums, a, k, steps, whole_lines, panel, masks, tile)
        fetch_rows(later, k, steps)
    if steps > 1:
        for k in range(whole, inner):
            _pack_steps(sums, a, k, static(1), whole_lines, panel, masks, tile)
    if is_limited:
        limit_sums(sums, clip, tile)
    store_sums(out, sums, masks, tile)


@generic
def _pack_steps(
    sums: list[Vector], a: Rows, first: int, steps: int, data: Panels, panel: Array, masks: list[Mask], tile: RegisterTile
) -> None:
    width = panel_width(panel.itemsize)
    for n in static_range(steps):
        fetch_early(data.data, data.at + (first + n) * data.row + 2 * width - 1)
        add_steps(sums, a, first + n, static(1), data, masks, tile)
        # behind the products: vectors that are loaded before a store, and used behind it, would need more registers
        for j in static_range(tile.vectors):
            store(panel, (first + n) * width + j * tile.lanes, across(data, (first + n) * data.row, j, masks[j], tile))
