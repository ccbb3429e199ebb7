"""Radix sort, one byte at a time from the lowest: stable, and equally fast for every order of the input.

A key becomes the integer whose bits, as an unsigned number, are in the requested order.  A key of up to 32 bits is packed into
one word with its position; the position of a 64-bit key is stored separately.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...native.memory import Array, Axes, Element, array_int64, array_uint8, array_uint16, array_uint32, fill_bytes, generic

#: Kinds of keys.
UNSIGNED, SIGNED, FLOAT = range(3)
#: The number of counters of ``sort_by_digits``: 256 for each of eight bytes.
COUNTERS = 8 * 256
#: Sign, all bits, infinity: of keys of 8, 16, 32 and 64 bits.
_BITS_8, _BITS_16 = (0x80, 0xFF, 0), (0x8000, 0xFFFF, 0)
_BITS_32 = (0x80000000, 0xFFFFFFFF, 0x7F800000)
_BITS_64 = (-(2**63), -1, 0x7FF0000000000000)


@generic
def kind_of(keys: Array) -> int:
    """The kind of an array, whose first element is overwritten: it becomes NaN, negative, or neither."""
    fill_bytes(keys.ctypes.data, 255, keys.itemsize)
    if keys[0] != keys[0]:
        return FLOAT
    return SIGNED if keys[0] < 0 else UNSIGNED


@generic
def in_order(bits: Element, limits: Axes, kind: int, is_ascend: bool) -> Element:
    """The bits of a key as an unsigned number in the requested order: NaN is the largest, both zeros are equal."""
    sign, most, infinity = limits
    if kind == FLOAT:
        magnitude = bits & (sign ^ most)
        if magnitude > infinity:
            bits = most
        elif magnitude == 0:
            bits = sign
        else:
            bits ^= most if bits & sign else sign
    elif kind == SIGNED:
        bits ^= sign
    return bits if is_ascend else bits ^ most


@generic
def pack_words(words: Array, bits: Array, n: int, limits: Axes, kind: int, is_ascend: bool) -> None:
    """Pack each key above the position, which is already in the word."""
    for i in range(n):
        at = np.uint64(i)
        words[at] |= np.int64(in_order(np.int64(bits[at]), limits, kind, is_ascend)) << 32


@generic
def count_digits(words: Array, counters: Array, n: int, lowest: int, digits: int) -> None:
    """Count the values of each of the ``digits`` from bit ``lowest`` on."""
    for i in range(256 * digits):
        counters[i] = 0
    for i in range(n):
        word = words[np.uint64(i)]
        for d in range(digits):
            counters[np.uint64(256 * d + ((word >> (lowest + 8 * d)) & 255))] += 1


@generic
def begin_digits(counters: Array, at: int) -> None:
    """Replace the counts of a digit's values by the start of each value (exclusive scan)."""
    total = np.int64(0)
    for value in range(256):
        count = counters[at + value]
        counters[at + value] = total
        total += count


@generic
def sort_words(words: Array, spare: Array, counters: Array, n: int, digits: int) -> bool:
    """Sort by the upper 32 bits, of which the lowest ``digits`` bytes differ.  Returns whether the result is in ``spare``."""
    count_digits(words, counters, n, 32, digits)
    in_spare = False
    for d in range(digits):
        shift = 32 + 8 * d
        if counters[256 * d + ((words[0] >> shift) & 255)] == n:
            continue  # all have the same digit
        begin_digits(counters, 256 * d)
        for i in range(n):
            word = words[np.uint64(i)]
            digit = np.uint64(256 * d + ((word >> shift) & 255))
            spare[np.uint64(counters[digit])] = word
            counters[digit] += 1
        words, spare = spare, words
        in_spare = not in_spare
    return in_spare


class Sortable(NamedTuple):
    """Keys, the positions that are permuted with them, and room for as many of both."""

    keys: Array
    order: Array
    spare_keys: Array
    spare_order: Array


@generic
def sort_pairs(column: Sortable, counters: Array, n: int) -> bool:
    """Sort the positions by all bits of the keys.  Returns whether the result is in ``spare_order``."""
    keys, order, spare_keys, spare_order = column
    count_digits(keys, counters, n, 0, 8)
    in_spare = False
    for d in range(8):
        shift = 8 * d
        if counters[256 * d + ((keys[0] >> shift) & 255)] == n:
            continue
        begin_digits(counters, 256 * d)
        for i in range(n):
            key = keys[np.uint64(i)]
            digit = np.uint64(256 * d + ((key >> shift) & 255))
            to = np.uint64(counters[digit])
            spare_keys[to], spare_order[to] = key, order[np.uint64(i)]
            counters[digit] += 1
        keys, spare_keys = spare_keys, keys
        order, spare_order = spare_order, order
        in_spare = not in_spare
    return in_spare


@generic
def sort_by_digits(column: Sortable, counters: Array, n: int, is_ascend: bool) -> None:
    """Sort the first ``n`` (at least 1) positions, each below 2**32, by their keys; the keys are lost."""
    keys, order, spare_keys, spare_order = column
    first = keys[0]
    kind = kind_of(keys)
    keys[0] = first
    address = keys.ctypes.data
    if keys.itemsize == 8:
        bits = array_int64(address, n)
        for i in range(n):
            bits[i] = in_order(bits[i], _BITS_64, kind, is_ascend)
        in_spare = sort_pairs(Sortable(bits, order, array_int64(spare_keys.ctypes.data, n), spare_order), counters, n)
    else:
        if keys.itemsize == 4:
            pack_words(order, array_uint32(address, n), n, _BITS_32, kind, is_ascend)
        elif keys.itemsize == 2:
            pack_words(order, array_uint16(address, n), n, _BITS_16, kind, is_ascend)
        else:
            pack_words(order, array_uint8(address, n), n, _BITS_8, kind, is_ascend)
        in_spare = sort_words(order, spare_order, counters, n, keys.itemsize)
    found = spare_order if in_spare else order
    for i in range(n):
        order[i] = found[i] if keys.itemsize == 8 else found[i] & 0xFFFFFFFF
