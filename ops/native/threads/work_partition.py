"""Partition of a kernel's blocks between threads: native functions that the source of kernels calls.

A *part* is the blocks that a thread takes at once; a *stretch* is the neighbouring parts that one thread takes in order, unless
others help; the *grain* is the number of neighbouring blocks that stay together.  A *share* is the SHARE record
(``object_layout``) by which a call of the kernel knows its part; a single thread has part 0 of 1.
"""

from __future__ import annotations

from ..memory import Size, native, record
from ..object_layout import SHARE

share_at = record(SHARE)
#: Work that is worth a thread, in the units of ``codegen.loop_nest.cost``, of 0.01 to 0.02 ns each: 4 to 8 us.
WORTH_A_THREAD = 400_000
#: The factor of the work that is worth a thread that sleeps: to wake it takes 5 to 50 us.
WAKING = 5
#: The most parts for each thread: other threads take the last parts of a delayed one.
PARTS_PER_THREAD = 4
#: The most stretches of parts, each for a thread of its own.
MOST_STRETCHES = 64


@native
def threads_wanted(share: int, work: Size, most: int) -> int:
    """The number of threads to ask for: 0, unless ``work`` units of work, in ``most`` blocks, exceed the limit of the share."""
    limit: int = share_at(share).limit
    if work <= limit or most < 2:
        return 0
    return min(min(1 + work // max(limit, 1), most), 1 << 20)


@native
def grain_of(share: int, total: int, together: int) -> int:
    """The grain of ``total`` blocks if a part prepares once for ``together`` neighbours: the number of these, or 1.

    Neighbours are not divided if there are enough for all parts, or if each stretch has the same number of them: some parts are
    then empty.
    """
    s = share_at(share)
    is_even = together > 1 and total % (together * s.stretches) == 0
    return together if is_even or (together > 1 and total >= s.parts * together) else 1


@native
def first_of(share: int, total: int, grain: int) -> int:
    """The first of ``total`` blocks, by the grain, in the share."""
    s = share_at(share)
    return 0 if s.parts == 1 else boundary(total, s.part, s.parts, s.stretches, grain)


@native
def end_of(share: int, total: int, grain: int) -> int:
    """The end (exclusive) of the blocks in the share, of ``total`` blocks, by the grain."""
    s = share_at(share)
    return total if s.parts == 1 else boundary(total, s.part + 1, s.parts, s.stretches, grain)


@native
def first_of_thread(share: int, total: int, grain: int) -> int:
    """The first of the blocks that the thread of the share computes in order, as far as is known: a stretch, or a part."""
    return edge_of_thread(share, total, grain, 0)


@native
def end_of_thread(share: int, total: int, grain: int) -> int:
    """The end (exclusive) of the blocks of which ``first_of_thread`` is the first."""
    return edge_of_thread(share, total, grain, 1)


@native
def edge_of_thread(share: int, total: int, grain: int, after: int) -> int:
    """The first block of the stretch or part of a thread; with ``after`` 1, the first block after it."""
    s = share_at(share)
    if s.parts == 1:
        return total * after
    together = s.parts // s.stretches if s.own != 0 else 1
    return boundary(total, (s.part // together + after) * together, s.parts, s.stretches, grain)


@native
def boundary(total: int, part: int, parts: int, stretches: int, grain: int) -> int:
    """The first block of a part.  Sizes of stretches differ by one grain at most; only the last part may end within a grain.

    The larger stretches come first.  The parts of a stretch become smaller: of four they are 4, 3, 2 and 1 tenths, in whole
    grains.  So threads take small parts last, and end at about the same time.
    """
    grains, together = (total + grain - 1) // grain, parts // stretches
    stretch, inside = part // together, part % together
    size, larger = grains // stretches, grains % stretches
    first = size * stretch + min(stretch, larger)
    size += 1 if stretch < larger else 0
    units = together * (together + 1)
    before = (size * inside * (2 * together + 1 - inside) + units - 1) // units
    return min(total, (first + before) * grain)


@native
def is_first(share: int) -> bool:
    """Whether this is the first part, which also does the work that cannot be divided."""
    part: int = share_at(share).part
    return part == 0


@native
def rows_before(share: int, block: int, inside: Size) -> int:
    """The number of rows of ``inside`` blocks before ``block``, the first block of a share."""
    return 0 if block == 0 or inside == 0 else block // inside


@native
def rows_begun(share: int, block: int, inside: Size, rows: Size) -> int:
    """The number of all ``rows`` of ``inside`` blocks that begin before ``block``, the end of a share."""
    if share_at(share).parts == 1:
        return rows
    return 0 if inside == 0 else (block + inside - 1) // inside
