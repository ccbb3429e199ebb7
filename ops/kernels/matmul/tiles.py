"""Products by the tiles of ``native/jit/products``, with a matrix that is packed into panels during the product.

A block of the result is a group of columns by a band of rows of one product.  The blocks of all products by one matrix follow
each other, group by group: for consecutive blocks of one group, the columns are packed once.  Every element of the result is one
sum along the inner axis, in order: the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.jit.block_transpose import transpose_tile
from ...native.jit.products.operands import Paced, Panels, Rows
from ...native.jit.products.paced_tile import multiply_paced
from ...native.jit.products.panel_products import clear_line, copy_line
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.memory import Array, generic
from ...native.status import OK
from ..shaped import Shaped
from .cpu import leading
from .matrix import Batch, batch, place_of
from .panels import INNER, ROWS

#: Rows of more bytes leave the caches before the next group reads them: each tile fetches those of the next one.  With 16 MiB or
#: more a product takes 1 to 4 % less time so, with 8 MiB or less up to 1 % more.
NEAR_BYTES = 8 << 20
#: Of rows of halves, the elements of the inner axis and the rows that are float32 at a time: 144 KiB.
HALF_INNER, HALF_ROWS = 512, 72


@generic
def pack_columns(
    b: Array, at: int, row: int, inner: int, columns: int, panels: Array, step: int, width: int, transposed: bool
) -> None:
    """``panels[j / width * step + p * width + j % width] = b[p, j]`` for ``p`` below ``inner`` and ``j`` below ``columns``.

    ``b`` begins at element ``at``, with rows, or columns if ``transposed``, that are ``row`` elements apart.  Lanes behind the
    last column are zeros: tiles read whole lines of panels, and products of subnormal numbers take many times as long.
    """
    for panel in range((columns + width - 1) // width):
        to, first, count = panel * step, panel * width, min(width, columns - panel * width)
        for p in range(inner if count < width else 0):
            clear_line(panels, to + p * width)
        if transposed:
            transpose_tile(b, at + first * row, row, inner, count, panels, to, width, width)
        elif count == width:
            for p in range(inner):
                copy_line(b, at + p * row + first, panels, to + p * width)
        else:
            for p in range(inner):
                for j in range(count):
                    panels[to + p * width + j] = b[at + p * row + first + j]


@generic
def multiply_band(a: Rows, panels: Panels, out: Rows, m: int, inner: int, columns: int, add: int) -> None:
    """``multiply_paced`` for any number of rows, which are divided evenly among tiles; only far rows are fetched."""
    tiles = (m + TILE_ROWS - 1) // TILE_ROWS
    far = m * a.step * a.data.itemsize > NEAR_BYTES
    for tile in range(tiles):
        top = tile * m // tiles
        rows = (tile + 1) * m // tiles - top
        left, to = Rows(a.data, a.at + top * a.step, a.step), Rows(out.data, out.at + top * out.step, out.step)
        ahead = Paced(0, 0, rows * a.step if far and tile + 1 < tiles else 0)
        multiply_paced(left, panels, to, rows, inner, columns, add, ahead)


@generic
def multiply_halves_band(a: Rows, panels: Panels, out: Rows, m: int, inner: int, columns: int, add: int) -> None:
    """``multiply_band`` of rows of halves, which become float32 behind the group of panels."""
    begin = GROUP_PANELS * panels.step
    for first in range(0, m, HALF_ROWS):
        rows = min(HALF_ROWS, m - first)
        for i in range(rows):
            to, at = begin + i * inner, a.at + (first + i) * a.step
            for p in range(inner):
                panels.data[np.uint64(to + p)] = a.data[np.uint64(at + p)]
        result = Rows(out.data, out.at + first * out.step, out.step)
        multiply_band(Rows(panels.data, begin, inner), panels, result, rows, inner, columns, add)


@generic
def products(
    multiply: Callable[..., Any],
    deepest: int,
    a: Batch,
    b: Batch,
    out: Array,
    count: int,
    m: int,
    n: int,
    k: int,
    low: int,
    high: int,
    panels: Array,
) -> None:
    """The blocks ``low`` to ``high`` (exclusive) of ``count`` products.

    ``multiply``: the product of a band of rows with a group of panels; ``deepest``: the elements of the inner axis of a group.
    """
    width = PANEL_BYTES // out.itemsize
    group, bands = GROUP_PANELS * width, (m + ROWS - 1) // ROWS
    groups, number, together = (n + group - 1) // group, low, count // b.matrices * bands
    while number < high:
        unit = number // together
        following = min(high, (unit + 1) * together)
        begin, end = number - unit * together, following - unit * together
        matrix, column = unit // groups, unit % groups * group
        columns = min(group, n - column)
        for first in range(0, max(k, 1), deepest):
            inner = min(deepest, k - first)
            # not a multiple of 4 KiB, which would place rows of all panels in one set of the first cache
            step = (inner + 1) * width
            at = matrix * b.apart + (column * k + first if b.transposed else first * n + column)
            pack_columns(b.data, at, b.step, inner, columns, panels, step, width, b.transposed)
            for repetition in range(begin // bands, (end + bands - 1) // bands):
                product, before = repetition * b.matrices + matrix, repetition * bands
                top, bottom = max(begin - before, 0) * m // bands, min(end - before, bands) * m // bands
                left = Rows(a.data, place_of(a, product) + top * k + first, k)
                to = Rows(out, (product * m + top) * n + column, n)
                multiply(left, Panels(panels, 0, step, width), to, bottom - top, inner, columns, first)
        number = following


@generic
def matmul(
    multiply: Callable[..., Any],
    deepest: int,
    a: Shaped,
    b: Shaped,
    out: Shaped,
    low: int,
    high: int,
    panels: Array,
    transpose_b: bool,
) -> int:
    """A product of ``a[..., m, k]`` with a single matrix."""
    n, k = b.dims[0 if transpose_b else 1], b.dims[1 if transpose_b else 0]
    right = Batch(b.data, 1, 0, k if transpose_b else n, transpose_b)
    left = Batch(a.data, 1, 0, k, False)
    products(multiply, deepest, left, right, out.data, 1, leading(a.dims, 1), n, k, low, high, panels)
    return OK


@generic
def batch_matmul(
    multiply: Callable[..., Any],
    deepest: int,
    a: Shaped,
    b: Shaped,
    out: Shaped,
    low: int,
    high: int,
    panels: Array,
    transpose_b: bool,
) -> int:
    """Batched products, of a batch with fewer matrices again from the first."""
    m, n, k = out.dims[1], out.dims[2], a.dims[2]
    left, right = batch(a, m, k, False), batch(b, k, n, transpose_b)
    products(multiply, deepest, left, right, out.data, out.dims[0], m, n, k, low, high, panels)
    return OK


# ---- kernel bodies: of one dtype, and of halves to float32 -------------------------------------------------------------------


@generic
def matmul_tiles(a: Shaped, b: Shaped, out: Shaped, low: int, high: int, panels: Array, transpose_b: bool) -> int:
    """A product of ``a[..., m, k]`` with a single matrix."""
    return matmul(multiply_band, INNER, a, b, out, low, high, panels, transpose_b)


@generic
def batch_matmul_tiles(a: Shaped, b: Shaped, out: Shaped, low: int, high: int, panels: Array, transpose_b: bool) -> int:
    """Batched products."""
    return batch_matmul(multiply_band, INNER, a, b, out, low, high, panels, transpose_b)


@generic
def matmul_half_tiles(a: Shaped, b: Shaped, out: Shaped, low: int, high: int, panels: Array, transpose_b: bool) -> int:
    """``matmul_tiles`` of halves to float32."""
    return matmul(multiply_halves_band, HALF_INNER, a, b, out, low, high, panels, transpose_b)


@generic
def batch_matmul_half_tiles(a: Shaped, b: Shaped, out: Shaped, low: int, high: int, panels: Array, transpose_b: bool) -> int:
    """``batch_matmul_tiles`` of halves to float32."""
    return batch_matmul(multiply_halves_band, HALF_INNER, a, b, out, low, high, panels, transpose_b)
