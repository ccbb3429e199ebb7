"""The steps of a tile of a product: sums of a few rows of vectors stay in registers.

Each step along the inner axis reads a row of the panels, and one element of each row of the other matrix.  The scheme is that of
Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...memory import Array, generic
from ...prefetch import fetch_early, fetch_to_write
from ...static_values import at_compile_time, static_range
from ...vectors import Mask, Vector, fused_multiply_add, lanes_below, load, load_or_zero, splat, store, store_some
from .operands import Panels, Rows, panels_from, rows_from
from .register_tile import GROUP_PANELS, RegisterTile, panel_width, tiles_of_columns

#: Steps along the inner axis in one iteration of a tile of few sums.
STEPS = 4
#: The most rows of a tile that are fetched in turn: a power of 2.
_TURNS = 8
#: A tile of fewer rows reads panels as fast as caches deliver them: it fetches nothing, which would take longer than it saves.
FETCH_ROWS = 3
#: The most sums of a tile of which an iteration has several steps.  With AVX2 a step of 12 multiply-adds has 10 other
#: instructions then, and 24 without, which take as long as the multiply-adds.  AVX-512 hides them.
_FEW_SUMS = 12


@at_compile_time
def steps_of(tile: RegisterTile, itemsize: int, most: int) -> int:
    """The steps along the inner axis in one iteration: ``most`` for a tile of few sums."""
    rows, vectors, lanes, _ = tile
    return most if lanes < panel_width(itemsize) and rows * vectors <= _FEW_SUMS else 1


@generic
def masks_of(columns: int, tile: RegisterTile) -> list[Mask]:
    """The lanes of each vector that are among the columns."""
    return [lanes_below(columns - j * tile.lanes, tile.lanes) for j in static_range(tile.vectors)]


@generic
def loaded(data: Array, at: int, j: int, mask: Mask, tile: RegisterTile) -> Vector:
    """Vector ``j`` of a row; where the mask of the last one of a part is not set, nothing is read."""
    if tile.is_part and j + 1 == tile.vectors:
        return load_or_zero(data, at, mask)
    return load(data, at, tile.lanes)


@generic
def stored(data: Array, at: int, vector: Vector, j: int, mask: Mask, tile: RegisterTile) -> None:
    """Store vector ``j`` of a row; of the last one of a part only the lanes whose masks are set."""
    if tile.is_part and j + 1 == tile.vectors:
        store_some(data, at, vector, mask)
    else:
        store(data, at, vector)


@generic
def fetch_results(out: Rows, tile: RegisterTile) -> None:
    """Ask for the lines of the results, which arrive while the sums are computed.

    A line that begins in one tile and ends in the next is asked for with the next: by its last element.
    """
    width, line = tile.vectors * tile.lanes, panel_width(out.data.itemsize)
    for i in static_range(tile.rows):
        for end in static_range(min(line, width), width + 1, line):
            fetch_to_write(out.data, out.at + i * out.step + end - 1)


@generic
def no_sums(out: Rows, tile: RegisterTile) -> list[Vector]:
    """Zeros for the sums, row by row."""
    return [splat(out.data.dtype.type(0), tile.lanes)] * (tile.rows * tile.vectors)


@generic
def load_sums(sums: list[Vector], out: Rows, masks: list[Mask], tile: RegisterTile) -> None:
    """Let the sums be the results so far."""
    for i in static_range(tile.rows):
        for j in static_range(tile.vectors):
            sums[i * tile.vectors + j] = loaded(out.data, out.at + i * out.step + j * tile.lanes, j, masks[j], tile)


@generic
def store_sums(out: Rows, sums: list[Vector], masks: list[Mask], tile: RegisterTile) -> None:
    """Store the sums."""
    for i in static_range(tile.rows):
        for j in static_range(tile.vectors):
            stored(out.data, out.at + i * out.step + j * tile.lanes, sums[i * tile.vectors + j], j, masks[j], tile)


@generic
def across(panels: Panels, at: int, j: int, mask: Mask, tile: RegisterTile) -> Vector:
    """Vector ``j`` of a row of panels, which begins at element ``at`` of the first one."""
    width = panel_width(panels.data.itemsize)
    first = panels.at + j * tile.lanes // width * panels.step + j * tile.lanes % width
    return loaded(panels.data, first + at, j, mask, tile)


@generic
def column_of(a: Array, first: int, step: int, tile: RegisterTile) -> list[Vector]:
    """Elements of a column of the rows, ``step`` elements apart, each in all lanes of a vector."""
    return [splat(a[np.uint64(first + i * step)], tile.lanes) for i in static_range(tile.rows)]


@generic
def add_products(sums: list[Vector], down: list[Vector], panels: Panels, at: int, masks: list[Mask], tile: RegisterTile) -> None:
    """Add the products of a column of the rows and the row of the panels that begins at ``at``."""
    if tile.rows < tile.vectors:
        for j in static_range(tile.vectors):
            vector = across(panels, at, j, masks[j], tile)
            for i in static_range(tile.rows):
                sums[i * tile.vectors + j] = fused_multiply_add(down[i], vector, sums[i * tile.vectors + j])
    else:
        row = [across(panels, at, j, masks[j], tile) for j in static_range(tile.vectors)]
        for i in static_range(tile.rows):
            for j in static_range(tile.vectors):
                sums[i * tile.vectors + j] = fused_multiply_add(down[i], row[j], sums[i * tile.vectors + j])


@generic
def fetch_rows(rows: Rows, first: int, steps: int) -> None:
    """Fetch each row of the next tile in turn: a line of it while the steps from ``first`` on go along a line, or half a line."""
    together = max(1, _TURNS * steps // panel_width(rows.data.itemsize))
    apart = steps // together
    along = first & (_TURNS * apart - 1)
    turn = along // apart
    # both are the place of row ``turn``: the first with fewer instructions, the second with fewer registers
    place = first + turn * (rows.step - apart) if together == 1 else (first ^ along) + turn * rows.step
    for n in static_range(together):
        fetch_early(rows.data, rows.at + place + n * rows.step)


@generic
def each_tile(
    compute: Callable[..., None], a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, more: Any
) -> None:
    """Call ``compute`` for each tile: as wide tiles as fit, then a part of a tile.

    A part is one vector, or two of a tile of two; with registers for masks (AVX-512) as many as the columns need: the rows of
    ``a`` are read once for all of them.  Its arguments are the rows, the panels and the results from its first column on, the
    tile, ``inner``, the number of columns from there on, its first column, and ``more``.
    """
    column = 0
    for tile in tiles_of_columns(out.data.itemsize, rows):
        width = tile.vectors * tile.lanes
        if tile.is_part:
            if width - tile.lanes < columns - column <= width:
                compute(a, panels_from(panels, column), rows_from(out, column), tile, inner, columns - column, column, more)
                column = columns
        else:
            while columns - column >= width:
                compute(a, panels_from(panels, column), rows_from(out, column), tile, inner, columns - column, column, more)
                column += width


@at_compile_time
def is_one_tile(tile: RegisterTile, itemsize: int) -> bool:
    """Whether ``each_run`` has one tile in each run: a part, or a tile that spans a group of panels."""
    _, vectors, lanes, is_part = tile
    return is_part or vectors * lanes == GROUP_PANELS * panel_width(itemsize)


@generic
def each_run(
    compute: Callable[..., None], a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, more: Any
) -> None:
    """Call ``compute`` for the tiles of ``each_tile``: once for neighbouring tiles of one width, of which no tile spans a group.

    A call for each would take as long as 3 steps of it more.  Its arguments are the rows, the panels and the results, the tile,
    ``inner``, the first column of the first tile, the column behind the last one, and ``more``.
    """
    column = 0
    for tile in tiles_of_columns(out.data.itemsize, rows):
        width = tile.vectors * tile.lanes
        if tile.is_part:
            if width - tile.lanes < columns - column <= width:
                compute(a, panels, out, tile, inner, column, columns, more)
                column = columns
        elif is_one_tile(tile, out.data.itemsize):
            while columns - column >= width:
                compute(a, panels, out, tile, inner, column, column + width, more)
                column += width
        elif columns - column >= width:
            end = column + (columns - column & -width)
            compute(a, panels, out, tile, inner, column, end, more)
            column = end
