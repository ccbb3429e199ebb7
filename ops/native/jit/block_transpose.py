"""Transposition of a matrix in blocks: whole cache lines are read and written, and shuffled in registers.

Elements are words of 1, 2, 4 or 8 bytes of any dtype.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..inlining import shared
from ..memory import Array, Size, generic
from ..static_values import at_compile_time, static_range
from ..vectors import Vector, load, shuffle, store, store_past_caches
from .non_temporal import LINE_BYTES, NON_TEMPORAL_BYTES, is_line_aligned


@at_compile_time
def block_side(itemsize: int) -> int:
    """Rows and columns of a block of elements of ``itemsize`` bytes:

    64 bytes of large elements; a block fits the vector registers.
    """
    return 8 if itemsize == 8 else 16


@at_compile_time
def powers_below(side: int) -> tuple[int, ...]:
    """The powers of 2 below a power of 2."""
    return tuple(1 << n for n in range(side.bit_length() - 1))


@at_compile_time
def _swapped(side: int, apart: int, half: int) -> tuple[int, ...]:
    """The lanes of two rows that the upper (0) or the lower (1) of them has, after halves of squares are swapped."""
    order = [lane - apart + side if lane & apart else lane for lane in range(side)]
    return tuple(lane + apart if half else lane for lane in order)


@generic
def transposed_registers(rows: Sequence[Vector]) -> list[Vector]:
    """Transpose a square of vectors: in each step, pairs of rows swap the halves of ever larger squares."""
    transposed, side = [row for row in rows], len(rows)  # noqa: C416 - the list that this function may change
    for apart in powers_below(side):
        for r in static_range(side):
            if r & apart == 0:
                first, second = transposed[r], transposed[r + apart]
                transposed[r] = shuffle(first, second, _swapped(side, apart, 0))
                transposed[r + apart] = shuffle(first, second, _swapped(side, apart, 1))
    return transposed


@generic
def turn_block(source: Array, at: int, stride: int, side: int) -> list[Vector]:
    """The columns of a square of a static side: the element in row ``c`` and column ``r`` is ``source[at + r + c * stride]``."""
    return transposed_registers([load(source, at + c * stride, side) for c in static_range(side)])


@generic
def transpose_block(source: Array, at: int, stride: int, target: Array, to: int, to_stride: int) -> None:
    """Compute ``target[to + r * to_stride + c] = source[at + r + c * stride]`` for ``r`` and ``c`` below the side of a block.

    Arrays of one axis, of one unsigned dtype.
    """
    rows = turn_block(source, at, stride, block_side(source.itemsize))
    for r in static_range(len(rows)):
        store(target, to + r * to_stride, rows[r])


@generic
def transpose_block_non_temporal(source: Array, at: int, stride: int, target: Array, to: int, to_stride: int) -> None:
    """As ``transpose_block``, by non-temporal stores: no cache line of the target is read first, and no cache keeps it.

    Each row of the block must begin a cache line.
    """
    rows = turn_block(source, at, stride, block_side(source.itemsize))
    for r in static_range(len(rows)):
        store_past_caches(target, to + r * to_stride, rows[r])


@generic
def transpose_into_result(
    source: Array, at: int, stride: Size, rows: Size, columns: Size, target: Array, to: int, to_stride: Size, side: int
) -> None:
    """As ``transpose_tile``, into a tensor that may be too large for the caches."""
    item = target.itemsize
    whole_lines = side * item == LINE_BYTES and (to_stride * item) % LINE_BYTES == 0 and is_line_aligned(target, to)
    if target.size * item < NON_TEMPORAL_BYTES or not whole_lines:
        transpose_tile(source, at, stride, rows, columns, target, to, to_stride, side)
        return
    whole_rows, whole_columns = rows - rows % side, columns - columns % side
    if whole_columns > 0:
        transpose_blocks_past_caches(source, at, stride, whole_rows, whole_columns, target, to, to_stride)
    transpose_remainder(source, at, stride, rows, columns, target, to, to_stride, side)


@generic
def transpose_tile(
    source: Array, at: int, stride: Size, rows: int, columns: int, target: Array, to: int, to_stride: int, side: int
) -> None:
    """As ``transpose_block`` for ``r`` below ``rows`` and ``c`` below ``columns``; ``side`` is the side of a block."""
    whole_rows, whole_columns = rows - rows % side, columns - columns % side
    if whole_columns > 0:
        transpose_blocks(source, at, stride, whole_rows, whole_columns, target, to, to_stride)
    transpose_remainder(source, at, stride, rows, columns, target, to, to_stride, side)


@shared
@generic
def transpose_blocks(
    source: Array, at: int, stride: int, rows: int, columns: int, target: Array, to: int, to_stride: int
) -> None:
    """As ``transpose_block`` for whole blocks of ``rows`` and ``columns``."""
    side = block_side(source.itemsize)
    for c in range(0, columns, side):
        for r in range(0, rows, side):
            transpose_block(source, at + r + c * stride, stride, target, to + r * to_stride + c, to_stride)


@shared
@generic
def transpose_blocks_past_caches(
    source: Array, at: int, stride: int, rows: int, columns: int, target: Array, to: int, to_stride: int
) -> None:
    """As ``transpose_blocks``, by non-temporal stores."""
    side = block_side(source.itemsize)
    for c in range(0, columns, side):
        for r in range(0, rows, side):
            transpose_block_non_temporal(source, at + r + c * stride, stride, target, to + r * to_stride + c, to_stride)


@generic
def transpose_remainder(
    source: Array, at: int, stride: int, rows: int, columns: int, target: Array, to: int, to_stride: int, side: int
) -> None:
    """Transpose the remainder of a tile: below the blocks, then right of them."""
    whole_rows, whole_columns = rows - rows % side, columns - columns % side
    for r in range(rows):
        for c in range(0 if r >= whole_rows else whole_columns, columns):
            target[np.uint64(to + r * to_stride + c)] = source[np.uint64(at + r + c * stride)]
