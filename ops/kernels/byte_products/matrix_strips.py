"""Strips of a product of bytes by tile registers: 32 rows by 32 columns, or 16 rows by 64 columns, at a time.

The panels are those of ``byte_tile``: 16 steps of a panel are the rows of a register.
"""

from __future__ import annotations

import numpy as np

from ...native.jit.products.operands import Rows
from ...native.matrix_tiles import (
    TILE_BYTES,
    TILE_ROWS,
    add_dots_of_tiles,
    clear_tile,
    configure_tiles,
    describe_tiles,
    load_tile,
    store_tile,
)
from ...native.memory import Array, generic
from ...native.static_values import static, static_range
from ...native.vectors import lanes_below, load_some, splat, store_some
from .byte_tile import COLUMNS, DEPTH, STEP, BytePanels

#: Rows of a strip, at most.
STRIP = 2 * TILE_ROWS
#: The fewest rows that tile registers multiply: fewer take as long as 16.
LEAST_ROWS = 4
#: Steps of a panel in a register, and registers of sums.
_STEPS, _SUMS = TILE_BYTES // DEPTH, 4
#: Steps of which the rows of a tall strip stay in the first cache, beside panels.
_BLOCK = 192


@generic
def takes_strips(rows: int, steps: int) -> bool:
    """Whether strips pay for this many rows, and the steps are those of whole registers."""
    return rows >= LEAST_ROWS and steps > 0 and steps % _STEPS == 0


@generic
def configure_strips(config: Array, rows: int) -> None:
    """Configure the registers for strips of ``rows`` rows: sums, then those of the rows and of panels."""
    if rows > TILE_ROWS:
        more = rows - TILE_ROWS
        describe_tiles(config, (TILE_ROWS, TILE_ROWS, more, more, TILE_ROWS, more, _STEPS, _STEPS))
    else:
        describe_tiles(config, (rows, rows, rows, rows, rows, _STEPS, _STEPS, _STEPS))
    configure_tiles(config)


@generic
def multiply_strip(a: Rows, panels: BytePanels, out: Rows, rows: int, steps: int, columns: int) -> None:
    """Compute whole panels for ``columns`` columns of a strip that the registers are configured for."""
    if rows > TILE_ROWS:
        blocks = (steps + _BLOCK - 1) // _BLOCK
        for block in range(blocks):
            first = block * (steps // _STEPS) // blocks * _STEPS
            end = (block + 1) * (steps // _STEPS) // blocks * _STEPS
            for column in range(0, columns, 2 * COLUMNS):
                if columns - column > COLUMNS:
                    _tall(a, panels, out, first, end, column, static(2))
                else:
                    _tall(a, panels, out, first, end, column, static(1))
    else:
        for column in range(0, columns, _SUMS * COLUMNS):
            count = (columns - column + COLUMNS - 1) // COLUMNS
            for n in static_range(1, _SUMS + 1):
                if n == _SUMS:
                    if count >= n:
                        _wide(a, panels, out, steps, column, n)
                elif count == n:
                    _wide(a, panels, out, steps, column, n)


@generic
def _tall(a: Rows, panels: BytePanels, out: Rows, first: int, end: int, column: int, count: int) -> None:
    """The products of two registers of rows by ``count`` panels, 1 or 2: the steps ``first`` to ``end`` (exclusive)."""
    at, below = panels.at + column // COLUMNS * panels.step, TILE_ROWS * a.step
    if first == 0:
        for tile in static_range(_SUMS):
            clear_tile(tile)
    else:
        for right in static_range(count):
            for down in static_range(2):
                load_tile(
                    2 * down + right, out.data, out.at + down * TILE_ROWS * out.step + column + right * COLUMNS, out.step * 4
                )
    for k in range(first * DEPTH, end * DEPTH, TILE_BYTES):
        load_tile(6, panels.data, at + k * COLUMNS, STEP)
        load_tile(4, a.data, a.at + k, a.step)
        add_dots_of_tiles(0, 4, 6)
        load_tile(5, a.data, a.at + below + k, a.step)
        add_dots_of_tiles(2, 5, 6)
        if count == 2:
            load_tile(7, panels.data, at + panels.step + k * COLUMNS, STEP)
            add_dots_of_tiles(1, 4, 7)
            add_dots_of_tiles(3, 5, 7)
    for j in static_range(count):
        for i in static_range(2):
            store_tile(2 * i + j, out.data, out.at + i * TILE_ROWS * out.step + column + j * COLUMNS, out.step * 4)


@generic
def _wide(a: Rows, panels: BytePanels, out: Rows, steps: int, column: int, count: int) -> None:
    """The products of one register of rows by ``count`` panels, 4 at most."""
    at = panels.at + column // COLUMNS * panels.step
    for tile in static_range(_SUMS):
        clear_tile(tile)
    for k in range(0, steps * DEPTH, TILE_BYTES):
        load_tile(4, a.data, a.at + k, a.step)
        for j in static_range(count):
            load_tile(5 + j % 3, panels.data, at + j * panels.step + k * COLUMNS, STEP)
            add_dots_of_tiles(j, 4, 5 + j % 3)
    for j in static_range(count):
        store_tile(j, out.data, out.at + column + j * COLUMNS, out.step * 4)


@generic
def add_starts(panels: BytePanels, out: Rows, rows: int, columns: int) -> None:
    """Add to sums the starts of their columns, if there are any."""
    if panels.factor != 0:
        zero = splat(np.int32(0), COLUMNS)
        for column in range(0, columns, COLUMNS):
            mask = lanes_below(columns - column, static(COLUMNS))
            starts = load_some(panels.sums, panels.column + column, mask, zero) * splat(np.int32(panels.factor), COLUMNS)
            for i in range(rows):
                at = out.at + i * out.step + column
                store_some(out.data, at, load_some(out.data, at, mask, zero) + starts, mask)
