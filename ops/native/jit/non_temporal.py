"""Non-temporal stores for results too large for the caches: whole cache lines, written without being read first.

An ordinary store reads the cache line that it changes, so a large result crosses the memory bus twice; and it evicts other data
from the cache.
"""

from __future__ import annotations

from typing import Any

from ...core.tensor_types import ITEMSIZE
from ..memory import Array, Element, copy_bytes, generic, set_machine_form, twin
from .inlining import keep_out_of_line
from .marked_accesses import PAST, marked

#: Bytes of a cache line.
LINE_BYTES = 64
#: At the first use of a larger result, the caches would hold little of it.
NON_TEMPORAL_BYTES = 32 << 20
#: Of shorter runs few lines are whole, and plain loops write consecutive runs without a gap.
SHORTEST_RUN_BYTES = 16 * LINE_BYTES


@twin
def address_of(array: Array, at: int) -> int:
    """The address of element ``at`` of a C-contiguous array."""
    return int(array.ctypes.data) + int(at) * array.itemsize


@generic
def is_line_aligned(array: Array, at: int) -> bool:
    """Whether element ``at`` of a C-contiguous array is the first one of a cache line."""
    return address_of(array, at) % LINE_BYTES == 0


@twin
def move_line(source: Any, at: int, target: Any, to: int) -> None:
    """Move the elements of a whole cache line, which ``to`` begins, by a non-temporal store.

    Arrays of one axis, of one unsigned dtype.
    """
    n = LINE_BYTES // source.itemsize
    target[int(to) : int(to) + n] = source[int(at) : int(at) + n]


@generic
def moves_past_caches(target: Array, count: int) -> bool:
    """Whether a tensor is too large for the caches, and runs of ``count`` elements are long enough for ``move_run``."""
    return target.size * target.itemsize >= NON_TEMPORAL_BYTES and count * target.itemsize >= SHORTEST_RUN_BYTES


@generic
def move_run(source: Array, at: int, target: Array, to: int, count: int) -> None:
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
def lines_past_caches(target: Array, count: int, together: int) -> bool:
    """Whether a tensor is too large for the caches, and its runs of ``count`` elements are whole groups of cache lines.

    ``together``: the number of lines of a group.
    """
    large = target.size * target.itemsize >= NON_TEMPORAL_BYTES
    return large and count * target.itemsize % (together * LINE_BYTES) == 0 and is_line_aligned(target, 0)


@twin
def lines_from(array: Array, at: int) -> Array:
    """The array from element ``at``, which begins a cache line."""
    assert is_line_aligned(array, at)
    return array[at:]


@twin
def store_past(array: Array, at: int, value: Element) -> None:
    """Write an element of an array of ``lines_from``; the vectors of a loop over elements are written past the caches."""
    array[at] = value


def make_non_temporal(builder: Any, store: Any) -> None:
    """Mark a store of a whole, aligned line as non-temporal."""
    from llvmlite import ir

    store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))


def _address_of(emitter: Any, array: Any, at: Any) -> Any:
    from ..front_end.machine_types import INT64, WORD, Value

    b = emitter.builder
    return Value(INT64, (b.ptrtoint(b.gep(array.parts[0], [emitter.word(at)]), WORD),))


def _move_line(emitter: Any, source: Any, at: Any, target: Any, to: Any) -> None:
    from llvmlite import ir

    assert source.type == target.type, (source, target)
    b, item = emitter.builder, ITEMSIZE[source.type.dtype]
    line = ir.VectorType(source.parts[0].type.pointee, LINE_BYTES // item).as_pointer()
    read, written = (b.bitcast(b.gep(a.parts[0], [emitter.word(k)]), line) for a, k in ((source, at), (target, to)))
    make_non_temporal(b, b.store(b.load(read, align=item), written, align=LINE_BYTES))


def _lines_from(emitter: Any, array: Any, at: Any) -> Any:
    from ..front_end.machine_forms import assume_aligned
    from ..front_end.machine_types import Value

    b, (data, size) = emitter.builder, array.parts
    at = emitter.word(at)
    first = b.gep(data, [at])
    assume_aligned(b, first, LINE_BYTES)
    return Value(array.type, (first, b.sub(size, at)))


def _store_past(emitter: Any, array: Any, at: Any, value: Any) -> None:
    from ..front_end.arrays import store_element

    marked(emitter, PAST, "store", lambda: store_element(emitter, array, [at], value))


set_machine_form(lines_from, lambda: _lines_from)
set_machine_form(store_past, lambda: _store_past)
set_machine_form(address_of, lambda: _address_of)
set_machine_form(move_line, lambda: _move_line)
