"""Transposition of a matrix in blocks: whole cache lines are read and written, and shuffled in registers.

Elements are words of 1, 2, 4 or 8 bytes of any dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor_types import ITEMSIZE
from ..code_parts import is_declared_only
from ..memory import Array, generic, set_machine_form, twin
from .non_temporal import LINE_BYTES, NON_TEMPORAL_BYTES, is_line_aligned, make_non_temporal


def block_side(itemsize: int) -> int:
    """Rows and columns of a block of elements of ``itemsize`` bytes:

    64 bytes of large elements; a block fits the vector registers.
    """
    return 8 if itemsize == 8 else 16


@twin
def transpose_block(source: Any, at: int, stride: int, target: Any, to: int, to_stride: int) -> None:
    """Compute ``target[to + r * to_stride + c] = source[at + r + c * stride]`` for ``r`` and ``c`` below the side of a block.

    Arrays of one axis, of one unsigned dtype.
    """
    side = range(block_side(source.itemsize))
    for r in side:
        for c in side:
            target[int(to + r * to_stride + c)] = source[int(at + r + c * stride)]


@twin
def transpose_block_non_temporal(source: Any, at: int, stride: int, target: Any, to: int, to_stride: int) -> None:
    """As ``transpose_block``, by non-temporal stores: no cache line of the target is read first, and no cache keeps it.

    Each row of the block must begin a cache line.
    """
    transpose_block(source, at, stride, target, to, to_stride)


@generic
def transpose_into_result(
    source: Array, at: int, stride: int, rows: int, columns: int, target: Array, to: int, to_stride: int, side: int
) -> None:
    """As ``transpose_tile``, into a tensor that may be too large for the caches."""
    item = target.itemsize
    whole_lines = side * item == LINE_BYTES and (to_stride * item) % LINE_BYTES == 0 and is_line_aligned(target, to)
    if target.size * item < NON_TEMPORAL_BYTES or not whole_lines:
        transpose_tile(source, at, stride, rows, columns, target, to, to_stride, side)
        return
    whole_rows, whole_columns = rows - rows % side, columns - columns % side
    for c in range(0, whole_columns, side):
        for r in range(0, whole_rows, side):
            transpose_block_non_temporal(source, at + r + c * stride, stride, target, to + r * to_stride + c, to_stride)
    transpose_remainder(source, at, stride, rows, columns, target, to, to_stride, side)


@generic
def transpose_tile(
    source: Array, at: int, stride: int, rows: int, columns: int, target: Array, to: int, to_stride: int, side: int
) -> None:
    """As ``transpose_block`` for ``r`` below ``rows`` and ``c`` below ``columns``; ``side`` is the side of a block."""
    whole_rows, whole_columns = rows - rows % side, columns - columns % side
    for c in range(0, whole_columns, side):
        for r in range(0, whole_rows, side):
            transpose_block(source, at + r + c * stride, stride, target, to + r * to_stride + c, to_stride)
    transpose_remainder(source, at, stride, rows, columns, target, to, to_stride, side)


@generic
def transpose_remainder(
    source: Array, at: int, stride: int, rows: int, columns: int, target: Array, to: int, to_stride: int, side: int
) -> None:
    """Transpose the remainder of a tile: below the blocks, then right of them."""
    whole_rows, whole_columns = rows - rows % side, columns - columns % side
    for r in range(rows):
        for c in range(0 if r >= whole_rows else whole_columns, columns):
            target[np.uint64(to + r * to_stride + c)] = source[np.uint64(at + r + c * stride)]


def _machine(whole_lines: bool) -> Any:
    def block(emitter: Any, source: Any, at: Any, stride: Any, target: Any, to: Any, to_stride: Any) -> None:
        assert source.type == target.type, (source, target)
        builder, word = emitter.builder, emitter.word
        function = _block_function(builder.module, ITEMSIZE[source.type.dtype], whole_lines)
        places = [builder.gep(array.parts[0], [word(first)]) for array, first in ((source, at), (target, to))]
        of_source, of_target = (builder.bitcast(place, function.args[0].type) for place in places)
        builder.call(function, [of_source, word(stride), of_target, word(to_stride)])

    return block


def _block_function(module: Any, itemsize: int, whole_lines: bool) -> Any:
    """The LLVM function that transposes a block: pointers to the first elements, and the elements between rows."""
    from llvmlite import ir

    name = f"relayvm.transpose_block.{itemsize}{'.lines' * whole_lines}"
    if name in module.globals:
        return module.globals[name]
    word, pointer = ir.IntType(64), ir.IntType(8 * itemsize).as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, word] * 2), name)

    def block(module: Any) -> Any:
        return _block_function(module, itemsize, whole_lines)

    if is_declared_only(function, name, block):
        return function
    function.linkage = "internal"
    builder, side = ir.IRBuilder(function.append_basic_block("entry")), block_side(itemsize)
    read, written = (_pointers(builder, *function.args[k : k + 2], side) for k in (0, 2))
    rows = [builder.load(p, align=itemsize) for p in read]
    for row, p in zip(transposed_registers(builder, rows), written, strict=True):
        if whole_lines:
            make_non_temporal(builder, builder.store(row, p, align=min(LINE_BYTES, side * itemsize)))
        else:
            builder.store(row, p, align=itemsize)
    builder.ret_void()
    return function


def _pointers(builder: Any, first: Any, step: Any, side: int) -> list[Any]:
    """Pointers to the vectors of a block."""
    from llvmlite import ir

    vector = ir.VectorType(first.type.pointee, side).as_pointer()
    return [builder.bitcast(builder.gep(first, [builder.mul(step, step.type(k))]), vector) for k in range(side)]


def transposed_registers(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose a square of vectors: in each step, pairs of rows swap the halves of ever larger squares."""
    from llvmlite import ir

    side, word = len(rows), ir.IntType(32)

    def mask(lanes: list[int]) -> Any:
        return ir.Constant(ir.VectorType(word, side), [ir.Constant(word, lane) for lane in lanes])

    apart = 1
    while apart < side:
        upper = mask([lane - apart + side if lane & apart else lane for lane in range(side)])
        lower = mask([lane + side if lane & apart else lane + apart for lane in range(side)])
        for r in (r for r in range(side) if not r & apart):
            first, second = rows[r], rows[r + apart]
            rows[r], rows[r + apart] = (builder.shuffle_vector(first, second, lanes) for lanes in (upper, lower))
        apart *= 2
    return rows


set_machine_form(transpose_block, lambda: _machine(False))
set_machine_form(transpose_block_non_temporal, lambda: _machine(True))
