"""Transposition of a matrix in blocks: whole cache lines are read and written, and shuffled in registers.

Elements are words of 1, 2, 4 or 8 bytes of any dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor_types import ITEMSIZE
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
    def pointers(emitter: Any, array: Any, first: Any, step: Any, side: int) -> list[Any]:
        """Pointers to the vectors of a block."""
        from llvmlite import ir

        builder, data = emitter.builder, array.parts[0]
        at, apart = emitter.word(first), emitter.word(step)
        vector = ir.VectorType(data.type.pointee, side).as_pointer()
        offsets = [builder.add(at, builder.mul(apart, apart.type(k))) for k in range(side)]
        return [builder.bitcast(builder.gep(data, [offset]), vector) for offset in offsets]

    def block(emitter: Any, source: Any, at: Any, stride: Any, target: Any, to: Any, to_stride: Any) -> None:
        assert source.type == target.type, (source, target)
        item = ITEMSIZE[source.type.dtype]
        side, builder = block_side(item), emitter.builder
        read = pointers(emitter, source, at, stride, side)
        written = pointers(emitter, target, to, to_stride, side)
        rows = [builder.load(p, align=item) for p in read]
        for row, p in zip(transposed_registers(builder, rows), written, strict=True):
            if whole_lines:
                make_non_temporal(builder, builder.store(row, p, align=min(LINE_BYTES, side * item)))
            else:
                builder.store(row, p, align=item)

    return block


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
