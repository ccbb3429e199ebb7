"""Products of a few rows with panels of few bits: a lane for each column, and the bits read once for all rows of a tile."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...native.inlining import keep_out_of_line
from ...native.memory import Array, generic
from ...native.prefetch import fetch
from ...native.static_values import at_compile_time, static_range
from ...native.vectors import Vector, add_dot_of_bytes, fused_multiply_add, lanes_below, load, splat, store_some
from .digits import OF_PAIR, PAIRED, lanes_of_words
from .weight_layout import COLUMNS, lines_of, parts_of

#: How far ahead of its place a tile fetches packed bits, in bytes: the machine's own fetching begins anew in each page.
_AHEAD = 4096
_LINE = 64
#: The lines of an iteration at most.
_LINES = 4
#: Sums in progress that keep multipliers busy.
_IN_PROGRESS = 8


class Form(NamedTuple):
    """Static facts of a product.  ``digits``: of the rows, 0 for rows of float32; ``rows``: of a tile."""

    bits: int
    block: int
    digits: int
    rows: int


class Panel(NamedTuple):
    """A panel of a matrix of ``blocks`` blocks.

    ``zeros``: the number that stands for 0, by block as the scales, or one row for all blocks; ``apart``: the elements from a
    block to the next, 0 for one row.
    """

    weight: Array
    scales: Array
    zeros: Array
    apart: int
    blocks: int


class Results(NamedTuple):
    """Results of panels: ``rows`` rows of ``columns`` elements from ``at`` on, ``step`` elements apart."""

    data: Array
    at: int
    step: int
    rows: int
    columns: int


@generic
def following(panel: Panel, count: int, form: Form) -> Panel:
    """The panel that is ``count`` panels behind."""
    blocks = count * panel.blocks
    lines = panel.weight[blocks * lines_of(form.bits, form.block) * _LINE :]
    return Panel(lines, panel.scales[blocks * COLUMNS :], panel.zeros[blocks * panel.apart :], panel.apart, panel.blocks)


@at_compile_time
def chains_of(count: int, steps: int) -> int:
    """The sums of each of ``count`` kinds, to which ``steps`` products are added: a single sum waits for the last addition."""
    return 1 if count >= _IN_PROGRESS else min(steps, 1 << (_IN_PROGRESS // count).bit_length() - 1)


@generic
def numbers_of(packed: Vector, part: int, bits: int) -> Vector:
    """The numbers of a part of each byte."""
    if part > 0:
        packed = (packed.view(np.uint32) >> (part * bits)).view(np.uint8)
    return packed & ((1 << bits) - 1) if bits < 8 else packed


@generic
def sums_of_digits(words: Array, at: int, weight: Array, first: int, form: Form) -> list[Vector]:
    """The sums of a block: of int32, for each row and each digit."""
    lanes, parts, lines = lanes_of_words(), parts_of(form.bits), lines_of(form.bits, form.block)
    count, together = form.rows * form.digits, min(lines, _LINES)
    chains = chains_of(count, together * parts)
    sums = [splat(np.int32(0), lanes)] * (count * chains)
    for line in range(0, lines, together):
        for n in static_range(together):
            fetch(weight, first + (line + n) * _LINE + _AHEAD)
            packed, place = load(weight, first + (line + n) * _LINE, 4 * lanes), at + line * parts
            for part in static_range(parts):
                numbers = numbers_of(packed, part, form.bits)
                for k in static_range(count):
                    at_sum = k + (n * parts + part) % chains * count
                    word = words[np.uint64(place + k * (form.block // 4) + n * parts + part)]
                    sums[at_sum] = add_dot_of_bytes(sums[at_sum], numbers, splat(word, lanes).view(np.int8))
    for chain in static_range(1, chains):
        for k in static_range(count):
            sums[k] = sums[k] + sums[chain * count + k]
    return sums


@generic
def sums_of_reals(reals: Array, at: int, weight: Array, first: int, zero: Vector, form: Form) -> list[Vector]:
    """The sums of a block: of float32, for each row."""
    lanes, parts, lines = lanes_of_words(), parts_of(form.bits), lines_of(form.bits, form.block)
    chains = max(1, 4 // form.rows)  # a single sum would wait for the last
    sums = [splat(np.float32(0), lanes)] * (form.rows * chains)
    together = min(lines, _LINES)
    for line in range(0, lines, together):
        for n in static_range(together):
            fetch(weight, first + (line + n) * _LINE + _AHEAD)
            packed = load(weight, first + (line + n) * _LINE, 4 * lanes).view(np.uint32)
            place = at + line * parts * 4
            for k in static_range(4 * parts):
                shift = k % 4 * 8 + k // 4 * form.bits
                number = ((packed >> shift) & ((1 << form.bits) - 1)).view(np.int32).astype(np.float32) - zero
                for row in static_range(form.rows):
                    x = splat(reals[np.uint64(place + row * form.block + n * parts * 4 + k)], lanes)
                    at_sum = row + k % chains * form.rows
                    sums[at_sum] = fused_multiply_add(number, x, sums[at_sum])
    for chain in static_range(1, chains):
        for row in static_range(form.rows):
            sums[row] = sums[row] + sums[chain * form.rows + row]
    return sums


@generic
def whole_of_digits(sums: list[Vector], row: int, digits: int) -> Vector:
    """The sum of a row by its digits, of float32; ``sums`` has one for each pair of digits that are in pairs."""
    if digits == PAIRED:
        high, base = sums[row * 2 + 1].astype(np.float32), splat(np.float32(OF_PAIR), len(sums[0]))
        return fused_multiply_add(high, base, sums[row * 2].astype(np.float32))
    total = sums[row * digits + digits - 1].astype(np.float32)
    for digit in static_range(1, digits):
        total = fused_multiply_add(
            total, splat(np.float32(256), len(total)), sums[row * digits + digits - 1 - digit].astype(np.float32)
        )
    return total


@generic
def multiply_panel(given: Array, steps: Array, panel: Panel, out: Array, to: int, step: int, columns: int, form: Form) -> None:
    """The results of a tile in a panel.

    ``given``: the rows of the tile, as digits or as float32.  ``to``, ``step``: the first result, and the elements from one row
    to the next.  ``columns``: those of the panel that have results.
    """
    keep_out_of_line()
    lanes = lanes_of_words()
    lines = lines_of(form.bits, form.block)
    of_row = form.block if form.digits == 0 else form.block // 4 * form.digits
    for first in static_range(0, COLUMNS, lanes):
        sums = [splat(np.float32(0), lanes)] * form.rows
        for block in range(panel.blocks):
            line = block * lines * _LINE
            scale = load(panel.scales, block * COLUMNS + first, lanes)
            zero = load(panel.zeros, block * panel.apart + first, lanes).astype(np.float32)
            if form.digits == 0:
                of_block = sums_of_reals(given, block * form.rows * of_row, panel.weight, line + 4 * first, zero, form)
                for row in static_range(form.rows):
                    sums[row] = fused_multiply_add(of_block[row], scale, sums[row])
            else:
                of_digits = sums_of_digits(given, block * form.rows * of_row, panel.weight, line + 4 * first, form)
                for row in static_range(form.rows):
                    at = 2 * (block * form.rows + row)
                    total = whole_of_digits(of_digits, row, form.digits)
                    total = fused_multiply_add(zero, splat(steps[np.uint64(at + 1)], lanes), total)
                    sums[row] = fused_multiply_add(total, scale * splat(steps[np.uint64(at)], lanes), sums[row])
        for row in static_range(form.rows):
            store_some(out, to + row * step + first, sums[row], lanes_below(columns - first, lanes))
