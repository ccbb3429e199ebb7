"""Products of rows of float32 with a matrix in panels of few bits, on the CPU."""

from __future__ import annotations

from collections.abc import Callable

from ...native.front_end.llvm import host
from ...native.jit.products.register_tile import PANEL_BYTES
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static
from ...native.status import OK
from ...native.vector_registers import registers
from .band_products import Band, Buffers, begin_tiles, digits_in_tiles, end_tiles, multiply_group, next_rows, uses_tiles
from .digits import Digits, Rows, copy_rows, write_digits
from .limited_products import limits_products, multiply_limited_panel
from .row_products import Form, Panel, Results, following, multiply_panel
from .weight_layout import COLUMNS, lines_of

#: Panels of a block of the result, and rows of a band, whose digits are written at once.
GROUP_PANELS, BAND_ROWS = 4, 64
#: The rows of tiles with 32 registers, by the number of digits: the largest is the fastest of those measured, and each takes a
#: part of a second to compile.
_HEIGHTS = {0: (1, 2, 4), 1: (1, 2, 4, 8), 3: (1, 2, 4, 6)}
#: The rows of tiles of sums in 16 bits.
_LIMITED_HEIGHTS = {1: (1, 2, 4), 3: (1, 2)}


@at_compile_time
def adds_dots() -> bool:
    """Whether this machine adds dot products of bytes by one instruction."""
    return bool(host.features() & {"avx512vnni", "avxvnni"})


@at_compile_time
def multiplies_digits(bits: int) -> bool:
    """Whether this machine multiplies rows in digits, and numbers of so many bits, by products of bytes."""
    return adds_dots() or limits_products(bits)


@at_compile_time
def heights(bits: int, digits: int) -> tuple[int, ...]:
    """The rows of tiles: registers hold the sums of all digits.

    A machine that has digits multiplies rows of float32 in rare cases only: not worth the code of tiles.
    """
    if digits == 0 and multiplies_digits(bits):
        return (1,)
    if digits > 0 and not adds_dots():
        return _LIMITED_HEIGHTS[digits]
    all_heights = _HEIGHTS[digits]
    return tuple(height for height in all_heights if height * 32 <= all_heights[-1] * registers()[0])


@generic
def height_of(rest: int, bits: int, digits: int) -> int:
    """The rows of the next tile of ``rest`` rows, at least one: as many as fit."""
    found = 1
    for height in heights(bits, digits):
        if height <= rest:
            found = height
    return found


@generic
def dense_bits_rows(
    data: Array, weight: Array, scales: Array, zeros: Array, out: Array, low: int, high: int, words: Array, reals: Array,
    steps: Array, config: Array, numbers: Array, products: Array, sums: Array, finish: Callable[..., None], argv: int, bits: int,
    block: int, digits: int,
) -> int:  # fmt: skip
    """The blocks ``low`` to ``high`` (exclusive) of ``out[m, n] = data[m, k] @ W[n, k]^T``.

    A block is a band of rows by a group of panels, finished by the epilogue (see ``codegen.cpu.epilogue``).
    Rows with elements that are not finite, and rows on a machine that multiplies no digits, are multiplied as float32.
    """
    m, n = out.shape
    panels, blocks = weight.shape[0], weight.shape[1]
    groups, bands = (panels + GROUP_PANELS - 1) // GROUP_PANELS, (m + BAND_ROWS - 1) // BAND_ROWS
    written, in_digits, apart = -1, False, COLUMNS if zeros.size > COLUMNS else 0
    of_lines, of_scales, of_zeros, results = weight.reshape(-1), scales.reshape(-1), zeros.reshape(-1), out.reshape(-1)
    form, of_tiles = Form(bits, block, digits, static(0)), Form(bits, block, digits_in_tiles(bits, block, digits), static(0))
    by_tiles = begin_tiles(m // max(bands, 1), config, block, of_tiles.digits)
    for number in range(low, high):
        band, group = number // groups, number % groups
        begin, end = band * m // bands, (band + 1) * m // bands
        if band != written:
            written, in_digits = band, write_band(data, begin, end, words, reals, steps, blocks, form, of_tiles, by_tiles)
        at, column = group * GROUP_PANELS * blocks, group * GROUP_PANELS * COLUMNS
        lines = of_lines[at * lines_of(bits, block) * PANEL_BYTES :]
        first = Panel(lines, of_scales[at * COLUMNS :], of_zeros[at * apart :], apart, blocks)
        to = Results(results, begin * n + column, n, end - begin, min(GROUP_PANELS * COLUMNS, n - column))
        if not in_digits:
            multiply_panels(reals, steps, first, to, Form(bits, block, static(0), static(0)))
        elif not by_tiles:
            if multiplies_digits(bits):
                multiply_panels(words, steps, first, to, form)
        elif uses_tiles(block, of_tiles.digits):
            multiply_group(Band(words, steps), first, Buffers(config, numbers, products, sums), to, of_tiles)
        finish(argv, to.at, to.rows, to.columns)
    if by_tiles:
        end_tiles()
    return OK


@generic
def write_band(
    data: Array,
    begin: int,
    end: int,
    words: Array,
    reals: Array,
    steps: Array,
    blocks: int,
    form: Form,
    of_tiles: Form,
    by_tiles: bool,
) -> bool:
    """The rows of a band, tile by tile, in the form that tiles read; whether that is digits."""
    k, count, elements, block = data.shape[1], end - begin, data.reshape(-1), form.block
    in_digits = multiplies_digits(form.bits)
    if multiplies_digits(form.bits):
        top = 0
        while top < count:
            height = next_rows(top, count) if by_tiles else height_of(count - top, form.bits, form.digits)
            of_row = block // 4 * (of_tiles.digits if by_tiles else form.digits)
            to, rows = Digits(words[top * blocks * of_row :], steps[top * blocks * 2 :]), Rows(elements, (begin + top) * k, k)
            if by_tiles:
                if not write_digits(rows, height, to, blocks, block, of_tiles.digits):
                    in_digits = False
            elif not write_digits(rows, height, to, blocks, block, form.digits):
                in_digits = False
            top += height
    if not in_digits:
        top = 0
        while top < count:
            rows, height = Rows(elements, (begin + top) * k, k), height_of(count - top, form.bits, static(0))
            copy_rows(rows, height, reals[top * blocks * block :], steps[top * blocks * 2 :], blocks, block)
            top += height
    return in_digits


@generic
def multiply_panels(given: Array, steps: Array, first: Panel, to: Results, form: Form) -> None:
    """The results of a group of panels, of which ``first`` is the first, panel by panel and tile by tile."""
    of_row = first.blocks * (form.block if form.digits == 0 else form.block // 4 * form.digits)
    for column in range(0, to.columns, COLUMNS):
        panel, top = following(first, column // COLUMNS, form), 0
        while top < to.rows:
            height = height_of(to.rows - top, form.bits, form.digits)
            of_tile, of_steps = given[top * of_row :], steps[top * first.blocks * 2 :]
            for rows in heights(form.bits, form.digits):
                if height == rows:
                    own, at = Form(form.bits, form.block, form.digits, rows), to.at + top * to.step + column
                    columns = min(COLUMNS, to.columns - column)
                    if form.digits > 0 and not adds_dots():
                        multiply_limited_panel(of_tile, of_steps, panel, to.data, at, to.step, columns, own)
                    else:
                        multiply_panel(of_tile, of_steps, panel, to.data, at, to.step, columns, own)
            top += height
