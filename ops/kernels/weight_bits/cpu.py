"""Products of rows of float32 with a matrix in panels of few bits, on the CPU."""

from __future__ import annotations

from ...native.front_end.llvm import host
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.status import OK
from .digits import Digits, Rows, copy_rows, write_digits
from .row_products import Form, Packed, multiply_panel
from .weight_layout import COLUMNS

#: The most rows of a tile, panels of a block of the result, and rows of a band, whose digits are written at once.
TILE_ROWS, GROUP_PANELS, BAND_ROWS = 4, 4, 64


@at_compile_time
def adds_dots() -> bool:
    """Whether this machine adds dot products of bytes by one instruction."""
    return bool(host.features() & {"avx512vnni", "avxvnni"})


@generic
def dense_bits_rows(
    data: Array, weight: Array, scales: Array, zeros: Array, out: Array, low: int, high: int, words: Array, reals: Array,
    steps: Array, bits: int, block: int, digits: int,
) -> int:  # fmt: skip
    """The blocks ``low`` to ``high`` (exclusive) of ``out[m, n] = data[m, k] @ W[n, k]^T``.

    A block is a band of rows by a group of panels.
    Rows with elements that are not finite, and rows on a machine without an instruction for bytes, are multiplied as float32.
    """
    m, n = out.shape
    panels, blocks = weight.shape[0], weight.shape[1]
    groups, bands = (panels + GROUP_PANELS - 1) // GROUP_PANELS, (m + BAND_ROWS - 1) // BAND_ROWS
    written, is_exact = -1, False
    packed = Packed(weight.reshape(-1), scales.reshape(-1), zeros.reshape(-1))
    results = out.reshape(-1)
    for number in range(low, high):
        band, group = number // groups, number % groups
        begin, end = band * m // bands, (band + 1) * m // bands
        if band != written:
            written = band
            is_exact = not write_band(data, begin, end, words, reals, steps, blocks, block, digits)
        for panel in range(group * GROUP_PANELS, min((group + 1) * GROUP_PANELS, panels)):
            to, columns = begin * n + panel * COLUMNS, min(COLUMNS, n - panel * COLUMNS)
            if is_exact:
                multiply_tiles(
                    reals,
                    steps,
                    packed,
                    panel,
                    blocks,
                    results,
                    to,
                    n,
                    end - begin,
                    columns,
                    Form(bits, block, static(0), static(0)),
                )
            elif adds_dots():
                multiply_tiles(
                    words,
                    steps,
                    packed,
                    panel,
                    blocks,
                    results,
                    to,
                    n,
                    end - begin,
                    columns,
                    Form(bits, block, digits, static(0)),
                )
    return OK


@generic
def write_band(
    data: Array, begin: int, end: int, words: Array, reals: Array, steps: Array, blocks: int, block: int, digits: int
) -> bool:
    """The rows of a band, tile by tile, in the form that tiles read; whether that is digits."""
    k, count = data.shape[1], end - begin
    elements = data.reshape(-1)
    tiles = (count + TILE_ROWS - 1) // TILE_ROWS
    in_digits = adds_dots()
    if adds_dots():
        for tile in range(tiles):
            top = tile * count // tiles
            rows = Rows(elements, (begin + top) * k, k)
            to = Digits(words[top * blocks * (block // 4 * digits) :], steps[top * blocks * 2 :])
            if not write_digits(rows, (tile + 1) * count // tiles - top, to, blocks, block, digits):
                in_digits = False
    if not in_digits:
        for tile in range(tiles):
            top = tile * count // tiles
            rows, height = Rows(elements, (begin + top) * k, k), (tile + 1) * count // tiles - top
            copy_rows(rows, height, reals[top * blocks * block :], steps[top * blocks * 2 :], blocks, block)
    return in_digits


@generic
def multiply_tiles(
    given: Array, steps: Array, packed: Packed, panel: int, blocks: int, out: Array, to: int, step: int, rows: int, columns: int,
    form: Form,
) -> None:  # fmt: skip
    """The results of ``rows`` rows in a panel, divided evenly among tiles."""
    tiles = (rows + TILE_ROWS - 1) // TILE_ROWS
    of_row = form.block if form.digits == 0 else form.block // 4 * form.digits
    for tile in range(tiles):
        top = tile * rows // tiles
        height = (tile + 1) * rows // tiles - top
        for count in static_range(1, TILE_ROWS + 1):
            if height == count:
                multiply_panel(
                    given[top * blocks * of_row :], steps[top * blocks * 2 :], packed, panel, blocks, out, to + top * step, step,
                    columns, Form(form.bits, form.block, form.digits, count),
                )  # fmt: skip
