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


def _is_line_aligned() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    from .intrinsics import intrinsic

    @intrinsic
    def begins(typing: Any, array: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word, data = ir.IntType(64), cgutils.create_struct_proxy(array)(context, builder, args[0]).data
            address = builder.ptrtoint(builder.gep(data, [args[1]]), word)
            return builder.icmp_unsigned("==", builder.and_(address, word(LINE_BYTES - 1)), word(0))

        return types.boolean(array, types.int64), generate

    return begins


set_machine_form(is_line_aligned, _is_line_aligned)
