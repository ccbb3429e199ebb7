"""Products of bytes with a matrix of signed bytes that is stored in panels of columns (see ``byte_tile``).

The sums of a tile of rows by a group of columns are finished together, while they are in the first cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...native.inlining import apart
from ...native.jit.products.operands import Rows
from ...native.matrix_tiles import has_tiles, may_use_tiles, release_tiles
from ...native.memory import Array, generic
from ...native.static_values import at_compile_time, static
from ...native.status import OK
from ...native.vectors import lanes_below, load, load_some, splat, store, store_some
from ..shaped import Shaped
from .byte_tile import COLUMNS, DEPTH, STEP, BytePanels, multiply_bytes, tile_rows
from .matrix_strips import STRIP, add_starts, configure_strips, multiply_strip, takes_strips

#: Columns of a group, and rows of a band.  The panels of a group stay in the second cache while the rows of a call pass, and a tile
#: of sums of a group in the first one.
GROUP, BAND = 256, 96
#: The most rows of a tile, whatever the machine.
MOST_ROWS = STRIP
#: Bytes that are copied at once.
_LINE = 64


class Finish(NamedTuple):
    """The function that finishes a part of the result, its first argument, and the array with sums (see ``codegen.cpu.epilogue``).

    ``step``: elements from a row of sums to the next; 0 where the sums are in a buffer of a tile.
    """

    finish: Callable[..., None]
    argv: int
    sums: Array
    step: int


@at_compile_time
def excess(dtype: np.dtype[Any]) -> int:
    """The number by which bytes are less than the unsigned bytes that are multiplied: for signed ones, whose top bit is flipped."""
    return 128 if dtype == np.int8 else 0


@generic
def row_bytes(k: int) -> int:
    """The bytes of a row of ``k`` bytes in whole steps of panels."""
    return (k + DEPTH - 1) // DEPTH * DEPTH


@generic
def is_in_place(data: Array, k: int) -> bool:
    """Whether tiles read the rows of the data as they are: unsigned, in whole steps."""
    return excess(data.dtype) == 0 and k % DEPTH == 0


@generic
def copy_rows(data: Array, at: int, k: int, count: int, rows: Array) -> None:
    """Store ``count`` rows of ``k`` bytes in whole steps; the top bits of signed bytes are flipped."""
    step, flip = row_bytes(k), splat(np.uint8(excess(data.dtype)), _LINE)
    for i in range(count):
        here, to, whole = at + i * k, i * step, k // _LINE * _LINE
        for j in range(0, whole, _LINE):
            store(rows, to + j, load(data, here + j, _LINE).view(np.uint8) ^ flip)
        rest = load_some(data, here + whole, lanes_below(k - whole, static(_LINE)), splat(data.dtype.type(0), _LINE))
        store_some(rows, to + whole, rest.view(np.uint8) ^ flip, lanes_below(step - whole, static(_LINE)))


@generic
def multiply_band(
    a: Rows, panels: BytePanels, column: int, n: int, top: int, m: int, steps: int, end: Finish, config: Array,
    by_strips: int,
) -> None:  # fmt: skip
    """The columns of a group, from ``column`` on, in ``m`` rows, the first of which is row ``top`` of the result.

    ``config``: room for the configuration of tile registers, which ``by_strips`` lets it use.
    """
    columns, panel = min(GROUP, n - column), panels.at + column // COLUMNS * panels.step
    here = BytePanels(panels.data, panel, panels.step, panels.sums, panels.column + column, panels.factor)
    if end.step != 0 and columns % COLUMNS != 0:  # registers store whole panels, which the result has no room for
        by_strips = 0
    most = STRIP if by_strips != 0 else tile_rows()
    first, height = 0, 0
    while first < m:
        tiles = (m - first + most - 1) // most
        rows = min(m - first, most) if by_strips != 0 else (m - first) // tiles
        at = (top + first) * n + column
        held, pitch = (at, end.step) if end.step != 0 else (0, GROUP)
        left, to = Rows(a.data, a.at + first * a.step, a.step), Rows(end.sums, held, pitch)
        if has_tiles():
            if by_strips != 0:
                if rows != height:
                    configure_strips(config, rows)
                    height = rows
                multiply_strip(left, here, to, rows, steps, columns)
                add_starts(here, to, rows, columns)
            else:
                multiply_bytes(left, here, to, rows, steps, columns)
        else:
            multiply_bytes(left, here, to, rows, steps, columns)
        end.finish(end.argv, at, rows, columns, end.sums, held, pitch)
        first += rows
    if has_tiles():
        if height > 0:
            release_tiles()


@generic
def multiply_blocks(
    data: Array, panels: BytePanels, m: int, n: int, k: int, low: int, high: int, rows: Array, end: Finish, config: Array
) -> None:
    """The blocks ``low`` to ``high`` (exclusive): of each group of columns each band of rows."""
    bands, steps = (m + BAND - 1) // BAND, row_bytes(k) // DEPTH
    by_strips = 1 if takes_strips(m, steps) and may_use_tiles() else 0
    for block in range(low, high):
        column, band = block // bands * GROUP, block % bands
        top, bottom = band * m // bands, (band + 1) * m // bands
        if is_in_place(data, k):
            left = Rows(data.view(np.uint8), top * k, k)
            multiply_band(left, panels, column, n, top, bottom - top, steps, end, config, by_strips)
        else:
            copy_rows(data, top * k, k, bottom - top, rows)
            multiply_band(Rows(rows, 0, row_bytes(k)), panels, column, n, top, bottom - top, steps, end, config, by_strips)


@apart()
@generic
def dense_byte_panels(
    data: Array, panels: Array, column_sums: Array, out: Shaped, low: int, high: int, rows: Array, config: Array,
    sums: Array, finish: Callable[..., None], argv: int,
) -> int:  # fmt: skip
    """``out[m, n] = data[m, k] @ b[k, n]``; ``panels``: the columns of ``b``, the last ones padded; ``column_sums``: their sums.

    ``rows``: room for a band; ``config``: for a configuration of tile registers; ``sums``: for a tile of a group, or the result.
    """
    (m, k), n = data.shape, out.dims[len(out.dims) - 1]
    step = n if sums.ctypes.data == out.data.ctypes.data else 0
    right = BytePanels(panels.reshape(-1), 0, row_bytes(k) // DEPTH * STEP, column_sums, 0, -excess(data.dtype))
    end = Finish(finish, argv, sums, step)
    multiply_blocks(data.reshape(-1), right, m, n, k, low, high, rows, end, config)
    return OK
