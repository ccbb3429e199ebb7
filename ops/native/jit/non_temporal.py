"""Non-temporal stores for results too large for the caches: whole cache lines, written without being read first.

An ordinary store reads the cache line that it changes, so a large result crosses the memory bus twice; and it evicts other data
from the cache.
"""

from __future__ import annotations

from ..inlining import keep_out_of_line
from ..memory import Array, Element, Size, copy_bytes, generic, instruction
from ..vectors import load, store_past_caches
from .marked_accesses import PAST, marked

#: Bytes of a cache line.
LINE_BYTES = 64
#: At the first use of a larger result, the caches would hold little of it.
NON_TEMPORAL_BYTES = 32 << 20
#: Of shorter runs few lines are whole, and plain loops write consecutive runs without a gap.
SHORTEST_RUN_BYTES = 16 * LINE_BYTES


@instruction(lambda e, array, at: e.address(array, at))
def address_of(array: Array, at: int) -> int:
    """The address of element ``at`` of a C-contiguous array."""
    return int(array.ctypes.data) + int(at) * array.itemsize


@generic
def is_line_aligned(array: Array, at: int) -> bool:
    """Whether element ``at`` of a C-contiguous array is the first one of a cache line."""
    return address_of(array, at) % LINE_BYTES == 0


@generic
def move_line(source: Array, at: int, target: Array, to: int) -> None:
    """Move the elements of a whole cache line, which ``to`` begins, by a non-temporal store.

    Arrays of one axis, of one unsigned dtype.
    """
    store_past_caches(target, to, load(source, at, LINE_BYTES // source.itemsize))


@generic
def moves_past_caches(target: Array, count: int) -> bool:
    """Whether a tensor is too large for the caches, and runs of ``count`` elements are long enough for ``move_run``."""
    return target.size * target.itemsize >= NON_TEMPORAL_BYTES and count * target.itemsize >= SHORTEST_RUN_BYTES


@generic
def move_run(source: Array, at: int, target: Array, to: int, count: Size) -> None:
    """Compute ``target[to + k] = source[at + k]`` for ``k`` below ``count``: whole lines of the target by non-temporal stores.

    Arrays of one axis, of one unsigned dtype.
    """
    keep_out_of_line()  # the loops of small results, beside it in a kernel, stay as fast as alone
    item = target.itemsize
    done = min(-address_of(target, to) % LINE_BYTES // item, count)
    copy_bytes(address_of(target, to), address_of(source, at), done * item)
    lines = (count - done) * item // LINE_BYTES
    for line in range(lines):
        first = done + line * (LINE_BYTES // item)
        move_line(source, at + first, target, to + first)
    done += lines * (LINE_BYTES // item)
    copy_bytes(address_of(target, to + done), address_of(source, at + done), (count - done) * item)


@generic
def lines_past_caches(target: Array, count: Size, together: int) -> bool:
    """Whether a tensor is too large for the caches, and its runs of ``count`` elements are whole groups of cache lines.

    ``together``: the number of lines of a group.
    """
    large = target.size * target.itemsize >= NON_TEMPORAL_BYTES
    return large and count * target.itemsize % (together * LINE_BYTES) == 0 and is_line_aligned(target, 0)


@instruction(lambda e, array, at: e.aligned_from(array, at, LINE_BYTES))
def lines_from(array: Array, at: int) -> Array:
    """The array from element ``at``, which begins a cache line."""
    assert is_line_aligned(array, at)
    return array[at:]


@instruction(lambda e, array, at, value: marked(e.emitter, PAST, "store", lambda: e.emitter.store(array, [at], value)))
def store_past(array: Array, at: int, value: Element) -> None:
    """Write an element of an array of ``lines_from``; the vectors of a loop over elements are written past the caches."""
    array[at] = value
