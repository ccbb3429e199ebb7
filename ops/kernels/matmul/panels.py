"""Products with a matrix that is stored in panels of columns: the tiles of ``native/jit/product_tile``, blocked for the caches.

Every element of the result is one sum along the inner axis, in order: the same bits for any blocks and any number of threads.
"""

from __future__ import annotations

from ...native.jit.product_tile import GROUP_PANELS, TILE_ROWS, multiply_panels
from ...native.memory import Array, generic
from ...native.status import OK

#: Elements of the inner axis and rows per band: a band of rows and two blocks of a group of panels fit an L2 cache of 1 MiB.
INNER, ROWS = 1024, 96


@generic
def dense_panels(a: Array, panels: Array, out: Array, low: int, high: int) -> int:
    """``out[m, n] = a[m, k] @ b[k, n]``; ``panels[n / width, k, width]``: the columns of ``b``, the last ones padded.

    A block of the result is a band of rows by a group of panels; this computes the blocks ``low`` to ``high`` (exclusive).  Rows
    are divided evenly among tiles: 8 rows are 4 and 4, not 6 and 2.  The tiles of a block share the fetching of the next panels.
    """
    m, k = a.shape
    n, width = out.shape[1], panels.shape[2]
    if m == 0 or n == 0:
        return OK
    group, bands = GROUP_PANELS * width, (m + ROWS - 1) // ROWS
    groups = (n + group - 1) // group
    for first in range(0, max(k, 1), INNER):
        inner = min(INNER, k - first)
        for number in range(low, high):
            band, column = number // groups, number % groups * group
            panel = (column // width * k + first) * width
            following, at = (number + 1, first) if number + 1 < high else (low, first + inner)
            ahead = (following % groups * group // width * k + at) * width - panel
            begin, end = band * m // bands, (band + 1) * m // bands
            tiles = (end - begin + TILE_ROWS - 1) // TILE_ROWS
            sharers = min(tiles, GROUP_PANELS) if at < k else 0
            for tile in range(tiles):
                top = begin + tile * (end - begin) // tiles
                rows = begin + (tile + 1) * (end - begin) // tiles - top
                of_ahead = tile * GROUP_PANELS // sharers if tile < sharers else GROUP_PANELS
                end_ahead = (tile + 1) * GROUP_PANELS // sharers if tile < sharers else GROUP_PANELS
                multiply_panels(
                    a, top * k + first, k, panels, panel, k * width, width, out, top * n + column, n, rows, inner,
                    min(group, n - column), first, ahead, of_ahead, end_ahead, 0,
                )  # fmt: skip
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
