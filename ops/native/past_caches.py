"""Results so large that caches are of no use to them: whole lines of memory, written without being read first.

An ordinary store reads the line that it changes, so that a large result crosses the memory's bus twice; and it takes the place
of what a cache might have kept.
"""

from __future__ import annotations

from typing import Any

from .memory import twin

#: A line of memory, as caches hold it.
LINE_BYTES = 64
#: Of a larger result little would be left in the caches when it is read.
PAST_CACHES_BYTES = 32 << 20


@twin
def begins_line(array: Any, at: int) -> bool:
    """Is element ``at`` of a C-contiguous array the first one of a line of memory?"""
    return (array.ctypes.data + int(at) * array.itemsize) % LINE_BYTES == 0


def past_caches(builder: Any, store: Any) -> None:
    """Have a store of a whole, aligned line pass the caches by."""
    from llvmlite import ir

    store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))


def _begins_line() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def begins(typing, array, at):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word, data = ir.IntType(64), cgutils.create_struct_proxy(array)(context, builder, args[0]).data
            address = builder.ptrtoint(builder.gep(data, [args[1]]), word)
            return builder.icmp_unsigned("==", builder.and_(address, word(LINE_BYTES - 1)), word(0))

        return types.boolean(array, types.int64), generate

    return begins


begins_line.__machine__ = _begins_line  # type: ignore[attr-defined]
