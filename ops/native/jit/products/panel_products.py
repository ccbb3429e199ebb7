"""Products of a few rows with a group of panels."""

from __future__ import annotations

from typing import NamedTuple

from ...inlining import keep_out_of_line, keep_short, shared
from ...memory import Array, generic
from ...prefetch import fetch_early
from ...static_values import static, static_range
from ...vectors import Mask, Vector, from_element, load, splat, store
from .operands import Ahead, Panels, Rows, flat, flat_panels, rows_from
from .register_tile import TILE_ROWS, RegisterTile, panel_width, reading_packed
from .tile_steps import (
    FETCH_ROWS,
    STEPS,
    add_products,
    column_of,
    each_tile,
    fetch_results,
    fetch_rows,
    load_sums,
    masks_of,
    no_sums,
    steps_of,
    store_sums,
)

#: The most rows of a tile that fetch one line of the panels in an iteration, after which the machine fetches the others: more
#: fetches at a time than it can wait for take longer than they save.
_FETCH_ONE = 4


@generic
def multiply_panels(a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, add: int, ahead: Ahead) -> None:
    """Compute ``out[i, j] = sum of a[i, k] * panels[j / width, k, j % width]``; add it to ``out[i, j]`` if ``add`` is not 0.

    Meanwhile fetch the elements ``ahead``, if there are FETCH_ROWS rows.  ``i`` below ``rows``, at most TILE_ROWS; ``j`` below
    ``columns``; ``k`` below ``inner``, in order.  Contiguous arrays of one dtype, float32 or float64.  Rows of panels are whole
    lines, unless registers are as wide as a line.
    """
    for n in static_range(1, TILE_ROWS + 1):
        if rows == n:
            later = Ahead(ahead.elements, ahead.first, ahead.end, flat(ahead.rows))
            product_tiles(flat(a), flat_panels(panels), flat(out), n, inner, columns, add, later)


@generic
def copy_line(source: Array, at: int, target: Array, to: int) -> None:
    """Copy a row of a panel from element ``at`` to element ``to``.  Arrays of one dtype, or from halves to float32."""
    store(target, to, load(source, at, panel_width(target.itemsize)))


@generic
def clear_line(target: Array, to: int) -> None:
    """Store zeros in a row of a panel from element ``to`` on."""
    store(target, to, splat(target.dtype.type(0), panel_width(target.itemsize)))


@shared
@generic
def product_tiles(a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, add: int, ahead: Ahead) -> None:
    """As ``multiply_panels``, for a static number of rows."""
    each_tile(_begin, rows_from(a, 0), panels, out, rows, inner, columns, _More(add, ahead))


class _More(NamedTuple):
    add: int
    ahead: Ahead


@generic
def _begin(a: Rows, panels: Panels, out: Rows, tile: RegisterTile, inner: int, columns: int, column: int, more: _More) -> None:
    ahead, panel = more.ahead, column // panel_width(out.data.itemsize)
    # the first columns fetch the rows: a request takes time, of lines that are in the cache too
    later = Rows(from_element(ahead.rows.data, ahead.rows.at), 0, ahead.rows.step if column == 0 else 0)
    _compute(a, panels, out, tile, inner, columns, more.add, Ahead(ahead.elements, ahead.first - panel, ahead.end - panel, later))


@generic
def _compute(a: Rows, panels: Panels, out: Rows, tile: RegisterTile, inner: int, columns: int, add: int, ahead: Ahead) -> None:
    """A tile, whose operands are in arrays that begin with them."""
    keep_out_of_line(), keep_short()
    masks, steps = masks_of(columns, tile), steps_of(tile, out.data.itemsize, STEPS)
    fetch_results(out, tile)
    sums, fetched = no_sums(out, tile), _fetched_of_panels(panels, tile, ahead)
    if add != 0:
        load_sums(sums, out, masks, tile)
    whole = inner & -steps
    if tile.rows >= FETCH_ROWS and _is_any_ahead(fetched):
        for k in range(0, whole, steps):
            add_steps(sums, a, k, steps, panels, masks, tile)
            _fetch_panels(panels, fetched, k, steps, tile)
            fetch_rows(ahead.rows, k, steps)
    else:
        add_chunks(sums, a, whole, steps, panels, masks, tile, ahead.rows)
    if steps > 1:
        for k in range(whole, inner):
            add_steps(sums, a, k, static(1), panels, masks, tile)
    store_sums(out, sums, masks, tile)


@generic
def add_steps(sums: list[Vector], a: Rows, first: int, steps: int, panels: Panels, masks: list[Mask], tile: RegisterTile) -> None:
    """Add the products of some steps from step ``first`` on."""
    for n in static_range(steps):
        down = column_of(a.data, a.at + first + n, a.step, tile)
        add_products(sums, down, panels, (first + n) * panels.row, masks, reading_packed(tile))


@generic
def add_chunks(
    sums: list[Vector], a: Rows, whole: int, steps: int, panels: Panels, masks: list[Mask], tile: RegisterTile, later: Rows
) -> None:
    """Add the products of ``whole`` steps, and fetch the rows of the next tile if these are any elements apart.

    A line of each row is fetched with a chunk of as many steps as a line has elements: the steps themselves compute products
    alone.
    """
    if tile.rows >= FETCH_ROWS:
        length, first = panel_width(a.data.itemsize) if later.step != 0 else whole, 0
        while first < whole:
            if later.step != 0:
                for n in static_range(TILE_ROWS):
                    fetch_early(later.data, later.at + first + n * later.step)
            end = min(first + length, whole)
            for k in range(first, end, steps):
                add_steps(sums, a, k, steps, panels, masks, tile)
            first = end
    else:
        for k in range(0, whole, steps):
            add_steps(sums, a, k, steps, panels, masks, tile)


@generic
def _fetched_of_panels(panels: Panels, tile: RegisterTile, ahead: Ahead) -> list[int]:
    """The elements from each panel of a tile to those that it fetches: 0, to its own, where nothing new is fetched."""
    count = max(1, tile.vectors * tile.lanes // panel_width(panels.data.itemsize))
    return [ahead.elements if ahead.first <= panel < ahead.end else 0 for panel in static_range(count)]


@generic
def _is_any_ahead(fetched: list[int]) -> bool:
    """Whether lines of a panel are fetched."""
    wanted = False
    for panel in static_range(len(fetched)):
        wanted = wanted or fetched[panel] != 0
    return wanted


@generic
def _fetch_panels(panels: Panels, fetched: list[int], first: int, steps: int, tile: RegisterTile) -> None:
    """Fetch lines of panels for some steps from step ``first`` on; no address faults."""
    for n in static_range(0, steps, steps if tile.rows <= _FETCH_ONE else 1):
        for panel in static_range(len(fetched)):
            fetch_early(panels.data, panels.at + panel * panels.step + fetched[panel] + (first + n) * panels.row)
