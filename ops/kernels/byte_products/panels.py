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
from ...native.vectors import Vector, lanes_below, load, load_some, shuffle, splat, store, store_some
from ..shaped import Shaped
from .byte_tile import COLUMNS, DEPTH, STEP, BytePanels, multiply_bytes, row_depth, tile_rows
from .matrix_strips import STRIP, add_starts, configure_strips, multiply_strip, takes_strips

#: Columns of a group, and rows of a band.  The panels of a group stay in the second cache while the rows of a call pass, and a
#: tile of sums of a group in the first one.
GROUP, BAND = 256, 96
#: The most rows of a tile, whatever the machine.
MOST_ROWS = STRIP
#: Bytes of a cache line, which are copied at once.
LINE = 64
#: The most bytes of a byte of the data in a copied row.
WIDENING = 2


class Finish(NamedTuple):
    """The function that finishes a part of the result, its first argument, and the array with sums.

    See ``codegen.cpu.epilogue``.  ``step``: elements from a row of sums to the next; 0 where the sums are in a buffer of a tile.
    """

    finish: Callable[..., None]
    argv: int
    sums: Array
    step: int


@at_compile_time
def excess(dtype: np.dtype[Any]) -> int:
    """The number by which bytes are less than the unsigned ones that are multiplied: of signed ones the top bit is flipped."""
    return 128 if dtype == np.int8 else 0


@generic
def row_bytes(k: int) -> int:
    """The bytes of a row of ``k`` bytes in whole steps of panels."""
    return (k + DEPTH - 1) // DEPTH * DEPTH


@generic
def copied_bytes(k: int) -> int:
    """The bytes of a row of ``k`` bytes as it is copied."""
    return row_bytes(k) // DEPTH * row_depth()


@generic
def is_in_place(data: Array, k: int) -> bool:
    """Whether tiles read the rows of the data as they are: unsigned, in whole steps."""
    return excess(data.dtype) == 0 and k % DEPTH == 0 and row_depth() == DEPTH


@at_compile_time
def interleaved(lanes: int) -> tuple[int, ...]:
    """The order of the lanes of two vectors in turn."""
    return tuple(n // 2 + n % 2 * lanes for n in range(2 * lanes))


@generic
def in_pairs(line: Vector) -> Vector:
    """The bytes of whole steps in 16 bits: of each step those at even places, then those at odd ones."""
    pairs, lanes = line.view(np.uint16), len(line) // 2
    even, odd = pairs & splat(np.uint16(255), lanes), pairs >> splat(np.uint16(8), lanes)
    return shuffle(even.view(np.int32), odd.view(np.int32), interleaved(len(line) // DEPTH)).view(np.uint8)


@generic
def copy_rows(data: Array, at: int, k: int, count: int, rows: Array) -> None:
    """Store ``count`` rows of ``k`` bytes in whole steps, as tiles read them; the top bits of signed bytes are flipped."""
    step, flip = row_bytes(k), splat(np.uint8(excess(data.dtype)), LINE)
    for i in range(count):
        here, to, whole = at + i * k, i * copied_bytes(k), k // LINE * LINE
        for j in range(0, whole, LINE):
            line = load(data, here + j, LINE).view(np.uint8) ^ flip
            if row_depth() > DEPTH:
                store(rows, to + WIDENING * j, in_pairs(line))
            else:
                store(rows, to + j, line)
        if row_depth() > DEPTH:
            for j in range(whole, k, DEPTH):
                few = load_some(data, here + j, lanes_below(k - j, static(DEPTH)), splat(data.dtype.type(0), DEPTH))
                store(rows, to + WIDENING * j, in_pairs(few.view(np.uint8) ^ splat(np.uint8(excess(data.dtype)), DEPTH)))
        else:
            rest = load_some(data, here + whole, lanes_below(k - whole, static(LINE)), splat(data.dtype.type(0), LINE))
            store_some(rows, to + whole, rest.view(np.uint8) ^ flip, lanes_below(step - whole, static(LINE)))


class Strips(NamedTuple):
    """Room for the configuration of tile registers, and whether these may be used: 0 or 1."""

    config: Array
    are_used: int


@generic
def panels_of_group(panels: BytePanels, column: int) -> BytePanels:
    """The panels from a column of a matrix on."""
    first = panels.at + column // COLUMNS * panels.step
    return BytePanels(panels.data, first, panels.step, panels.sums, panels.column + column, panels.factor)


@generic
def place_of_sums(end: Finish, at: int) -> tuple[int, int]:
    """The first sum of a part of the result from ``at`` on, and the elements from a row of sums to the next."""
    return (at, end.step) if end.step != 0 else (0, GROUP)


@generic
def band_by_tiles(a: Rows, group: BytePanels, at: int, n: int, m: int, columns: int, steps: int, end: Finish) -> None:
    """The columns of a group in ``m`` rows; ``at``: their first element in the result, whose rows have ``n``."""
    tiles = (m + tile_rows() - 1) // tile_rows()
    for tile in range(tiles):
        first = tile * m // tiles
        rows, here = (tile + 1) * m // tiles - first, at + first * n
        held, pitch = place_of_sums(end, here)
        multiply_bytes(Rows(a.data, a.at + first * a.step, a.step), group, Rows(end.sums, held, pitch), rows, steps, columns)
        end.finish(end.argv, here, rows, columns, end.sums, held, pitch)


@generic
def band_by_strips(
    a: Rows, group: BytePanels, at: int, n: int, m: int, columns: int, steps: int, end: Finish, config: Array
) -> None:
    """As ``band_by_tiles``, by tile registers."""
    height = 0
    for first in range(0, m, STRIP):
        rows, here = min(m - first, STRIP), at + first * n
        held, pitch = place_of_sums(end, here)
        if rows != height:
            configure_strips(config, rows)
            height = rows
        to = Rows(end.sums, held, pitch)
        multiply_strip(Rows(a.data, a.at + first * a.step, a.step), group, to, rows, steps, columns)
        add_starts(group, to, rows, columns)
        end.finish(end.argv, here, rows, columns, end.sums, held, pitch)
    release_tiles()


@generic
def multiply_band(
    a: Rows, group: BytePanels, at: int, n: int, m: int, columns: int, steps: int, end: Finish, strips: Strips
) -> None:
    """``band_by_strips`` where registers may be used, which store whole panels; elsewhere ``band_by_tiles``."""
    if has_tiles():
        if strips.are_used != 0 and (end.step == 0 or columns % COLUMNS == 0):
            band_by_strips(a, group, at, n, m, columns, steps, end, strips.config)
        else:
            band_by_tiles(a, group, at, n, m, columns, steps, end)
    else:
        band_by_tiles(a, group, at, n, m, columns, steps, end)


@generic
def strips_for(m: int, k: int, config: Array) -> Strips:
    """Whether products of ``m`` rows of ``k`` bytes are multiplied by tile registers."""
    return Strips(config, 1 if takes_strips(m, row_bytes(k) // DEPTH) and may_use_tiles() else 0)


@generic
def multiply_rows(
    data: Array, first: int, k: int, group: BytePanels, at: int, n: int, m: int, columns: int, copied: Array, end: Finish,
    strips: Strips,
) -> None:  # fmt: skip
    """``multiply_band`` for ``m`` rows of ``k`` bytes, from ``first`` on, which are copied if tiles cannot read them."""
    steps = row_bytes(k) // DEPTH
    if is_in_place(data, k):
        multiply_band(Rows(data.view(np.uint8), first, k), group, at, n, m, columns, steps, end, strips)
    else:
        copy_rows(data, first, k, m, copied)
        multiply_band(Rows(copied, 0, copied_bytes(k)), group, at, n, m, columns, steps, end, strips)


@apart()
@generic
def dense_byte_panels(
    data: Array, panels: Array, column_sums: Array, out: Shaped, low: int, high: int, copied: Array, config: Array, sums: Array,
    finish: Callable[..., None], argv: int,
) -> int:  # fmt: skip
    """The blocks ``low`` to ``high`` (exclusive) of ``out[m, n] = data[m, k] @ b[k, n]``: bands of rows of groups of columns.

    ``panels``: the columns of ``b``, the last ones padded; ``column_sums``: their sums.  ``copied``: room for a band; ``config``:
    for a configuration of tile registers; ``sums``: for a tile of a group, or the result.
    """
    (m, k), n = data.shape, out.dims[len(out.dims) - 1]
    step = row_bytes(k) // DEPTH * STEP
    right = BytePanels(panels.reshape(-1), 0, step, column_sums, 0, -excess(data.dtype))
    end = Finish(finish, argv, sums, n if sums.ctypes.data == out.data.ctypes.data else 0)
    strips, bands = strips_for(m, k, config), (m + BAND - 1) // BAND
    for block in range(low, high):
        column, band = block // bands * GROUP, block % bands
        top, bottom = band * m // bands, (band + 1) * m // bands
        multiply_rows(
            data.reshape(-1), top * k, k, panels_of_group(right, column), top * n + column, n, bottom - top,
            min(GROUP, n - column), copied, end, strips,
        )  # fmt: skip
    return OK
