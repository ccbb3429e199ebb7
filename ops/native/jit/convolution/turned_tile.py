"""A tile of a product whose first matrix is turned: its rows are neighbours in memory, its columns anywhere apart.

Such are the positions of a picture, channels first: a few neighbours are the rows of a tile, channels are the inner axis.  They
need no packing: an instruction broadcasts an element from anywhere.
"""

from __future__ import annotations

from typing import Any

from ...memory import Array, generic, set_machine_form, twin
from ...static_values import at_compile_time, static_range
from ...vector_registers import vector_bytes
from ...vectors import store
from ..block_transpose import turn_block
from ..products.panel_products import TileCall
from ..products.register_tile import RegisterTile, panel_width
from ..products.tile_function import TileFunction


@twin
def multiply_turned(
    a: Any, a_at: int, a_step: int, panels: Any, panel_at: int, panel_step: int, out: Any, out_at: int, out_row: int, rows: int,
    inner: int, columns: int, add: int,
) -> None:  # fmt: skip
    """Compute ``out[i, j] = sum of a[k * a_step + i] * panels[j / width, k, j % width]``; add it to ``out[i, j]`` if ``add`` is
    not 0.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``; ``k`` below ``inner``, in order: the bits of
    ``multiply_panels``.  The rows of ``out`` are ``out_row`` elements apart, panels ``panel_step`` elements.  Contiguous arrays
    of one dtype, float32 or float64; ``*_at``: their first elements.
    """
    width = panel_width(out.itemsize)
    a, panels, out = a.reshape(-1), panels.reshape(-1), out.reshape(-1)
    for i in range(int(rows)):
        for j in range(int(columns)):
            total = out[int(out_at + i * out_row + j)] if add else out.dtype.type(0)
            for k in range(int(inner)):
                total += a[int(a_at + k * a_step + i)] * panels[int(panel_at + j // width * panel_step + k * width + j % width)]
            out[int(out_at + i * out_row + j)] = total


def _machine(
    emitter: Any, a: Any, a_at: Any, a_step: Any, panels: Any, panel_at: Any, panel_step: Any, out: Any, out_at: Any,
    out_row: Any, rows: Any, inner: Any, columns: Any, add: Any,
) -> None:  # fmt: skip
    from ....core.tensor_types import ITEMSIZE

    assert a.type.dtype == panels.type.dtype == out.type.dtype, (a, panels, out)
    b, word, itemsize = emitter.builder, emitter.word, ITEMSIZE[out.type.dtype]

    def pointer(array: Any, at: Any) -> Any:
        return b.gep(array.parts[0], [word(at)])

    number = word(rows).type
    words = [word(a_step), word(panel_step), number(panel_width(itemsize)), word(out_row), word(inner), word(columns), word(add)]
    call = _TurnedCall(b, out.parts[0].type.pointee, (pointer(a, a_at), pointer(panels, panel_at), pointer(out, out_at)), words)
    call.emit(word(rows), itemsize)


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


class _TurnedCall(TileCall):
    """Generator of the loop over the tiles of a group."""

    def _tile(self, rows: int, tile: RegisterTile, column: Any, left: Any) -> Any:
        b, word = self.builder, self.words[0].type
        a_step, panel_step, panel_row, out_row, inner, _, add = self.words
        function = _TurnedFunction(b.module, self.element, tile, rows)
        panel = word(function.panel)
        at = b.add(b.mul(panel_step, b.udiv(column, panel)), b.urem(column, panel))
        a, panels, out = self.pointers
        places = [a, a_step, b.gep(panels, [at]), panel_step, panel_row, b.gep(out, [column]), out_row]
        b.call(function.function(), [*places, inner, left, add, *[word(0)] * 5])
        return b.add(column, word(tile.width))


class _TurnedFunction(TileFunction):
    """Generator of the function of a tile: in place of the elements from row to row it takes those from column to column."""

    kind = "turned_tile"
    fetches = False  # the panel is in the first cache, and the sums too

    def _fetch_results(self, builder: Any, rows_of_out: list[Any]) -> None:
        pass

    def row_at(self, builder: Any, k: Any, panel_row: Any) -> Any:
        """The row ``k`` of panels whose rows follow each other: its elements from the first row."""
        return builder.mul(k, self.word(self.panel))

    def iteration(
        self, builder: Any, operands: tuple[Any, ...], before: Any, k: Any, steps: int, sums: list[Any]
    ) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Emit ``steps`` steps, of which each reads neighbours."""
        _, across, panel_row, _ = operands
        a, a_step, *_ = builder.function.args
        for step in range(steps):
            now = builder.add(k, self.word(step))
            column = builder.gep(a, [builder.mul(now, a_step)])
            rows = [builder.gep(column, [self.word(i)]) for i in range(self.rows)]
            sums = self._step(builder, rows, across, self.word(0), self.row_at(builder, now, panel_row), sums)
        return sums, []


set_machine_form(multiply_turned, lambda: _machine)
