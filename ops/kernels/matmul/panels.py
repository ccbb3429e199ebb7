"""Products with a matrix that is stored in panels of columns: the tiles of ``native/jit/product_tile``, blocked for the caches.

Every element of the result is one sum along the inner axis, in order: the same bits for any blocks and any number of threads.
"""

from __future__ import annotations

from ...native.jit.product_tile import GROUP_PANELS, TILE_ROWS, multiply_panels
from ...native.memory import Array, generic
from ...native.status import OK

#: Elements of the inner axis per block, and rows per block: a block of rows and one of a panel fit an L2 cache of 512 KiB.
INNER, ROWS = 512, 160


@generic
def dense_panels(a: Array, panels: Array, out: Array) -> int:
    """``out[m, n] = a[m, k] @ b[k, n]``; ``panels[n / width, k, width]``: the columns of ``b``, the last ones padded.

    Rows are divided evenly among tiles: 8 rows are 4 and 4, not 6 and 2.
    """
    m, k = a.shape
    n, width = out.shape[1], panels.shape[2]
    if m == 0 or n == 0:
        return OK
    blocks = (m + ROWS - 1) // ROWS
    for first in range(0, max(k, 1), INNER):
        inner = min(INNER, k - first)
        for block in range(blocks):
            begin, end = block * m // blocks, (block + 1) * m // blocks
            tiles = (end - begin + TILE_ROWS - 1) // TILE_ROWS
            for column in range(0, n, GROUP_PANELS * width):
                panel, columns = (column // width * k + first) * width, min(GROUP_PANELS * width, n - column)
                for tile in range(tiles):
                    top = begin + tile * (end - begin) // tiles
                    rows = begin + (tile + 1) * (end - begin) // tiles - top
                    multiply_panels(
                        a, top * k + first, k, panels, panel, k * width, out, top * n + column, n, rows, inner, columns, first
                    )
    return OK


@generic
def dense_panels_by_loops(a: Array, panels: Array, out: Array) -> int:
    """As ``dense_panels`` for floats of any dtype and panels of any width, summed in float64."""
    m, k = a.shape
    n, width = out.shape[1], panels.shape[2]
    for i in range(m):
        for j in range(n):
            total = 0.0
            for p in range(k):
                total += float(a[i, p]) * float(panels[j // width, p, j % width])
            out[i, j] = total
    return OK
