"""Products of rows in digits with panels of few bits, on a CPU that adds up two products of bytes in 16 bits at most.

Numbers of 4 bits are small enough that 16 bits hold the sum of 16 products with digits: sums of 16 bits are added up to those of
32 bits once for several lines.  Results have the bits of ``row_products.multiply_panel``: the integers are exact, and the floats
are computed in the same order.
"""

from __future__ import annotations

import numpy as np

from ...native.front_end.llvm import host
from ...native.inlining import keep_out_of_line, keep_short
from ...native.memory import Array, generic
from ...native.prefetch import fetch
from ...native.static_values import at_compile_time, static_range
from ...native.vectors import (
    Vector,
    add_dot_of_pairs,
    fused_multiply_add,
    lanes_below,
    load,
    splat,
    store_some,
    sums_of_limited_bytes,
)
from .digits import lanes_of_words
from .row_products import Form, Panel, numbers_of, whole_of_digits
from .weight_layout import COLUMNS, lines_of, parts_of

#: The lines whose products are added up in 16 bits at most.
_LINES = 4
#: The largest sum of two products of a digit and a number of one bit, and the largest int16.
_OF_BIT, _MOST = 2 * 128, 2**15 - 1
_AHEAD, _LINE = 4096, 64


@at_compile_time
def limits_products(bits: int) -> bool:
    """Whether 16 bits hold the sums of the products of some lines, and the CPU has an instruction for them."""
    of_pair = _OF_BIT * ((1 << bits) - 1)
    return host.multiplies_limited_bytes(lanes_of_words()) and of_pair * _LINES * parts_of(bits) <= _MOST


@at_compile_time
def vectors_of_tile() -> int:
    """The vectors of columns of a tile: a word of the rows is read once for all of them."""
    return min(2, COLUMNS // lanes_of_words())


@generic
def add_line(pairs: list[Vector], words: Array, at: int, weight: Array, first: int, form: Form) -> None:
    """Add the products of a line to sums of int16, for each vector of columns, each row and each digit."""
    lanes, vectors, count = lanes_of_words(), vectors_of_tile(), form.rows * form.digits
    fetch(weight, first + _AHEAD)
    packed = [load(weight, first + 4 * lanes * i, 4 * lanes) for i in static_range(vectors)]
    for part in static_range(parts_of(form.bits)):
        numbers = [numbers_of(packed[i], part, form.bits) for i in static_range(vectors)]
        for k in static_range(count):
            word = splat(words[np.uint64(at + k * (form.block // 4) + part)], lanes).view(np.int8)
            for v in static_range(vectors):
                pairs[v * count + k] = pairs[v * count + k] + sums_of_limited_bytes(numbers[v], word)


@generic
def sums_of_pairs(words: Array, at: int, weight: Array, first: int, form: Form) -> list[Vector]:
    """The sums of a block: of int32, for each vector of columns, each row and each digit."""
    lanes, parts, lines = lanes_of_words(), parts_of(form.bits), lines_of(form.bits, form.block)
    count, together = vectors_of_tile() * form.rows * form.digits, min(lines, _LINES)
    sums = [splat(np.int32(0), lanes)] * count
    for line in range(0, lines, together):
        pairs = [splat(np.int16(0), 2 * lanes)] * count
        if form.rows * form.digits == 1:
            for n in static_range(together):
                add_line(pairs, words, at + (line + n) * parts, weight, first + (line + n) * _LINE, form)
        else:
            for n in range(line, line + together):
                add_line(pairs, words, at + n * parts, weight, first + n * _LINE, form)
        for k in static_range(count):
            sums[k] = add_dot_of_pairs(sums[k], pairs[k], splat(np.int16(1), 2 * lanes))
    return sums


@generic
def multiply_limited_panel(
    words: Array, steps: Array, panel: Panel, out: Array, to: int, step: int, columns: int, form: Form
) -> None:
    """As ``row_products.multiply_panel``, of rows in digits."""
    keep_out_of_line()
    if form.rows * form.digits > 1:
        keep_short()
    lanes, vectors, rows = lanes_of_words(), vectors_of_tile(), form.rows
    of_line, of_row = lines_of(form.bits, form.block) * _LINE, form.block // 4 * form.digits
    for first in static_range(0, COLUMNS, lanes * vectors):
        sums = [splat(np.float32(0), lanes)] * (vectors * rows)
        for block in range(panel.blocks):
            of_digits = sums_of_pairs(words, block * rows * of_row, panel.weight, block * of_line + 4 * first, form)
            for v in static_range(vectors):
                scale = load(panel.scales, block * COLUMNS + first + v * lanes, lanes)
                zero = load(panel.zeros, block * panel.apart + first + v * lanes, lanes).astype(np.float32)
                for row in static_range(rows):
                    at = 2 * (block * rows + row)
                    total = whole_of_digits(of_digits, v * rows + row, form.digits)
                    total = fused_multiply_add(zero, splat(steps[np.uint64(at + 1)], lanes), total)
                    own = scale * splat(steps[np.uint64(at)], lanes)
                    sums[v * rows + row] = fused_multiply_add(total, own, sums[v * rows + row])
        for v in static_range(vectors):
            for row in static_range(rows):
                mask = lanes_below(columns - first - v * lanes, lanes)
                store_some(out, to + row * step + first + v * lanes, sums[v * rows + row], mask)
