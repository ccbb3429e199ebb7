"""Products of a few rows with a group of panels: the loop over the tiles of a group."""

from __future__ import annotations

from typing import Any

from ...memory import Array, generic, set_machine_form, twin
from ...vectors import load, store
from .register_tile import TILE_ROWS, RegisterTile, panel_width, register_tile, tiles_of_columns
from .tile_function import TileFunction


@twin
def multiply_panels(
    a: Any, a_at: int, a_row: int, panels: Any, panel_at: int, panel_step: int, panel_row: int, out: Any, out_at: int,
    out_row: int, rows: int, inner: int, columns: int, add: int, ahead: int, first: int, end: int, later: Any, later_at: int,
    later_row: int,
) -> None:  # fmt: skip
    """Compute ``out[i, j] = sum of a[i, k] * panels[j / width, k, j % width]``; add it to ``out[i, j]`` if ``add`` is not 0.

    Meanwhile fetch the elements ``ahead`` of those of the panels ``first`` to ``end`` (exclusive) of the group, and the rows of
    ``later`` that begin at element ``later_at`` and are ``later_row`` elements apart, if there are FETCH_ROWS rows.  An ``ahead``
    or a ``later_row`` of 0 fetches nothing new: for rows that are in a cache.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``; ``k`` below ``inner``, in order.  The rows of ``a`` are
    ``a_row`` elements apart, those of ``out`` ``out_row`` elements, panels ``panel_step`` elements, rows of a panel
    ``panel_row``: ``width``, or as many elements as a matrix by rows has columns.
    Contiguous arrays of one dtype, float32 or float64; ``*_at``: their first elements.
    """
    width = panel_width(out.itemsize)
    a, panels, out = a.reshape(-1), panels.reshape(-1), out.reshape(-1)
    for i in range(int(rows)):
        for j in range(int(columns)):
            total = out[int(out_at + i * out_row + j)] if add else out.dtype.type(0)
            for k in range(int(inner)):
                total += (
                    a[int(a_at + i * a_row + k)] * panels[int(panel_at + j // width * panel_step + k * panel_row + j % width)]
                )
            out[int(out_at + i * out_row + j)] = total


@generic
def copy_line(source: Array, at: int, target: Array, to: int) -> None:
    """Copy a row of a panel: PANEL_BYTES from element ``at`` to element ``to``.  Arrays of one axis and of one dtype."""
    store(target, to, load(source, at, panel_width(target.itemsize)))


def _machine(
    emitter: Any, a: Any, a_at: Any, a_row: Any, panels: Any, panel_at: Any, panel_step: Any, panel_row: Any, out: Any,
    out_at: Any, out_row: Any, rows: Any, inner: Any, columns: Any, add: Any, ahead: Any, first: Any, end: Any,
    later: Any, later_at: Any, later_row: Any,
) -> None:  # fmt: skip
    from ....core.tensor_types import ITEMSIZE

    assert a.type.dtype == panels.type.dtype == out.type.dtype == later.type.dtype, (a, panels, out, later)
    b, word, itemsize = emitter.builder, emitter.word, ITEMSIZE[out.type.dtype]

    def pointer(array: Any, at: Any) -> Any:
        return b.gep(array.parts[0], [word(at)])

    pointers = pointer(a, a_at), pointer(panels, panel_at), pointer(out, out_at)
    words = [word(a_row), word(panel_step), word(panel_row), word(out_row), word(inner), word(columns), word(add)]
    number = word(rows).type
    apart = b.sub(b.ptrtoint(pointer(later, later_at), number), b.ptrtoint(pointers[0], number))
    words += [word(ahead), word(first), word(end), b.sdiv(apart, number(itemsize), flags=["exact"]), word(later_row)]
    TileCall(b, out.parts[0].type.pointee, pointers, words).emit(word(rows), itemsize)


class TileCall:
    """Generator of the loop over the tiles of a group: as wide tiles as fit, then a part of a tile.

    A part is one vector; with registers for masks (AVX-512) as many as the columns need: the rows of the other matrix are read
    once for all of them.
    """

    def __init__(self, builder: Any, element: Any, pointers: tuple[Any, Any, Any], words: list[Any]) -> None:
        self.builder, self.element, self.pointers, self.words = builder, element, pointers, words
        self.function_kind = TileFunction

    def emit(self, rows: Any, itemsize: int) -> None:
        """Emit the loops for any number of rows, of which one runs."""
        b = self.builder
        after = b.append_basic_block("end")
        of_rows = b.switch(rows, after)
        for n in range(1, TILE_ROWS + 1):
            case = b.append_basic_block("rows")
            of_rows.add_case(rows.type(n), case)
            b.position_at_end(case)
            self.tiles(n, register_tile(itemsize, n), after)
        b.position_at_end(after)

    def tiles(self, rows: int, tile: RegisterTile, end: Any) -> None:
        """Emit the loop for tiles of ``rows`` rows, of the width of ``tile`` at most; then control goes to ``end``."""
        b, word, columns = self.builder, self.words[0].type, self.words[5]
        entry, step = b.block, b.append_basic_block("tiles")
        b.branch(step)
        b.position_at_end(step)
        column = b.phi(word)
        column.add_incoming(word(0), entry)
        left = b.sub(columns, column)
        some = b.append_basic_block("some")
        b.cbranch(b.icmp_signed(">", left, word(0)), some, end)
        b.position_at_end(some)
        for part in tiles_of_columns(tile):
            fits, less = b.append_basic_block("fits"), b.append_basic_block("less")
            is_fit = b.icmp_signed("<=" if part.is_part else ">=", left, word(part.width))
            b.cbranch(is_fit, fits, less)
            b.position_at_end(fits)
            column.add_incoming(self._tile(rows, part, column, left), b.block)
            b.branch(step)
            b.position_at_end(less)
        b.unreachable()

    def _tile(self, rows: int, tile: RegisterTile, column: Any, left: Any) -> Any:
        """Call the function of a tile that begins at ``column``; return the column after the tile."""
        b, word = self.builder, self.words[0].type
        a_row, panel_step, panel_row, out_row, inner, _, add, ahead, first, end, later_at, later_row = self.words
        # the first columns fetch the rows: a request takes time, of lines that are in the cache too
        is_first = b.icmp_signed("==", column, word(0))
        later = [later_at, b.select(is_first, later_row, word(0))]
        function = self.function_kind(b.module, self.element, tile, rows)
        panel = b.udiv(column, word(function.panel))
        at = b.add(b.mul(panel_step, panel), b.urem(column, word(function.panel)))
        a, panels, out = self.pointers
        places = [a, a_row, b.gep(panels, [at]), panel_step, panel_row, b.gep(out, [column]), out_row]
        fetched = [ahead, b.sub(first, panel), b.sub(end, panel), *later]
        b.call(function.function(), [*places, inner, left, add, *fetched])
        return b.add(column, b.and_(left, word(-tile.width)) if function.repeats else word(tile.width))


set_machine_form(multiply_panels, lambda: _machine)
