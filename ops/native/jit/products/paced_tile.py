"""A tile of a product that fetches panels with other tiles: each of them a share, a few lines at a time.

Tiles of narrow vectors read the panels of a group one after the other.  A tile that fetched all lines of a panel would ask for
one in six cycles, more than third caches and memories deliver; the tiles after it would fetch nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...inlining import keep_out_of_line, keep_short, shared
from ...memory import Array, generic
from ...prefetch import fetch, fetch_early
from ...static_values import at_compile_time, static, static_range
from ...vectors import Mask, Vector, from_element, hidden, keep_order, splat
from .operands import Paced, Panels, Rows, flat, panels_from, rows_from
from .register_tile import GROUP_PANELS, TILE_ROWS, RegisterTile, panel_width, reading_packed, register_tile
from .tile_steps import (
    FETCH_ROWS,
    add_products,
    column_of,
    each_run,
    fetch_results,
    is_one_tile,
    load_sums,
    masks_of,
    no_sums,
    steps_of,
    store_sums,
)

#: Steps along the inner axis in one iteration.  A tile of 6 rows by 2 registers takes 3 % less time than with 4.
_STEPS = 8
#: A tile asks for lines of its rows, about one line ahead: of this many rows in turn, a part of a line apart.  Rows some KB apart
#: share a set of the first cache, where lines of all rows at a time come late.
_ROWS_IN_TURN = 4
#: The fewest rows of such a tile.
_ASKING_ROWS = 4
#: Rows at fixed places from one pointer: an address is the sum of a pointer, a multiple of a distance (1 or 2) and a constant.
_ROWS_OF_POINTER = 3
#: The rows of the next tile that a tile of each panel fetches, until it has all of them.
_ROWS_OF_PANEL = (TILE_ROWS + GROUP_PANELS - 1) // GROUP_PANELS
#: The fewest rows of a tile that fetches rows: many rows are divided among tiles of so many or more.
_MANY_ROWS = TILE_ROWS - 1
#: Lines of all panels that a tile fetches in an iteration with other tiles: for more, addresses do not fit registers.
_LINES = 8


@at_compile_time
def spans_group() -> bool:
    """Whether a tile of TILE_ROWS rows spans a group of panels: with the registers of AVX-512."""
    return register_tile(4, TILE_ROWS).width == GROUP_PANELS * panel_width(4)  # for every size of elements: bytes count


@generic
def multiply_paced(a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, add: int, ahead: Paced) -> None:
    """Compute as ``multiply_panels``, of panels whose rows follow each other; meanwhile fetch what is ``ahead``."""
    for n in static_range(1, TILE_ROWS + 1):
        if rows == n:
            of_panels = Panels(panels.data.reshape(-1), panels.at, panels.step, panel_width(out.data.itemsize))
            paced_tiles(flat(a), of_panels, flat(out), n, inner, columns, add, ahead)


class _More(NamedTuple):
    add: int
    ahead: Paced


@shared
@generic
def paced_tiles(a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, add: int, ahead: Paced) -> None:
    """As ``multiply_paced``, for a static number of rows, and panels with a static width."""
    each_run(_tiles, a, panels, out, rows, inner, columns, _More(add, ahead))


@generic
def _tiles(a: Rows, panels: Panels, out: Rows, tile: RegisterTile, inner: int, column: int, end: int, more: _More) -> None:
    """The tiles of a run."""
    keep_out_of_line(), keep_short()
    here = rows_from(a, 0)
    if is_one_tile(tile, out.data.itemsize):
        _tile(here, panels_from(panels, column), rows_from(out, column), tile, inner, end - column, column, more)
    else:
        for first in range(column, end, tile.vectors * tile.lanes):
            _tile(here, panels_from(panels, first), rows_from(out, first), tile, inner, end - first, first, more)


@generic
def _tile(a: Rows, panels: Panels, out: Rows, tile: RegisterTile, inner: int, columns: int, column: int, more: _More) -> None:
    """A tile from column ``column`` of a group on, whose operands are in arrays that begin with them."""
    masks, steps = masks_of(columns, tile), steps_of(tile, out.data.itemsize, _STEPS)
    _fetch_results(out, tile, steps, more.ahead)
    sums = no_sums(out, tile)
    if more.add != 0:
        load_sums(sums, out, masks, tile)
    whole, (elements, pace, rows) = inner & -steps, more.ahead
    if tile.rows >= FETCH_ROWS and pace != 0:
        if steps > 1 and pace * steps <= panels.row:  # an iteration goes along one line at most, and fetches one
            _iterate(sums, a, whole, steps, panels, masks, tile, elements, pace, static(1), [])
        else:
            _iterate(sums, a, whole, steps, panels, masks, tile, elements, pace, static(_LINES), [])
    elif tile.rows >= _MANY_ROWS and steps > 1 and rows != 0 and column // panels.row * _ROWS_OF_PANEL < TILE_ROWS:
        later = rows_from(a, rows + column // panels.row * _ROWS_OF_PANEL * a.step)
        later_rows = [from_element(later.data, later.at + i * later.step) for i in static_range(_ROWS_OF_PANEL)]
        _iterate(sums, a, whole, steps, panels, masks, tile, 0, 0, static(0), later_rows)
    else:
        _iterate(sums, a, whole, steps, panels, masks, tile, 0, 0, static(0), [])
    if steps > 1:
        for k in range(whole, inner):
            down = column_of(a.data, a.at + k, a.step, tile)
            add_products(sums, down, panels, k * panels.row, masks, reading_packed(tile))
    store_sums(out, sums, masks, tile)


@generic
def _fetch_results(out: Rows, tile: RegisterTile, steps: int, ahead: Paced) -> None:
    """Ask for the results of the next tile if its rows are fetched, else for those of this one."""
    if steps > 1 and ahead.rows != 0:
        fetch_results(rows_from(out, tile.rows * out.step), tile)
    else:
        fetch_results(out, tile)


@generic
def _iterate(
    sums: list[Vector], a: Rows, whole: int, steps: int, panels: Panels, masks: list[Mask], tile: RegisterTile, ahead: int,
    pace: int, lines: int, later_rows: list[Array],
) -> None:  # fmt: skip
    """Add the products of ``whole`` steps; each iteration fetches a static number of lines of panels.

    And a line of one of the ``later_rows`` in turn: an iteration goes along half a line of each.

    Rows of an iteration of several steps are at fixed places from a few pointers, which go along with the steps.  Pointers to all
    rows take more instructions, and as many registers as the machine has.
    """
    going = [from_element(a.data, a.at + i * a.step) for i in static_range(0, tile.rows, _ROWS_OF_POINTER)]
    count = max(1, tile.vectors * tile.lanes // panel_width(panels.data.itemsize))
    fetched = [from_element(panels.data, panels.at + panel * panels.step + ahead) for panel in static_range(count)]
    later, line = [from_element(row, 0) for row in later_rows], panel_width(a.data.itemsize)
    for k in range(0, whole, steps):
        if steps == 1:
            down = column_of(a.data, a.at + k, a.step, tile)
            add_products(sums, down, panels, k * panels.row, masks, reading_packed(tile))
        else:
            going = [hidden(rows) for rows in going]
            for n in static_range(steps):
                down = _column_of(going, a.step, n, tile)
                add_products(sums, down, panels, (k + n) * panels.row, masks, reading_packed(tile))
                _ask_for_rows(going, a.step, n, steps, tile)
                keep_order()  # loads of later steps wait in registers that the sums need
            going = [from_element(rows, steps) for rows in going]
        if lines > 0:
            fetched = [hidden(panel) for panel in fetched]
            _fetch_panels(fetched, steps, pace, lines)
            fetched = [from_element(panel, steps * pace) for panel in fetched]
        if len(later_rows) > 0:
            later = [hidden(row) for row in later]
            fetch_early(later[0], 0)
            later = [*later[1:], from_element(later[0], line)]


@generic
def _column_of(going: list[Array], step: int, k: int, tile: RegisterTile) -> list[Vector]:
    """The elements of a column, each in all lanes of a vector; every pointer has the first of _ROWS_OF_POINTER rows."""
    positions = [i % _ROWS_OF_POINTER * step + k for i in static_range(tile.rows)]
    return [splat(going[i // _ROWS_OF_POINTER][np.uint64(positions[i])], tile.lanes) for i in static_range(tile.rows)]


@generic
def _ask_for_rows(going: list[Array], step: int, first: int, steps: int, tile: RegisterTile) -> None:
    """Ask for a line of a row, about a line ahead of the iteration, in each of the first steps."""
    if tile.rows >= _ASKING_ROWS:
        line = panel_width(going[0].itemsize)
        part = line // _ROWS_IN_TURN
        for i in static_range(first, tile.rows, steps):
            fetch(going[i // _ROWS_OF_POINTER], i % _ROWS_OF_POINTER * step + line - part + i % _ROWS_IN_TURN * part)


@generic
def _fetch_panels(fetched: list[Array], steps: int, pace: int, lines: int) -> None:
    """Fetch lines for the steps of an iteration, from the first element of each array on; no address faults.

    A step of less than a line asks for some lines twice, which takes no time.  Tiles of several panels ask for every second line
    or fewer of each; the machine fetches the others.
    """
    for n in static_range(0, steps, max(1, steps // max(1, lines // len(fetched)))):
        for panel in static_range(len(fetched)):
            fetch_early(fetched[panel], n * pace)
