"""What a kernel asks about its share of the work: machine code that the texts of kernels call.

A *share* is a SHARE record (see ``layout``).  Whoever runs alone has part 0 of 1, and divides nothing.
"""

from __future__ import annotations

from .layout import SHARE
from .memory import native, record

share_at = record(SHARE)
#: Work that is worth a thread, in the units of ``kernels.cost``, of 0.01 to 0.02 ns each: 20 to 40 us, for to wake a thread
#: takes from 5 to 50.
WORTH_A_THREAD = 2_000_000
#: Parts of the work for each thread: one that is held up leaves its last parts to the others.
PARTS_PER_THREAD = 4


@native
def threads_wanted(share, work, most):
    """How many threads to ask for: 0, unless ``work`` units of work, in ``most`` pieces, are above the limit of the share."""
    limit = share_at(share).limit
    if work <= limit or most < 2:
        return 0
    return min(min(1 + work // max(limit, 1), most), 1 << 20)


@native
def first_of(share, total, grain):
    """The first of ``total`` pieces, by the grain, that belong to the share."""
    s = share_at(share)
    return 0 if s.parts == 1 else boundary(total, s.part, s.parts, grain)


@native
def end_of(share, total, grain):
    """Behind the last of ``total`` pieces, by the grain, that belong to the share."""
    s = share_at(share)
    return total if s.parts == 1 else boundary(total, s.part + 1, s.parts, grain)


@native
def boundary(total, part, parts, grain):
    """Where a part begins: parts differ by one grain at most, and only the last one may end within a grain."""
    grains = (total + grain - 1) // grain
    return min(total, grains * part // parts * grain)


@native
def is_first(share):
    """Is it the first part, the one that has what all parts cannot have at once?"""
    return share_at(share).part == 0


@native
def rows_before(share, piece, inside):
    """How many rows of ``inside`` pieces lie before ``piece``, where a share begins."""
    return 0 if piece == 0 or inside == 0 else piece // inside


@native
def rows_begun(share, piece, inside, rows):
    """How many of all ``rows`` of ``inside`` pieces begin before ``piece``, where a share ends."""
    if share_at(share).parts == 1:
        return rows
    return 0 if inside == 0 else (piece + inside - 1) // inside
