"""A tile of a product whose first matrix is turned: its rows are neighbours in memory, its columns anywhere apart.

Such are the positions of a picture, channels first: a few neighbours are the rows of a tile, channels are the inner axis.  They
need no packing: an instruction broadcasts an element from anywhere.
"""

from __future__ import annotations

from ...inlining import keep_out_of_line, keep_short, shared
from ...memory import Array, generic
from ...static_values import at_compile_time, static, static_range
from ...vector_registers import vector_bytes
from ...vectors import Mask, Vector, store
from ..block_transpose import turn_block
from ..products.operands import Panels, Rows, flat, rows_from
from ..products.register_tile import TILE_ROWS, RegisterTile, panel_width, reading_packed
from ..products.tile_steps import STEPS, add_products, column_of, each_tile, load_sums, masks_of, no_sums, steps_of, store_sums


@generic
def multiply_transposed(a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, add: int) -> None:
    """Compute ``out[i, j] = sum of a[k, i] * panels[j / width, k, j % width]``; add it to ``out[i, j]`` if ``add`` is not 0.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``; ``k`` below ``inner``, in order: the bits of
    ``multiply_panels``.  The rows of a panel follow each other.  Contiguous arrays of one dtype, float32 or float64.
    """
    for n in static_range(1, TILE_ROWS + 1):
        if rows == n:
            of_panels = Panels(panels.data.reshape(-1), panels.at, panels.step, panel_width(out.data.itemsize))
            transposed_tiles(flat(a), of_panels, flat(out), n, inner, columns, add)


@shared
@generic
def transposed_tiles(a: Rows, panels: Panels, out: Rows, rows: int, inner: int, columns: int, add: int) -> None:
    """As ``multiply_transposed``, for a static number of rows, and panels with a static width."""
    each_tile(_compute, rows_from(a, 0), panels, out, rows, inner, columns, add)


@generic
def _compute(a: Rows, panels: Panels, out: Rows, tile: RegisterTile, inner: int, columns: int, column: int, add: int) -> None:
    """A tile: the panel is in the first cache, and the sums too."""
    keep_out_of_line(), keep_short()
    masks, steps, sums = masks_of(columns, tile), steps_of(tile, out.data.itemsize, STEPS), no_sums(out, tile)
    if add != 0:
        load_sums(sums, out, masks, tile)
    whole = inner & -steps
    for k in range(0, whole, steps):
        _add_steps(sums, a, k, steps, panels, masks, tile)
    if steps > 1:
        for k in range(whole, inner):
            _add_steps(sums, a, k, static(1), panels, masks, tile)
    store_sums(out, sums, masks, tile)


@generic
def _add_steps(
    sums: list[Vector], a: Rows, first: int, steps: int, panels: Panels, masks: list[Mask], tile: RegisterTile
) -> None:
    for n in static_range(steps):
        down = column_of(a.data, a.at + (first + n) * a.step, static(1), tile)
        add_products(sums, down, panels, (first + n) * panels.row, masks, reading_packed(tile))


@at_compile_time
def _square_lanes(itemsize: int) -> int:
    return min(vector_bytes() // itemsize, panel_width(itemsize))


@generic
def square_side(source: Array) -> int:
    """The rows and columns of the square that ``turn_square`` turns: elements of a vector, at most those of a panel's row."""
    return _square_lanes(source.itemsize)


@generic
def turn_square(source: Array, at: int, stride: int, target: Array, to: int, to_stride: int) -> None:
    """Compute ``target[to + r * to_stride + c] = source[at + r + c * stride]`` for ``r`` and ``c`` below ``square_side``.

    Rows of whole lines a page apart push each other out of the first cache: a square reads fewer of them than that has ways.
    Arrays of one axis, of one dtype, float32 or float64.
    """
    rows = turn_block(source, at, stride, _square_lanes(source.itemsize))
    for r in static_range(len(rows)):
        store(target, to + r * to_stride, rows[r])
