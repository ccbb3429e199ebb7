"""Products of bytes by a matrix of signed bytes that is packed into panels during the product (see ``byte_tile``).

A block of the result is a group of columns by a band of rows of one product.  For consecutive blocks of one group, the columns
are packed once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...native.inlining import apart
from ...native.memory import Array, generic
from ...native.static_values import static, static_range
from ...native.status import OK
from ...native.vector_registers import vector_bytes
from ...native.vectors import Vector, add_dot_of_bytes, lanes_below, load, load_some, shuffle, splat, store
from ..matmul.cpu import leading
from ..matmul.matrix import Batch, batch, place_of
from ..shaped import Shaped
from .byte_tile import COLUMNS, DEPTH, STEP, BytePanels
from .panels import BAND, GROUP, LINE, Finish, excess, interleaved, multiply_rows, row_bytes, strips_for

#: Panels of the columns of a line of bytes.
_PANELS = LINE // COLUMNS


class Buffers(NamedTuple):
    """Buffers for a band of rows, a configuration of tile registers, the panels of a group, and their sums of columns."""

    copied: Array
    config: Array
    panels: Array
    column_sums: Array


@generic
def row_part(b: Array, at: int, count: int) -> Vector:
    """``count`` bytes, COLUMNS at most, and zeros behind them."""
    return load_some(b, at, lanes_below(count, static(COLUMNS)), splat(np.int8(0), COLUMNS))


@generic
def woven(parts: list[Vector]) -> Vector:
    """A step of a panel of COLUMNS bytes of DEPTH rows."""
    pairs = [shuffle(parts[2 * h], parts[2 * h + 1], interleaved(static(COLUMNS))).view(np.int16) for h in static_range(2)]
    return shuffle(pairs[0], pairs[1], interleaved(static(COLUMNS))).view(np.int8)


@generic
def pack_panel_of_rows(b: Array, at: int, row: int, k: int, count: int, panels: Array, to: int) -> None:
    """Pack ``count`` columns of a matrix with rows that are ``row`` bytes apart."""
    for step in range((k + DEPTH - 1) // DEPTH):
        here, left = at + step * DEPTH * row, k - step * DEPTH
        parts = [row_part(b, here + i * row, count if i < left else 0) for i in static_range(DEPTH)]
        store(panels, to + step * STEP, woven(parts))


@generic
def pack_step_of_lines(b: Array, at: int, row: int, panels: Array, to: int, apart: int) -> None:
    """Pack a line of bytes of DEPTH rows, ``row`` bytes apart, into panels that are ``apart`` bytes apart."""
    lines = [load(b, at + i * row, LINE) for i in static_range(DEPTH)]
    for panel in static_range(_PANELS):
        parts = [lines[n][panel * COLUMNS : panel * COLUMNS + COLUMNS] for n in static_range(DEPTH)]
        store(panels, to + panel * apart, woven(parts))


@generic
def pack_lines_of_rows(b: Array, at: int, row: int, k: int, panels: Array, to: int) -> None:
    """Pack the columns of a line of bytes: each line of the matrix is read once."""
    whole, apart = k // DEPTH, row_bytes(k) // DEPTH * STEP
    for step in range(whole):
        pack_step_of_lines(b, at + step * DEPTH * row, row, panels, to + step * STEP, apart)
    for panel in range(_PANELS if k % DEPTH > 0 else 0):
        first, there = at + whole * DEPTH * row + panel * COLUMNS, to + panel * apart + whole * STEP
        pack_panel_of_rows(b, first, row, k - whole * DEPTH, COLUMNS, panels, there)


@generic
def pack_panel_of_columns(b: Array, at: int, row: int, k: int, count: int, panels: Array, to: int) -> None:
    """Pack ``count`` columns, which are stored one after the other, ``row`` bytes apart."""
    steps = (k + DEPTH - 1) // DEPTH
    whole = k // DEPTH
    for j in range(COLUMNS):
        here, there = at + j * row, to + j * DEPTH
        if j < count:
            for step in range(whole):
                store(panels, there + step * STEP, load(b, here + step * DEPTH, DEPTH))
        for step in range(whole if j < count else 0, steps):
            left = k - step * DEPTH if j < count else 0
            last = load_some(b, here + step * DEPTH, lanes_below(left, static(DEPTH)), splat(np.int8(0), DEPTH))
            store(panels, there + step * STEP, last)


@generic
def add_columns(panels: Array, at: int, steps: int, sums: Array, to: int) -> None:
    """Store the sum of each column of a panel."""
    lanes = vector_bytes() // 4
    for first in static_range(0, COLUMNS, lanes):
        total = splat(np.int32(0), lanes)
        for step in range(steps):
            row = load(panels, at + step * STEP + first * DEPTH, lanes * DEPTH)
            total = add_dot_of_bytes(total, splat(np.uint8(1), lanes * DEPTH), row)
        store(sums, to + first, total)


@generic
def pack_group(b: Batch, at: int, n: int, k: int, columns: int, buffers: Buffers, with_sums: bool) -> None:
    """Pack ``columns`` columns of a matrix ``[k, n]``, the first of which begins at byte ``at``; zeros for sums not needed."""
    steps = row_bytes(k) // DEPTH
    lines = 0 if b.transposed else columns // LINE * LINE
    for first in range(0, lines, LINE):
        pack_lines_of_rows(b.data, at + first, n, k, buffers.panels, first // COLUMNS * steps * STEP)
    for panel in range((columns + COLUMNS - 1) // COLUMNS):
        first, to = panel * COLUMNS, panel * steps * STEP
        count = min(COLUMNS, columns - first)
        if b.transposed:
            pack_panel_of_columns(b.data, at + first * k, k, k, count, buffers.panels, to)
        elif first >= lines:
            pack_panel_of_rows(b.data, at + first, n, k, count, buffers.panels, to)
        add_columns(buffers.panels, to, steps if with_sums else 0, buffers.column_sums, first)


@generic
def products_of_bytes(a: Batch, b: Batch, m: int, n: int, k: int, low: int, high: int, buffers: Buffers, end: Finish) -> None:
    """The blocks ``low`` to ``high`` (exclusive) of products."""
    bands, groups, strips = (m + BAND - 1) // BAND, (n + GROUP - 1) // GROUP, strips_for(m, k, buffers.config)
    group, packed = BytePanels(buffers.panels, 0, row_bytes(k) // DEPTH * STEP, buffers.column_sums, 0, -excess(a.data.dtype)), -1
    for block in range(low, high):
        unit, band = block // bands, block % bands
        product, column = unit // groups, unit % groups * GROUP
        columns = min(GROUP, n - column)
        if unit != packed:
            at = place_of(b, product) + column * (k if b.transposed else 1)
            pack_group(b, at, n, k, columns, buffers, excess(a.data.dtype) != 0)
            packed = unit
        top, bottom = band * m // bands, (band + 1) * m // bands
        first, to = place_of(a, product) + top * k, (product * m + top) * n + column
        multiply_rows(a.data, first, k, group, to, n, bottom - top, columns, buffers.copied, end, strips)


@apart()
@generic
def matmul_bytes(
    a: Shaped, b: Shaped, out: Shaped, low: int, high: int, buffers: Buffers, sums: Array, finish: Callable[..., None], argv: int,
    transpose_b: bool,
) -> int:  # fmt: skip
    """A product of ``a[..., m, k]`` with a single matrix."""
    n, k = b.dims[0 if transpose_b else 1], b.dims[1 if transpose_b else 0]
    right = Batch(b.data, 1, 0, k if transpose_b else n, transpose_b)
    end = Finish(finish, argv, sums, n if sums.ctypes.data == out.data.ctypes.data else 0)
    products_of_bytes(Batch(a.data, 1, 0, k, False), right, leading(a.dims, 1), n, k, low, high, buffers, end)
    return OK


@apart()
@generic
def batch_matmul_bytes(
    a: Shaped, b: Shaped, out: Shaped, low: int, high: int, buffers: Buffers, sums: Array, finish: Callable[..., None], argv: int,
    transpose_b: bool,
) -> int:  # fmt: skip
    """Batched products; a batch of 1 is broadcast."""
    m, n, k = out.dims[1], out.dims[2], a.dims[2]
    end = Finish(finish, argv, sums, n if sums.ctypes.data == out.data.ctypes.data else 0)
    products_of_bytes(batch(a, m, k, False), batch(b, k, n, transpose_b), m, n, k, low, high, buffers, end)
    return OK
