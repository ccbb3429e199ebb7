"""Tiles of a product of unsigned by signed bytes: sums of a few rows of int32 stay in registers.

A panel holds COLUMNS columns of a matrix of signed bytes.  A step of a panel is a cache line: for each column the bytes of DEPTH
places along the inner axis, which one instruction multiplies by as many unsigned bytes of a row and adds up.

Where no instruction does, bytes are multiplied in pairs of 16 bits, those at even places and those at odd ones.  Rows are stored
so before, and a step of a panel is widened once for all rows of a tile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....shape_funcs.defs.products.nn import BYTE_COLUMNS, BYTE_DEPTH
from ...native import vector_registers
from ...native.front_end.llvm import host
from ...native.inlining import shared
from ...native.jit.products.operands import Rows
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vectors import (
    Vector,
    add_dot_of_bytes,
    add_dot_of_pairs,
    from_element,
    hidden,
    keep_order,
    lanes_below,
    load,
    load_some,
    splat,
    store_some,
)

#: Columns of a panel, the places along the inner axis of a step of it, and bytes of a step.
COLUMNS, DEPTH = BYTE_COLUMNS, BYTE_DEPTH
STEP = COLUMNS * DEPTH
#: Sums that must be in progress to keep multipliers busy: fewer are several sums along the inner axis, added up at the end.
_IN_PROGRESS = 8
#: The least bytes of a register for tiles of pairs of 16 bits.
_PAIRED = 32
#: Rows at fixed places from one pointer: an address is the sum of a pointer, a multiple of a distance (1 or 2) and a constant.
_ROWS_OF_POINTER = 3


class BytePanels(NamedTuple):
    """Panels from byte ``at`` on, ``step`` bytes apart, and the sum of each of their columns, from element ``column`` on.

    ``factor``: a sum of products begins with this number times the sum of its column.
    """

    data: Array
    at: int
    step: int
    sums: Array
    column: int
    factor: int


class ByteTile(NamedTuple):
    """A tile of ``rows`` by ``vectors`` registers of ``lanes`` sums, each of them in ``copies``."""

    rows: int
    vectors: int
    lanes: int
    copies: int


@at_compile_time
def row_depth() -> int:
    """The bytes of a row for a step: DEPTH, or twice as many where tiles multiply pairs of 16 bits."""
    nbytes = vector_registers.registers()[1]
    return 2 * DEPTH if nbytes >= _PAIRED and not host.multiplies_bytes(nbytes // 4) else DEPTH


@at_compile_time
def tile_rows() -> int:
    """The most rows of a tile: as many as registers hold beside a step of panels, more with an instruction for bytes."""
    registers, nbytes = vector_registers.registers()
    has_dot = host.multiplies_bytes(nbytes // 4)
    if nbytes == 64:
        return 12 if has_dot else 8
    if nbytes == 32:
        return 6
    return registers // 8


@at_compile_time
def byte_tiles(rows: int) -> tuple[ByteTile, ...]:
    """The tiles of ``rows`` rows, wide ones first: of two panels where a register has the columns of one, and of one panel."""
    lanes = vector_registers.registers()[1] // 4
    of_panel = COLUMNS // lanes
    wide = (2 * of_panel, of_panel) if of_panel == 1 else (of_panel,)
    return tuple(ByteTile(rows, vectors, lanes, max(1, _IN_PROGRESS // (rows * vectors))) for vectors in wide)


@generic
def multiply_bytes(a: Rows, panels: BytePanels, out: Rows, rows: int, steps: int, columns: int) -> None:
    """Compute ``columns`` columns of ``rows`` rows, ``tile_rows`` at most, by panels of ``steps`` steps."""
    for n in static_range(1, tile_rows() + 1):
        if rows == n:
            _row_of_tiles(a, panels, out, n, steps, columns)


@shared
@generic
def _row_of_tiles(a: Rows, panels: BytePanels, out: Rows, rows: int, steps: int, columns: int) -> None:
    """As ``multiply_bytes``, for a static number of rows."""
    column = 0
    for tile in byte_tiles(rows):
        width = tile.vectors * tile.lanes
        while columns - column > width - COLUMNS:
            _tile(a, panels, Rows(out.data, out.at + column, out.step), tile, steps, column, columns - column)
            column += width


@generic
def _tile(a: Rows, panels: BytePanels, out: Rows, tile: ByteTile, steps: int, column: int, columns: int) -> None:
    """The tile from ``column`` on, of which ``columns`` columns are stored."""
    count = tile.rows * tile.vectors
    sums = [splat(np.int32(0), tile.lanes)] * (tile.copies * count)
    for j in static_range(tile.vectors):
        first = j * tile.lanes
        mask = lanes_below(columns - first, tile.lanes)
        of_column = load_some(panels.sums, panels.column + column + first, mask, splat(np.int32(0), tile.lanes))
        start = of_column * splat(np.int32(panels.factor), tile.lanes)
        for i in static_range(tile.rows):
            sums[i * tile.vectors + j] = start
    going = [from_element(a.data, a.at + top * a.step) for top in static_range(0, tile.rows, _ROWS_OF_POINTER)]
    line = from_element(panels.data, panels.at + column // COLUMNS * panels.step)
    whole = steps - steps % tile.copies
    for _ in range(0, whole, tile.copies):
        going = [hidden(rows) for rows in going]
        for copy in static_range(tile.copies):
            _add_step(sums, copy * count, going, a.step, copy * row_depth(), line, copy * STEP, panels.step, tile)
        going = [from_element(rows, tile.copies * row_depth()) for rows in going]
        line = from_element(line, tile.copies * STEP)
    for step in range(steps - whole):
        _add_step(sums, static(0), going, a.step, step * row_depth(), line, step * STEP, panels.step, tile)
    for i in static_range(tile.rows):
        for j in static_range(tile.vectors):
            total = sums[i * tile.vectors + j]
            for copy in static_range(1, tile.copies):
                total = total + sums[copy * count + i * tile.vectors + j]
            mask = lanes_below(columns - j * tile.lanes, tile.lanes)
            store_some(out.data, out.at + i * out.step + j * tile.lanes, total, mask)


@generic
def _add_step(
    sums: list[Vector], first: int, going: list[Array], apart: int, k: int, line: Array, at: int, step: int, tile: ByteTile
) -> None:
    """Add the products of a step to the sums from ``first`` on.

    ``going`` has the first of _ROWS_OF_POINTER rows each, ``apart`` bytes from row to row, ``line`` the first panel.
    """
    lanes = tile.lanes
    if row_depth() > DEPTH:
        for place in static_range(2):  # odd bytes first, for LLVM would add these first
            keep_order()  # and keep the words of both, and put sums in memory
            row = _row_of_panels(line, at, step, tile)
            pairs = [pairs_of(row[n], 1 - place) for n in static_range(tile.vectors)]
            for i in static_range(tile.rows):
                down = _splat_word(going, apart, i, k + (1 - place) * DEPTH, lanes).view(np.int16)
                for j in static_range(tile.vectors):
                    sums[first + i * tile.vectors + j] = add_dot_of_pairs(sums[first + i * tile.vectors + j], down, pairs[j])
    else:
        row = _row_of_panels(line, at, step, tile)
        for i in static_range(tile.rows):
            down = _splat_word(going, apart, i, k, lanes).view(np.uint8)
            for j in static_range(tile.vectors):
                sums[first + i * tile.vectors + j] = add_dot_of_bytes(sums[first + i * tile.vectors + j], down, row[j])


@generic
def _row_of_panels(line: Array, at: int, step: int, tile: ByteTile) -> list[Vector]:
    """A step of panels that are ``step`` bytes apart, in registers."""
    lanes = tile.lanes
    return [
        load(line, at + n * lanes // COLUMNS * step + n * lanes % COLUMNS * DEPTH, lanes * DEPTH)
        for n in static_range(tile.vectors)
    ]


@generic
def _splat_word(going: list[Array], apart: int, row: int, k: int, lanes: int) -> Vector:
    """DEPTH bytes of a row, from byte ``k`` on, in each of ``lanes``."""
    word = load(going[row // _ROWS_OF_POINTER], row % _ROWS_OF_POINTER * apart + k, DEPTH).view(np.int32)[0]
    return splat(word, lanes)


@generic
def pairs_of(row: Vector, is_odd: int) -> Vector:
    """The signed bytes of a vector at even places, or at odd ones, in 16 bits."""
    pairs, byte = row.view(np.int16), splat(np.int16(8), len(row) // 2)
    if is_odd == 0:
        pairs = pairs << byte
    return pairs >> byte
