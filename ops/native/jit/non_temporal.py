"""Non-temporal stores for results too large for the caches: whole cache lines, written without being read first.

An ordinary store reads the cache line that it changes, so a large result crosses the memory bus twice; and it evicts other data
from the cache.
"""

from __future__ import annotations

from typing import Any

from ..memory import Array, set_machine_form, twin

#: Bytes of a cache line.
LINE_BYTES = 64
#: At the first use of a larger result, the caches would hold little of it.
NON_TEMPORAL_BYTES = 32 << 20


@twin
def is_line_aligned(array: Array, at: int) -> bool:
    """Whether element ``at`` of a C-contiguous array is the first one of a cache line."""
    return (array.ctypes.data + int(at) * array.itemsize) % LINE_BYTES == 0


def make_non_temporal(builder: Any, store: Any) -> None:
    """Mark a store of a whole, aligned line as non-temporal."""
    from llvmlite import ir

    store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))


def _is_line_aligned(emitter: Any, array: Any, at: Any) -> Any:
    from ..front_end.machine_types import BOOL, WORD, Value

    b = emitter.builder
    address = b.ptrtoint(b.gep(array.parts[0], [emitter.word(at)]), WORD)
    return Value(BOOL, (b.icmp_unsigned("==", b.and_(address, WORD(LINE_BYTES - 1)), WORD(0)),))


set_machine_form(is_line_aligned, lambda: _is_line_aligned)
