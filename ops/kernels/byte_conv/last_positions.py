"""The last positions of a region, which are too few for a vector of positions: sums along vectors of planes.

A vector has the words of the planes of a block at one position, as the rows of a block of weights have.  So a position takes a
small part of the products of a vector of positions, and a sum over the lanes of a vector.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....shape_funcs.defs.convolution.conv import BYTE_BLOCK as BLOCK
from ....shape_funcs.defs.convolution.conv import BYTE_ROWS as ROWS
from ...native.front_end.llvm import host
from ...native.inlining import shared
from ...native.memory import generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vectors import add_dot_of_bytes, load, splat, store, sum_of_lanes
from .limited import PARTS, TOGETHER
from .tile import Reads, Sums, Weights
from .words import lanes_of_words

#: The most positions: their words have the space of entries of weights, which a CPU with products of bytes does not make.
MOST = PARTS * TOGETHER
#: The steps of a block that take the time of a sum over lanes for each row.
_SUM_STEPS = 10


class LastPositions(NamedTuple):
    """``number`` positions from ``place`` of a row of sums on; the words of each are together, from word ``at`` on."""

    number: int
    place: int
    at: int


@at_compile_time
def multiplies_planes() -> bool:
    """Whether the CPU has products of bytes, for vectors that divide a row of a block."""
    return host.multiplies_bytes(lanes_of_words()) and lanes_of_words() <= BLOCK


@generic
def gather_last_positions(reads: Reads, vectors: int, count: int, stream: int, at: int) -> LastPositions:
    """The positions of the last of ``vectors`` vectors, gathered, if they take less time apart; otherwise none.

    ``count``: the positions of the region; ``stream``: the positions in planes, of which as many if no others are between.
    """
    lanes = lanes_of_words()
    number = count - (vectors - 1) * lanes
    is_less = number * (reads.steps + _SUM_STEPS) < reads.steps * reads.depth
    if not multiplies_planes() or count != stream or number < 1 or number > MOST or not is_less:
        return LastPositions(0, 0, at)
    nothing = splat(np.int32(0), static(BLOCK))
    for n in range(number):
        to, place = at + n * reads.steps * BLOCK, count - number + n
        for step in range(reads.steps):
            store(reads.panel, to, nothing)
            here = place + reads.table[np.uint64(step)]
            for word in range(reads.depth):
                reads.panel[np.uint64(to + word)] = reads.panel[np.uint64(here + word * reads.apart)]
            to += BLOCK
    return LastPositions(number, count - number, at)


@shared
@generic
def add_last_positions(reads: Reads, weights: Weights, sums: Sums, last: LastPositions) -> None:
    """Compute the sums of ROWS output channels at the last positions."""
    lanes = lanes_of_words()
    for n in range(last.number):
        at, row = last.at + n * reads.steps * BLOCK, weights.at
        totals = [splat(np.int32(0), lanes)] * ROWS
        for _ in range(reads.steps):
            for part in static_range(0, BLOCK, lanes):
                words = load(reads.panel, at + part, lanes).view(np.uint8)
                for r in static_range(ROWS):
                    own = load(weights.words, row + r * BLOCK + part, lanes).view(np.int8)
                    totals[r] = add_dot_of_bytes(totals[r], words, own)
            at += BLOCK
            row += BLOCK * BLOCK
        for r in static_range(ROWS):
            begin = weights.start[np.uint64(min(weights.first + r, weights.last))]
            sums.data[np.uint64(sums.at + r * sums.pitch + last.place + n)] = begin + sum_of_lanes(totals[r])
