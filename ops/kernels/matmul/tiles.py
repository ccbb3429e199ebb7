"""Products by the tiles of ``native/jit/products``, with a matrix that is packed into panels during the product.

A block of the result is a group of columns by a band of rows of one product.  For consecutive blocks of one group, the columns
are packed once.  Every element of the result is one sum along the inner axis, in order: the same bits for any number of threads.
"""

from __future__ import annotations

from ...native.jit.block_transpose import transpose_tile
from ...native.jit.products.operands import Panels, Rows
from ...native.jit.products.paced_tile import multiply_paced
from ...native.jit.products.panel_products import copy_line
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES, TILE_ROWS
from ...native.memory import Array, Axes, generic
from ...native.status import OK
from .cpu import leading
from .panels import INNER, ROWS


@generic
def pack_columns(
    b: Array, at: int, row: int, inner: int, columns: int, panels: Array, step: int, width: int, transposed: bool
) -> None:
    """``panels[j / width * step + p * width + j % width] = b[p, j]`` for ``p`` below ``inner`` and ``j`` below ``columns``.

    ``b`` begins at element ``at``, with rows, or columns if ``transposed``, that are ``row`` elements apart.
    """
    for panel in range((columns + width - 1) // width):
        to, first, count = panel * step, panel * width, min(width, columns - panel * width)
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
def multiply_band(
    a: Array, a_at: int, a_row: int, panels: Array, panel_at: int, step: int, out: Array, out_at: int, out_row: int, m: int,
    inner: int, columns: int, add: int,
) -> None:  # fmt: skip
    """``multiply_paced`` for any number of rows, which are divided evenly among tiles; nothing is fetched."""
    tiles, width = (m + TILE_ROWS - 1) // TILE_ROWS, PANEL_BYTES // out.itemsize
    for tile in range(tiles):
        top = tile * m // tiles
        rows = (tile + 1) * m // tiles - top
        multiply_paced(
            Rows(a, a_at + top * a_row, a_row), Panels(panels, panel_at, step, width), Rows(out, out_at + top * out_row, out_row),
            rows, inner, columns, add, 0, 0,
        )  # fmt: skip


@generic
def products(
    a: Array, a_step: int, b: Array, b_step: int, out: Array, m: int, n: int, k: int, low: int, high: int, panels: Array,
    transpose_b: bool,
) -> None:  # fmt: skip
    """The blocks ``low`` to ``high`` (exclusive) of products whose matrices are ``a_step`` and ``b_step`` elements apart."""
    width = PANEL_BYTES // out.itemsize
    group, bands = GROUP_PANELS * width, (m + ROWS - 1) // ROWS
    groups, number = (n + group - 1) // group, low
    while number < high:
        unit = number // bands
        following = min(high, (unit + 1) * bands)
        begin, end = (number - unit * bands) * m // bands, (following - unit * bands) * m // bands
        batch, column = unit // groups, unit % groups * group
        columns = min(group, n - column)
        for first in range(0, max(k, 1), INNER):
            inner = min(INNER, k - first)
            step = (
                inner + 1
            ) * width  # not a multiple of 4 KiB, which would place rows of all panels in one set of the first cache
            at = batch * b_step + (column * k + first if transpose_b else first * n + column)
            pack_columns(b, at, k if transpose_b else n, inner, columns, panels, step, width, transpose_b)
            a_at, out_at = batch * a_step + begin * k + first, (batch * m + begin) * n + column
            multiply_band(a, a_at, k, panels, 0, step, out, out_at, n, end - begin, inner, columns, first)
        number = following


@generic
def matmul_tiles(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, low: int, high: int, panels: Array,
    transpose_b: bool,
) -> int:  # fmt: skip
    """A product of ``a[..., m, k]`` with a single matrix."""
    n, k = b_dims[0 if transpose_b else 1], b_dims[1 if transpose_b else 0]
    products(a, 0, b, 0, out, leading(a_dims, 1), n, k, low, high, panels, transpose_b)
    return OK


@generic
def batch_matmul_tiles(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, low: int, high: int, panels: Array,
    transpose_b: bool,
) -> int:  # fmt: skip
    """Batched products; a batch of 1 is broadcast."""
    m, n, k = out_dims[1], out_dims[2], a_dims[2]
    a_step, b_step = (m * k if a_dims[0] > 1 else 0), (n * k if b_dims[0] > 1 else 0)
    products(a, a_step, b, b_step, out, m, n, k, low, high, panels, transpose_b)
    return OK
