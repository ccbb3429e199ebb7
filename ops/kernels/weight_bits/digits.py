"""Rows of float32 as integers: each block has a step, and each number is written in signed digits to the base of 256.

Three digits hold 24 bits: a number is rounded by 2^-24 of the largest of its block at most, as a sum of float32 is.  One digit
holds 8 bits.  Instructions add four products of a digit and a number of few bits at a time, exactly.

Four digits hold the same 24 bits in pairs of 12 bits: the first of a pair counts 1, the second 16.  A matrix that has each number
of 4 bits and its 16-fold multiplies a pair in one sum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...native.memory import Array, Word, generic
from ...native.static_values import at_compile_time, static_range
from ...native.vector_registers import vector_bytes
from ...native.vectors import Vector, halvings, lanes_below, load_some, select, splat, store, sum_of_lanes

#: The number of digits that are pairs, and the place values of the digits of a pair and of the pairs.
PAIRED, IN_PAIR, OF_PAIR = 4, 16, 4096
#: The integer of the largest number of a block, by the number of digits.  The highest digit has no carry: three digits of 127
#: are 8,355,711, and roundings add a few.
_LARGEST = {1: 127, 3: 8355700, PAIRED: 8355700}
#: The least number that counts as the largest of a block: the reciprocal of a step is finite.
_LEAST = 1e-30
#: The bits of infinity; those of NaN are more.
_INFINITY, _MAGNITUDE = 0x7F800000, 0x7FFFFFFF


class Rows(NamedTuple):
    """Rows of a matrix: the elements from ``at`` on, ``length`` of a row."""

    data: Array
    at: int
    length: int


class Digits(NamedTuple):
    """Rows in digits.

    ``words[block, row, digit, block / 4]``: four digits a word, the lowest digit of numbers first.  ``steps[block, row, 2]``: the
    step of a block, and minus the sum of its integers.
    """

    words: Array
    steps: Array


@at_compile_time
def largest_integer(digits: int) -> int:
    """The integer of the largest number of a block."""
    return _LARGEST[digits]


@at_compile_time
def lanes_of_words() -> int:
    """The lanes of 32 bits of a register."""
    return max(4, vector_bytes() // 4)


@generic
def largest_lane(vector: Vector) -> int:
    """The largest lane."""
    for half in halvings(len(vector)):
        one, other = vector[:half], vector[half:]
        vector = select(one < other, other, one)
    return int(vector[0])


@generic
def part_of_row(rows: Rows, row: int, first: int, lanes: int) -> Vector:
    """The elements from ``first`` on; 0 behind the last one."""
    mask, nothing = lanes_below(rows.length - first, lanes), splat(np.float32(0), lanes)
    return load_some(rows.data, rows.at + row * rows.length + first, mask, nothing)


@generic
def write_digits(rows: Rows, count: Word, to: Digits, blocks: int, block: int, digits: int) -> bool:
    """The digits of ``count`` rows; whether all their elements are finite, else nothing of use is written."""
    lanes = min(lanes_of_words(), block)
    is_finite = True
    for row in range(count):
        for number in range(blocks):
            bits = splat(np.int32(0), lanes)
            for part in static_range(block // lanes):
                of_part = part_of_row(rows, row, number * block + part * lanes, lanes).view(np.int32) & _MAGNITUDE
                bits = select(bits < of_part, of_part, bits)
            top = splat(np.int32(largest_lane(bits)), lanes)
            if top[0] >= _INFINITY:
                is_finite = False
            largest = top.view(np.float32)[0]
            if largest < np.float32(_LEAST):
                largest = np.float32(_LEAST)
            whole = np.float32(largest_integer(digits))
            step, reciprocal = largest / whole, splat(whole / largest, lanes)
            total, place = splat(np.int32(0), lanes), number * count + row
            for part in static_range(block // lanes):
                value = part_of_row(rows, row, number * block + part * lanes, lanes) * reciprocal
                half = select(value < 0.0, splat(np.float32(-0.5), lanes), splat(np.float32(0.5), lanes))
                integers = (value + half).astype(np.int32)
                total = total + integers
                for digit in static_range(digits):
                    lowest = integers
                    if digits == PAIRED and digit % 2 == 0:
                        lowest = integers & (IN_PAIR - 1)
                        integers = integers >> 4
                    elif digit + 1 < digits:
                        lowest = ((integers + 128) & 255) - 128
                        integers = (integers - lowest) >> 8
                    at = (place * digits + digit) * (block // 4) + part * (lanes // 4)
                    store(to.words, at, lowest.astype(np.int8).view(np.int32))
            to.steps[np.uint64(2 * place)] = step
            to.steps[np.uint64(2 * place + 1)] = -np.float32(sum_of_lanes(total))
    return is_finite


@generic
def copy_rows(rows: Rows, count: Word, reals: Array, steps: Array, blocks: int, block: int) -> None:
    """``reals[block, row, :]``: the elements of ``count`` rows, 0 behind the last of a row.

    ``steps``: as of Digits, with steps of 1.
    """
    lanes = min(lanes_of_words(), block)
    for row in range(count):
        for number in range(blocks):
            total, place = splat(np.float32(0), lanes), number * count + row
            for part in static_range(block // lanes):
                value = part_of_row(rows, row, number * block + part * lanes, lanes)
                total = total + value
                store(reals, place * block + part * lanes, value)
            steps[np.uint64(2 * place)] = np.float32(1)
            steps[np.uint64(2 * place + 1)] = sum_of_lanes(total)
