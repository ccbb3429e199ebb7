"""Products with a matrix that is stored in panels of columns: the tiles of ``native/jit/products``, blocked for the caches.

Every element of the result is one sum along the inner axis, in order: the same bits for any blocks and any number of threads.
"""

from __future__ import annotations

from ...native import vector_registers
from ...native.jit.products.operands import Ahead, Paced, Panels, Rows
from ...native.jit.products.paced_tile import multiply_paced, spans_group
from ...native.jit.products.panel_products import multiply_panels
from ...native.jit.products.panel_streams import multiply_streams
from ...native.jit.products.register_tile import GROUP_PANELS, TILE_ROWS
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time
from ...native.status import OK
from ...native.vectors import from_element

#: Elements of the inner axis and rows per band: a band of rows and two blocks of a group of panels fit an L2 cache of 1 MiB.
INNER, ROWS = 1024, 96
#: Elements of the inner axis for tiles of a part of a group, with few rows: the rows of a tile stay in the L1 cache from panel to
#: panel, and little is fetched before the first tile.  With a row for so many elements of the inner axis, blocks are of INNER:
#: they read and write the sums, in lines far apart, less often.
SHORT_INNER, ELEMENTS_A_ROW = 256, 32
#: Tiles that share the fetching of the next panels at most, and how far ahead a tile fetches from its own, in elements.
SHARERS, FAR = 16, 2048
#: Bytes of the vector registers with which a row alone reads streams: on a Zen 3 6 % faster than group by group.
STREAMED_BYTES = 32
#: The fewest tiles with which a group that nothing has fetched is read panel by panel: all tiles but one read a panel from the
#: L1 cache, and fetch the next one meanwhile.
COLD_TILES = 4


@generic
def dense_panels(a: Array, panels: Array, out: Array, low: int, high: int, thread_low: int, thread_high: int) -> int:
    """``out[m, n] = a[m, k] @ b[k, n]``; ``panels[n / width, k, width]``: the columns of ``b``, the last ones padded.

    A block of the result is a band of rows by a group of panels; this computes the blocks ``low`` to ``high`` (exclusive).  Rows
    are divided evenly among tiles: 8 rows are 4 and 4, not 6 and 2.  The tiles of a block share the fetching of the next panels,
    also of those that the thread reads in its next call.
    """
    if a.shape[0] == 0 or out.shape[1] == 0:
        return OK
    if spans_group():
        multiply_bands(a, panels, out, low, high)
    else:
        multiply_groups(a, panels, out, low, high, thread_low, thread_high)
    return OK


@generic
def multiply_bands(a: Array, panels: Array, out: Array, low: int, high: int) -> None:
    """The blocks for tiles of a whole group, band after band: a band stays in the L2 cache."""
    m, k = a.shape
    n, width = out.shape[1], panels.shape[2]
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
                    Rows(a, top * k + first, k), Panels(panels, panel, k * width, width), Rows(out, top * n + column, n), rows,
                    inner, min(group, n - column), first, Ahead(ahead, of_ahead, end_ahead, Rows(a, 0, 0)),
                )  # fmt: skip


@generic
def multiply_groups(a: Array, panels: Array, out: Array, low: int, high: int, thread_low: int, thread_high: int) -> None:
    """The blocks for tiles of a part of a group, group after group: all rows, so that panels are read from memory once."""
    (m, k), width = a.shape, panels.shape[2]
    group, bands, number = GROUP_PANELS * width, (m + ROWS - 1) // ROWS, low
    if m == 1 and reads_streams():
        number = multiply_row(a, panels, out, low, high)
    while number < high:
        column = number // bands * group
        following = min(high, (number // bands + 1) * bands)
        begin, end = number % bands * m // bands, ((following - 1) % bands + 1) * m // bands
        is_first, goes_on = number == thread_low, following < thread_high and following % bands == 0
        multiply_group(a, begin, end - begin, panels, column // width * k * width, out, column, is_first, goes_on)
        number = following


@at_compile_time
def reads_streams() -> bool:
    """Whether a row alone reads panels as long streams: it was measured with the registers of AVX2."""
    _, nbytes = vector_registers.registers()
    return nbytes == STREAMED_BYTES


@generic
def multiply_row(a: Array, panels: Array, out: Array, low: int, high: int) -> int:
    """One row by the groups ``low`` to ``high`` (exclusive) that have all their columns; return the group behind them."""
    k, width = a.shape[1], panels.shape[2]
    first, groups = low * GROUP_PANELS * width, int(min(high, out.shape[1] // (GROUP_PANELS * width)) - low)
    if groups > 0:
        multiply_streams(
            a.reshape(-1), from_element(panels.reshape(-1), first * k), from_element(out.reshape(-1), first), k, groups
        )
    return low + max(groups, 0)


@generic
def multiply_group(
    a: Array, begin: int, m: int, panels: Array, panel: int, out: Array, column: int, is_first: bool, goes_on: bool
) -> None:
    """The columns of a group from ``column`` on, in ``m`` rows; ``panel``: their first element.

    ``is_first``: whether nothing came before in this thread, which fetched this group; ``goes_on``: whether the next group
    follows.  A tile that is alone, or the first of all, reads the panels of a group as one stream, and fetches from it.
    """
    k, n, width = a.shape[1], out.shape[1], panels.shape[2]
    tiles = (m + TILE_ROWS - 1) // TILE_ROWS
    most = INNER if m * ELEMENTS_A_ROW >= k else SHORT_INNER
    blocks = max(1, (k + most - 1) // most) if tiles > 1 else 1
    for block in range(blocks):
        first = block * k // blocks
        inner, is_last = (block + 1) * k // blocks - first, block + 1 == blocks
        streams = 1 if tiles == 1 or (is_first and block == 0) else 0
        sharers = min(tiles - streams, SHARERS) if goes_on or not is_last else 0
        pace = (width + sharers - 1) // max(sharers, 1)
        ahead = (GROUP_PANELS * k - first if is_last else inner) * width
        if streams != 0 and tiles >= COLD_TILES:
            multiply_cold(a, begin, m, panels, panel, out, column, inner, ahead, goes_on or not is_last)
            continue
        for tile in range(tiles):
            top, sharer = begin + tile * m // tiles, tile - streams
            rows = begin + (tile + 1) * m // tiles - top
            multiply_paced(
                Rows(a, top * k + first, k), Panels(panels, panel + first * width, k * width, width),
                Rows(out, top * n + column, n), rows, inner, min(GROUP_PANELS * width, n - column), first,
                Paced(
                    FAR if sharer < 0 else ahead + sharer * pace * inner,
                    width if sharer < 0 else pace if sharer < sharers else 0,
                    0,
                ),
            )  # fmt: skip


@generic
def multiply_cold(
    a: Array, begin: int, m: int, panels: Array, panel: int, out: Array, column: int, inner: int, ahead: int, goes_on: bool
) -> None:
    """``inner`` elements of the inner axis of a group that nothing has fetched, panel by panel.

    The first tile of all reads its panel as one stream.  Half of the others fetch the next panel of the group, half the panel
    that is ``ahead`` of theirs.
    """
    k, n, width = a.shape[1], out.shape[1], panels.shape[2]
    tiles, columns = (m + TILE_ROWS - 1) // TILE_ROWS, min(GROUP_PANELS * width, n - column)
    for at in range(0, columns, width):
        streams = 1 if at == 0 else 0
        beside = (tiles - streams + 1) // 2 if at + width < columns else 0
        later = min(tiles - streams - beside, SHARERS) if goes_on else 0
        pace_beside, pace_later = (width + beside - 1) // max(beside, 1), (width + later - 1) // max(later, 1)
        for tile in range(tiles):
            top, sharer = begin + tile * m // tiles, tile - streams
            rows = begin + (tile + 1) * m // tiles - top
            far, pace = FAR, width
            if sharer >= beside:
                far = ahead + (sharer - beside) * pace_later * inner
                pace = pace_later if sharer < beside + later else 0
            elif sharer >= 0:
                far, pace = k * width + sharer * pace_beside * inner, pace_beside
            multiply_paced(
                Rows(a, top * k, k), Panels(panels, panel + at * k, k * width, width), Rows(out, top * n + column + at, n), rows,
                inner, min(width, columns - at), 0, Paced(far, pace, 0),
            )  # fmt: skip


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
