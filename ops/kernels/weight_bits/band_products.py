"""Products of a band of rows in digits with a group of panels of few bits, by tile registers.

A block of a panel is unpacked to bytes, a register of panels or several, and multiplied by 16 rows at a time.  Results have the
bits of ``row_products.multiply_panel``: the integers are exact, and the floats are computed in the same order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...native.inlining import keep_out_of_line
from ...native.matrix_tiles import (
    TILE_BYTES,
    TILE_ROWS,
    add_signed_dots_of_tiles,
    clear_tile,
    configure_tiles,
    describe_tiles,
    has_tiles,
    load_tile,
    may_use_tiles,
    release_tiles,
    store_tile,
)
from ...native.memory import Array, generic
from ...native.prefetch import fetch
from ...native.static_values import at_compile_time, static, static_range
from ...native.vectors import fused_multiply_add, lanes_below, load, splat, store, store_some
from .row_products import Form, Panel, Results, following, numbers_of, whole_of_digits
from .weight_layout import COLUMNS, MOST_BLOCK, lines_of, parts_of

#: The least block that tile registers multiply, and the fewest rows of a band, by whether a block fills a register: the floats of
#: a block take longer than its integers, and fewer rows take as long as 16.
_LEAST_BLOCK, _LEAST_ROWS = 32, {False: 14, True: 6}
#: The first register of a panel, behind those of sums, one for each digit, and the register of rows.
_OF_PANEL, _OF_ROWS = 3, 7
#: Bytes of the unpacked numbers of a block of a panel, and sums of a tile by digits, at most.
NUMBERS, PRODUCTS = COLUMNS * MOST_BLOCK, _OF_PANEL * TILE_ROWS * COLUMNS
#: How far ahead of its place a panel is fetched, in bytes.
_AHEAD = 2048


class Buffers(NamedTuple):
    """Memory of a call.  ``numbers``: of a block of a panel; ``products``: of a tile; ``sums[panel, row, 16]``: of a band."""

    config: Array
    numbers: Array
    products: Array
    sums: Array


class Band(NamedTuple):
    """Rows in digits, tile after tile (see ``Digits``)."""

    words: Array
    steps: Array


@at_compile_time
def width_of(block: int) -> int:
    """The numbers of a block in a register."""
    return min(block, TILE_BYTES)


@at_compile_time
def uses_tiles(block: int) -> bool:
    """Whether tile registers multiply bands of some rows."""
    return has_tiles() and block >= _LEAST_BLOCK


@at_compile_time
def least_rows(block: int) -> int:
    """The fewest rows of a band that tile registers multiply."""
    return _LEAST_ROWS[block >= TILE_BYTES]


@generic
def begin_tiles(rows: int, config: Array, block: int) -> bool:
    """Whether tile registers multiply bands of this many rows; then they are configured for blocks of a size."""
    begins = False
    if uses_tiles(block):
        begins = rows >= least_rows(block) and may_use_tiles()
        if begins:
            steps = width_of(block) // 4
            heights = (TILE_ROWS, TILE_ROWS, TILE_ROWS, steps, steps, steps, steps, TILE_ROWS)
            # the last register has rows of the data
            widths = (TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, width_of(block))
            describe_tiles(config, heights, widths)
            configure_tiles(config)
    return begins


@generic
def end_tiles() -> None:
    """End the use of the registers."""
    if has_tiles():
        release_tiles()


@generic
def next_rows(top: int, rows: int) -> int:
    """The rows of the tile that begins at row ``top`` of a band."""
    return min(TILE_ROWS, rows - top)


@generic
def unpack_block(panel: Panel, number: int, numbers: Array, form: Form) -> None:
    """Load a block of a panel into the registers of panels."""
    lines, parts, width = lines_of(form.bits, form.block), parts_of(form.bits), width_of(form.block)
    first = number * lines * TILE_BYTES
    for line in range(lines):
        fetch(panel.weight, first + line * TILE_BYTES + _AHEAD)
        packed = load(panel.weight, first + line * TILE_BYTES, TILE_BYTES)
        for part in static_range(parts):
            store(numbers, (line * parts + part) * TILE_BYTES, numbers_of(packed, part, form.bits))
    for n in static_range(form.block // width):
        load_tile(_OF_PANEL + n, numbers, n * width * COLUMNS, TILE_BYTES)


@generic
def multiply_tile(words: Array, at: int, products: Array, form: Form) -> None:
    """The sums of products of 16 rows with the block in the registers, by digits, from ``products`` on."""
    width = width_of(form.block)
    for digit in static_range(form.digits):
        clear_tile(digit)
        for n in static_range(form.block // width):
            load_tile(static(_OF_ROWS), words, at + digit * (form.block // 4) + n * (width // 4), form.block * form.digits)
            add_signed_dots_of_tiles(digit, static(_OF_ROWS), _OF_PANEL + n)
        store_tile(digit, products, digit * TILE_ROWS * COLUMNS, static(TILE_BYTES))


@generic
def add_block(band: Band, panel: Panel, number: int, buffers: Buffers, place: int, rows: int, form: Form) -> None:
    """Add a block of a panel to the sums of the band's rows, from element ``place`` on."""
    unpack_block(panel, number, buffers.numbers, form)
    scale = load(panel.scales, number * COLUMNS, COLUMNS)
    zero = load(panel.zeros, number * panel.apart, COLUMNS).astype(np.float32)
    of_row, top = form.block // 4 * form.digits, 0
    while top < rows:
        count = next_rows(top, rows)
        first, to = top * panel.blocks + number * count, place + top * COLUMNS
        multiply_tile(band.words, first * of_row, buffers.products, form)
        for row in range(count):
            of_digits = [load(buffers.products, (d * TILE_ROWS + row) * COLUMNS, COLUMNS) for d in static_range(form.digits)]
            total = whole_of_digits(of_digits, static(0), form.digits)
            at = np.uint64(2 * (first + row))
            total = fused_multiply_add(zero, splat(band.steps[at + np.uint64(1)], COLUMNS), total)
            known = load(buffers.sums, to + row * COLUMNS, COLUMNS)
            store(buffers.sums, to + row * COLUMNS, fused_multiply_add(total, scale * splat(band.steps[at], COLUMNS), known))
        top += count


@generic
def multiply_group(band: Band, first: Panel, buffers: Buffers, to: Results, form: Form) -> None:
    """The results of a band in a group of panels, of which ``first`` is the first."""
    keep_out_of_line()
    panels, of_panel = (to.columns + COLUMNS - 1) // COLUMNS, to.rows * COLUMNS
    for place in range(0, panels * of_panel, COLUMNS):
        store(buffers.sums, place, splat(np.float32(0), static(COLUMNS)))
    for number in range(first.blocks):
        for panel in range(panels):
            add_block(band, following(first, panel, form), number, buffers, panel * of_panel, to.rows, form)
    for panel in range(panels):
        mask = lanes_below(to.columns - panel * COLUMNS, static(COLUMNS))
        for row in range(to.rows):
            known = load(buffers.sums, panel * of_panel + row * COLUMNS, static(COLUMNS))
            store_some(to.data, to.at + row * to.step + panel * COLUMNS, known, mask)
