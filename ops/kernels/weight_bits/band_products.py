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
from ...native.vectors import (
    Vector,
    from_element,
    fused_multiply_add,
    hidden,
    keep_order,
    lanes_below,
    load,
    splat,
    store,
    store_some,
)
from .digits import IN_PAIR, PAIRED
from .row_products import Form, Panel, Results, numbers_of, whole_of_digits
from .weight_layout import COLUMNS, MOST_BLOCK, lines_of, parts_of

#: The least bytes that tile registers sum, and the fewest rows of a band, where bytes do not fill a register, where pairs of
#: digits do, and where digits do: the floats of a block take longer than its integers, and fewer rows take as long as 16.
_LEAST_DEPTH, _ROWS_OF_PART, _ROWS_OF_PAIRS, _ROWS_OF_DIGITS = 32, 14, 8, 6
#: The first register of a panel, behind those of sums, one for each digit, and the register of rows.
_OF_PANEL, _OF_ROWS = 3, 7
#: Sums of a tile by digits, at most; bytes of the unpacked numbers of a block of a panel, and sums of two tiles.
_OF_TILE = _OF_PANEL * TILE_ROWS * COLUMNS
NUMBERS, PRODUCTS = COLUMNS * MOST_BLOCK, 2 * _OF_TILE
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


class Tile(NamedTuple):
    """The sums of integers of a tile, its steps, and the sums of the band to which they are added, from the first element on.

    ``rows``: those of the tile, and of the band behind it.
    """

    products: Array
    steps: Array
    sums: Array
    rows: int


class OfPanel(NamedTuple):
    """The scales and the zero points of a block of a panel, of float32."""

    scale: Vector
    zero: Vector


@at_compile_time
def digits_in_tiles(bits: int, block: int, digits: int) -> int:
    """The digits of rows for tile registers: pairs where a register holds the numbers of a block and their 16-fold."""
    return PAIRED if digits == 3 and bits <= 4 and 2 * block <= TILE_BYTES else digits


@at_compile_time
def depth_of(block: int, digits: int) -> int:
    """The bytes of a row that a sum of a block is of."""
    return 2 * block if digits == PAIRED else block


@at_compile_time
def width_of(block: int, digits: int) -> int:
    """The bytes of a row in a register."""
    return min(depth_of(block, digits), TILE_BYTES)


@at_compile_time
def sums_of(digits: int) -> int:
    """The sums of a block of a row."""
    return 2 if digits == PAIRED else digits


@at_compile_time
def uses_tiles(block: int, digits: int) -> bool:
    """Whether tile registers multiply bands of some rows."""
    return has_tiles() and depth_of(block, digits) >= _LEAST_DEPTH


@at_compile_time
def least_rows(block: int, digits: int) -> int:
    """The fewest rows of a band that tile registers multiply."""
    if width_of(block, digits) < TILE_BYTES:
        return _ROWS_OF_PART
    return _ROWS_OF_PAIRS if digits == PAIRED else _ROWS_OF_DIGITS


@generic
def begin_tiles(rows: int, config: Array, block: int, digits: int) -> bool:
    """Whether tile registers multiply bands of this many rows; then they are configured for blocks of a size."""
    begins = False
    if uses_tiles(block, digits):
        begins = rows >= least_rows(block, digits) and may_use_tiles()
        if begins:
            steps = width_of(block, digits) // 4
            heights = (TILE_ROWS, TILE_ROWS, TILE_ROWS, steps, steps, steps, steps, TILE_ROWS)
            # the last register has rows of the data
            widths = (TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, width_of(block, digits))
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
def first_of_tile(tile: int, number: int, blocks: int, rows: int) -> int:
    """The first row of a tile in a block, in the order of ``Digits``."""
    top = tile * TILE_ROWS
    return top * blocks + number * next_rows(top, rows)


@generic
def unpack_block(first: Panel, block: int, numbers: Array, form: Form) -> None:
    """Write the numbers of a block as bytes; ``block`` counts from the first of the panel ``first`` on."""
    lines, parts = lines_of(form.bits, form.block), parts_of(form.bits)
    for line in range(lines):
        at = (block * lines + line) * TILE_BYTES
        fetch(first.weight, at + _AHEAD)
        packed = load(first.weight, at, TILE_BYTES)
        for part in static_range(parts):
            own, to = numbers_of(packed, part, form.bits), (line * parts + part) * TILE_BYTES
            store(numbers, to, own)
            if form.digits == PAIRED:
                store(numbers, to + form.block * COLUMNS, (own.view(np.uint32) * IN_PAIR).view(np.uint8))


@generic
def load_block(numbers: Array, form: Form) -> None:
    """Load the unpacked numbers of a block into the registers of panels."""
    width = width_of(form.block, form.digits)
    for n in static_range(depth_of(form.block, form.digits) // width):
        load_tile(_OF_PANEL + n, numbers, n * width * COLUMNS, TILE_BYTES)


@generic
def begin_sum(words: Array, at: int, one: int, form: Form) -> None:
    """Compute a sum of 16 rows with the block in the registers, in a register."""
    depth, width = depth_of(form.block, form.digits), width_of(form.block, form.digits)
    clear_tile(one)
    for n in static_range(depth // width):
        load_tile(static(_OF_ROWS), words, at + one * (depth // 4) + n * (width // 4), form.block * form.digits)
        add_signed_dots_of_tiles(one, static(_OF_ROWS), _OF_PANEL + n)


@generic
def end_sum(products: Array, to: int, one: int) -> None:
    """Store a sum of the tile whose sums begin at element ``to``."""
    store_tile(one, products, to + one * TILE_ROWS * COLUMNS, static(TILE_BYTES))


@generic
def add_row(tile: Tile, of_panel: OfPanel, row: int, form: Form) -> None:
    """Add the products of a row of a tile to the sums of the band."""
    of_digits = [load(tile.products, (n * TILE_ROWS + row) * COLUMNS, COLUMNS) for n in static_range(sums_of(form.digits))]
    total = whole_of_digits(of_digits, static(0), form.digits)
    total = fused_multiply_add(of_panel.zero, splat(tile.steps[np.uint64(2 * row + 1)], COLUMNS), total)
    known, step = load(tile.sums, row * COLUMNS, COLUMNS), of_panel.scale * splat(tile.steps[np.uint64(2 * row)], COLUMNS)
    store(tile.sums, row * COLUMNS, fused_multiply_add(total, step, known))


@generic
def add_rows(tile: Tile, of_panel: OfPanel, low: int, high: int, form: Form) -> None:
    """Add the products of the rows of a tile from ``low`` on, up to ``high``, to the sums of the band."""
    if high <= tile.rows:
        for row in static_range(low, high):
            add_row(tile, of_panel, row, form)
    else:
        for row in range(low, tile.rows):
            add_row(tile, of_panel, row, form)


@generic
def add_tile(tile: Tile, of_panel: OfPanel, words: Array, words_at: int, products: Array, to: int, form: Form) -> None:
    """Add the products of a tile to the sums of the band, while the registers multiply the following tile.

    Instructions of both stand in turns: they are of different parts of the CPU.  ``words_at``, ``to``: of the following tile.
    """
    count = sums_of(form.digits)
    for n in static_range(2 * count):
        if n < count:
            begin_sum(words, words_at, n, form)
        else:
            end_sum(products, to, n - count)
        keep_order()
        add_rows(tile, of_panel, n * TILE_ROWS // (2 * count), (n + 1) * TILE_ROWS // (2 * count), form)
        keep_order()


@generic
def multiply_group(band: Band, first: Panel, buffers: Buffers, to: Results, form: Form) -> None:
    """The results of a band in a group of panels, of which ``first`` is the first."""
    keep_out_of_line()
    panels, tiles, blocks = (to.columns + COLUMNS - 1) // COLUMNS, (to.rows + TILE_ROWS - 1) // TILE_ROWS, first.blocks
    of_row, of_panel, products_at, row_at = form.block // 4 * form.digits, tiles * TILE_ROWS * COLUMNS, 0, 0
    for at in range(0, panels * of_panel, COLUMNS):
        store(buffers.sums, at, splat(np.float32(0), static(COLUMNS)))
    unpack_block(first, 0, buffers.numbers, form)
    load_block(buffers.numbers, form)
    for one in static_range(sums_of(form.digits)):
        begin_sum(band.words, 0, one, form)
        end_sum(buffers.products, 0, one)
    for number in range(blocks):
        for panel in range(panels):
            block, following_panel, following_number = panel * blocks + number, panel + 1, number
            if following_panel == panels:
                following_panel, following_number = 0, min(number + 1, blocks - 1)
            unpack_block(first, following_panel * blocks + following_number, buffers.numbers, form)
            scale = load(first.scales, block * COLUMNS, COLUMNS)
            zero = load(first.zeros, block * first.apart, COLUMNS).astype(np.float32)
            for tile in range(tiles):
                following_tile, number_in_tile = tile + 1, number
                if following_tile == tiles:
                    following_tile, number_in_tile = 0, following_number
                    load_block(buffers.numbers, form)
                # an address in a register: an instruction with a sum of two is two for the CPU
                of_tile = Tile(
                    hidden(from_element(buffers.products, products_at)),
                    hidden(from_element(band.steps, 2 * row_at)),
                    hidden(from_element(buffers.sums, panel * of_panel + tile * TILE_ROWS * COLUMNS)),
                    to.rows - tile * TILE_ROWS,
                )
                row_at, products_at = first_of_tile(following_tile, number_in_tile, blocks, to.rows), _OF_TILE - products_at
                add_tile(of_tile, OfPanel(scale, zero), band.words, row_at * of_row, buffers.products, products_at, form)
    for panel in range(panels):
        mask = lanes_below(to.columns - panel * COLUMNS, static(COLUMNS))
        for row in range(to.rows):
            known = load(buffers.sums, panel * of_panel + row * COLUMNS, static(COLUMNS))
            store_some(to.data, to.at + row * to.step + panel * COLUMNS, known, mask)
