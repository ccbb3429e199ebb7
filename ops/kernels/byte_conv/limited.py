"""Weights for a CPU that adds up products of two neighbouring bytes in 16 bits: exact for two weights whose sum is a byte.

An entry is a word of weights for each of some rows, and the word of data that it multiplies.  If a sum of two weights of an entry
exceeds a byte, the entry is wide: its weights are stored in 16 bits, the even bytes of a word apart from the odd ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....shape_funcs.defs.convolution.conv import BYTE_BLOCK as BLOCK
from ...native.front_end.llvm import host
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vectors import Vector, load, select, splat, store, sum_of_lanes
from .words import lanes_of_words

#: The words of the weights of a word, and numbers of an entry in a table: the first word of its data, and of its weights.
PARTS, NUMBERS = 2, 2
#: The rows of an entry: of fewer rows, fewer entries are wide.
TOGETHER = 4
#: The bits that the sum of two neighbours has not if it is a byte.
_BEYOND = 0x00800080


@at_compile_time
def limits_weights() -> bool:
    """Whether the CPU has products of bytes for vectors of words that are added up in 16 bits, and no others."""
    return not host.multiplies_bytes(lanes_of_words()) and host.multiplies_limited_bytes(lanes_of_words())


class Entries(NamedTuple):
    """Entries in a table: ``narrow`` ones from ``first`` on, then ``wide`` ones before ``end``.

    ``words`` has their weights; odd bytes are ``apart`` from the even ones of wide entries.
    """

    words: Array
    apart: int
    table: Array
    first: int
    end: int
    narrow: int
    wide: int


@generic
def space_for_entries(words: Array, table: Array, count: int) -> Entries:
    """No entries, at the end of an array of words and of a table, with space for ``count`` entries of TOGETHER rows."""
    end = len(table) - NUMBERS
    return Entries(words, count * TOGETHER, table, end - NUMBERS * count, end, 0, 0)


@generic
def _first_word(space: Entries) -> int:
    """The place of the first word of weights; flags are behind the last one."""
    return len(space.words) - BLOCK - PARTS * space.apart


@generic
def _copied(words: Array, at: int, space: Entries, to: int, rows: int, pitch: int, lanes: int) -> Vector:
    """Copy the words of ``rows`` rows that are ``pitch`` apart; for each lane a number that is not 0 if the entry is wide."""
    found = splat(np.int16(0), 2 * lanes)
    for r in static_range(rows):
        own = load(words, at + r * pitch, lanes)
        store(space.words, to + r * lanes, own)
        sums = ((own.view(np.int16) << 8) >> 8) + (own.view(np.int16) >> 8)
        found = found | (sums ^ (sums >> 15))
    return found.view(np.int32) & _BEYOND


@generic
def _widen(space: Entries, to: int, which: Vector, rows: int, lanes: int) -> None:
    """Store the words of the lanes that are not 0 in ``which`` in 16 bits."""
    is_wide = which != 0
    for r in static_range(rows):
        own = load(space.words, to + r * lanes, lanes)
        odd, even = own.view(np.int16) >> 8, (own.view(np.int16) << 8) >> 8
        store(space.words, to + space.apart + r * lanes, odd.view(np.int32))
        store(space.words, to + r * lanes, select(is_wide, even.view(np.int32), own))


@generic
def _with_entry(space: Entries, data: int, at: int, is_wide: int) -> Entries:
    """The entries with another one; ``is_wide``: 0 or 1.

    It is stored in both places, of which the next entry overwrites one: a branch would be predicted wrong often.
    """
    narrow, wide = space.first + NUMBERS * space.narrow, space.end - NUMBERS * (space.wide + 1)
    space.table[np.uint64(narrow)], space.table[np.uint64(narrow + 1)] = data, at
    space.table[np.uint64(wide)], space.table[np.uint64(wide + 1)] = data, at
    narrow, wide = space.narrow + 1 - is_wide, space.wide + is_wide
    return Entries(space.words, space.apart, space.table, space.first, space.end, narrow, wide)


@generic
def entries_of_steps(words: Array, at: int, steps: int, pitch: int, rows: int, space: Entries) -> Entries:
    """The entries of steps of a word of ``rows`` rows side by side, ``pitch`` words apart."""
    first = _first_word(space)
    for step in range(steps):
        to = first + step * rows
        which = sum_of_lanes(_copied(words, at + step * pitch, space, to, static(1), rows, rows))
        if which != 0:
            _widen(space, to, splat(which, rows), static(1), rows)
        space = _with_entry(space, space.table[np.uint64(step)], to, int(which != 0))
    return space


@generic
def entries_of_blocks(words: Array, at: int, steps: int, depth: int, apart: int, rows: int, space: Entries) -> Entries:
    """The entries of steps of a block, whose rows have ``depth`` words of data ``apart`` from each other."""
    first, block = _first_word(space), static(BLOCK)
    flags = len(space.words) - block
    for step in range(steps):
        to = first + step * rows * block
        which = _copied(words, at + step * block * block, space, to, rows, block, block)
        if sum_of_lanes(which) != 0:
            _widen(space, to, which, rows, block)
        store(space.words, flags, which)
        for word in range(depth):
            data, is_wide = space.table[np.uint64(step)] + word * apart, space.words[np.uint64(flags + word)] != 0
            space = _with_entry(space, data, to + word, int(is_wide))
    return space
