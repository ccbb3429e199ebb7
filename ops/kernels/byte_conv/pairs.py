"""Products of bytes on a CPU that multiplies no bytes: the 4 bytes of a word are two pairs of 16 bits, the even and the odd ones.

Weights become pairs once for all positions of a region, behind the planes of words; data become pairs as they are loaded.
"""

from __future__ import annotations

import numpy as np

from ...native.front_end.llvm import host
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static
from ...native.vectors import Vector, add_dot_of_pairs, lanes_below, load_or_zero, shuffle, splat, store
from .words import lanes_of_words

#: The words of pairs of a word.
PAIRS = 2


@at_compile_time
def multiplies_pairs() -> bool:
    """Whether the CPU has no products of bytes for vectors of words."""
    return not host.multiplies_bytes(lanes_of_words())


@at_compile_time
def in_turn(lanes: int, first: int) -> tuple[int, ...]:
    """The lanes of two vectors in turn, from lane ``first`` on."""
    return tuple(first + n // PAIRS + n % PAIRS * lanes for n in range(lanes))


@generic
def place_pairs(words: Array, at: int, count: int, pairs: Array, to: int) -> None:
    """Store the pairs of ``count`` words of weights, the even ones of a word before its odd ones, and any words behind them."""
    lanes = lanes_of_words()
    for i in range(0, count, lanes):
        halves = load_or_zero(words, at + i, lanes_below(count - i, lanes)).view(np.int16)
        even, odd = ((halves << 8) >> 8).view(np.int32), (halves >> 8).view(np.int32)
        store(pairs, to + PAIRS * i, shuffle(even, odd, in_turn(lanes, static(0))))
        store(pairs, to + PAIRS * i + lanes, shuffle(even, odd, in_turn(lanes, lanes // PAIRS)))


@generic
def even_pairs(data: Vector) -> Vector:
    """The even bytes of vectors of words of data."""
    return (data.view(np.uint16) & 255).view(np.int16)


@generic
def odd_pairs(data: Vector) -> Vector:
    """The odd bytes of vectors of words of data."""
    return (data.view(np.uint16) >> 8).view(np.int16)


@generic
def add_pairs(total: Vector, even: Vector, odd: Vector, pairs: Array, at: int) -> Vector:
    """Add to each lane of ``total`` the products of its bytes by the weights whose pairs are ``at`` a place."""
    lanes = lanes_of_words()
    total = add_dot_of_pairs(total, even, splat(pairs[np.uint64(at)], lanes).view(np.int16))
    return add_dot_of_pairs(total, odd, splat(pairs[np.uint64(at + 1)], lanes).view(np.int16))
