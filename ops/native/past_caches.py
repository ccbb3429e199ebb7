"""Results so large that caches are of no use to them: whole lines of memory, written without being read first.

An ordinary store reads the line that it changes, so that a large result crosses the memory's bus twice; and it takes the place
of what a cache might have kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .memory import generic, twin

#: A line of memory, as caches hold it.
LINE_BYTES = 64
#: Of a larger result little would be left in the caches when it is read.
PAST_CACHES_BYTES = 32 << 20


@twin
def begins_line(array: Any, at: int) -> bool:
    """Is element ``at`` of a C-contiguous array the first one of a line of memory?"""
    return (array.ctypes.data + int(at) * array.itemsize) % LINE_BYTES == 0


@twin
def write_line(source: Any, at: int, target: Any, to: int, factor: Any) -> None:
    """One line of ``target``, which begins at its element ``to``: the elements of ``source`` from ``at`` on, times ``factor``.

    C-contiguous arrays of one dtype, a float; elements are counted as if they had one axis.
    """
    n = LINE_BYTES // target.itemsize
    target.reshape(-1)[int(to) : int(to) + n] = source.reshape(-1)[int(at) : int(at) + n] * factor


@generic
def write_past_caches(source, at, target, to, n, factor):  # type: ignore[no-untyped-def]
    """``target[to + i] = source[at + i] * factor`` for ``i`` below ``n``, line by line; arrays as for ``write_line``."""
    flat = target.reshape(target.size)
    line, first = LINE_BYTES // target.itemsize, 0
    while first < n and not begins_line(target, to + first):
        flat[np.uint64(to + first)] = source[np.uint64(at + first)] * factor
        first += 1
    lines = (n - first) // line
    for k in range(lines):
        write_line(source, at + first + k * line, target, to + first + k * line, factor)
    for i in range(first + lines * line, n):
        flat[np.uint64(to + i)] = source[np.uint64(at + i)] * factor


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    from numba.core import cgutils

    data = cgutils.create_struct_proxy(kind)(context, builder, array).data
    return builder.gep(data, [at])


def past_caches(builder: Any, store: Any) -> None:
    """Have a store of a whole, aligned line pass the caches by."""
    from llvmlite import ir

    store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))


def _begins_line() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def begins(typing, array, at):  # type: ignore[no-untyped-def]
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            word = ir.IntType(64)
            address = builder.ptrtoint(_place(context, builder, array, *args), word)
            return builder.icmp_unsigned("==", builder.and_(address, word(LINE_BYTES - 1)), word(0))

        return types.boolean(array, types.int64), generate

    return begins


def _write_line() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def write(typing, source, at, target, to, factor):  # type: ignore[no-untyped-def]
        assert source.dtype == target.dtype == factor, (source, target, factor)
        item = source.dtype.bitwidth // 8

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            n = LINE_BYTES // item
            vector = ir.VectorType(context.get_data_type(source.dtype), n)
            read = _place(context, builder, source, *args[:2]), _place(context, builder, target, *args[2:4])
            origin, place = (builder.bitcast(p, vector.as_pointer()) for p in read)
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), args[4], ir.IntType(32)(0))
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), n), [0] * n)
            factors = builder.shuffle_vector(one, one, lanes)
            store = builder.store(builder.fmul(builder.load(origin, align=item), factors), place, align=LINE_BYTES)
            past_caches(builder, store)
            return context.get_dummy_value()

        return types.void(source, types.int64, target, types.int64, factor), generate

    return write


begins_line.__machine__ = _begins_line  # type: ignore[attr-defined]
write_line.__machine__ = _write_line  # type: ignore[attr-defined]
