"""A tile of a matrix product that packs a panel: it reads rows far apart, and stores the panel for the tiles that follow.

A step along the inner axis has many multiply-adds; the stores of the vectors that it reads take no further time.
"""

from __future__ import annotations

from typing import Any

from ...memory import set_machine_form, twin
from ..products.register_tile import TILE_ROWS, RegisterTile, panel_width, register_tile
from ..products.tile_fetch import Fetch
from ..products.tile_function import TileFunction

#: The fewest rows of a tile that packs: tiles of fewer have less to compute in a step than to store.
PACKING_ROWS = 5


@twin
def multiply_and_pack(
    a: Any, a_at: int, a_row: int, data: Any, at: int, data_row: int, panels: Any, panel_at: int, out: Any, out_at: int,
    out_row: int, rows: int, inner: int, add: int, later: Any, later_at: int, later_row: int,
) -> None:  # fmt: skip
    """Compute ``out[i, j] = sum of a[i, k] * data[k, j]``, added to ``out[i, j]`` if ``add`` is not 0, for a panel's columns.

    Store ``data[k, j]`` in the panel.  ``i`` below ``rows``, PACKING_ROWS to TILE_ROWS; ``k`` below ``inner``, in order: the bits
    of ``multiply_panels``.  Rows are ``a_row``, ``data_row`` and ``out_row`` elements apart.  Meanwhile fetch rows of ``later``
    as ``multiply_panels``.  Contiguous arrays of one dtype, float32 or float64; ``*at``: their first elements.
    """
    width = panel_width(out.itemsize)
    a, data, panels, out = a.reshape(-1), data.reshape(-1), panels.reshape(-1), out.reshape(-1)
    for k in range(int(inner)):
        for j in range(width):
            panels[int(panel_at + k * width + j)] = data[int(at + k * data_row + j)]
    for i in range(int(rows)):
        for j in range(width):
            total = out[int(out_at + i * out_row + j)] if add else out.dtype.type(0)
            for k in range(int(inner)):
                total += a[int(a_at + i * a_row + k)] * panels[int(panel_at + k * width + j)]
            out[int(out_at + i * out_row + j)] = total


def _machine(
    emitter: Any, a: Any, a_at: Any, a_row: Any, data: Any, at: Any, data_row: Any, panels: Any, panel_at: Any, out: Any,
    out_at: Any, out_row: Any, rows: Any, inner: Any, add: Any, later: Any, later_at: Any, later_row: Any,
) -> None:  # fmt: skip
    from ....core.tensor_types import ITEMSIZE

    arrays = (a, data, panels, out, later)
    assert len({array.type.dtype for array in arrays}) == 1, arrays
    b, word, itemsize = emitter.builder, emitter.word, ITEMSIZE[out.type.dtype]
    number = word(rows).type

    def pointer(array: Any, first: Any) -> Any:
        return b.gep(array.parts[0], [word(first)])

    def between(begin: Any, end: Any) -> Any:
        """The elements from a pointer to another."""
        return b.sdiv(b.sub(b.ptrtoint(end, number), b.ptrtoint(begin, number)), number(itemsize), flags=["exact"])

    of_a, of_data, of_out = pointer(a, a_at), pointer(data, at), pointer(out, out_at)
    to_panel, to_later = between(of_data, pointer(panels, panel_at)), between(of_a, pointer(later, later_at))
    after = b.append_basic_block("end")
    of_rows = b.switch(word(rows), after)
    for n in range(PACKING_ROWS, TILE_ROWS + 1):
        case = b.append_basic_block("rows")
        of_rows.add_case(number(n), case)
        b.position_at_end(case)
        widest = register_tile(itemsize, n)
        tile = RegisterTile(min(widest.vectors, panel_width(itemsize) // widest.lanes), widest.lanes)
        function = _PackingFunction(b.module, out.parts[0].type.pointee, tile, n).function()
        for column in range(0, panel_width(itemsize), tile.width):
            places = [of_a, word(a_row), b.gep(of_data, [number(column)]), number(0), word(data_row)]
            places += [b.gep(of_out, [number(column)]), word(out_row), word(inner), number(tile.width), word(add)]
            b.call(function, [*places, to_panel, number(0), number(0), to_later, word(later_row)])
        b.branch(after)
    b.position_at_end(after)


class _FetchRows(Fetch):
    """Generator of what a tile fetches that reads its columns where they are: rows of the next tile alone."""

    def is_wanted(self, builder: Any) -> Any:
        from llvmlite import ir

        return ir.IntType(1)(1)


class _PackingFunction(TileFunction):
    """Generator of the function of a tile: in place of elements ahead it takes the elements from the data to the panel."""

    kind, shared = "packing_tile", False
    fetch_kind = _FetchRows

    def _step(self, builder: Any, rows_of_a: list[Any], across: list[Any], k: Any, at: Any, sums: list[Any]) -> list[Any]:
        to_panel = builder.function.args[10]
        read = [self._load(builder, builder.gep(pointer, [at]), 0, None) for pointer, _ in across]
        after = super()._step(builder, rows_of_a, across, k, at, sums)
        # behind the products: vectors that are loaded before a store, and used behind it, would need more registers
        target = builder.add(to_panel, builder.mul(k, self.word(self.panel)))
        for vector, (pointer, _) in zip(read, across, strict=True):
            self._store(builder, vector, builder.gep(pointer, [target]), 0, None)
        return after


set_machine_form(multiply_and_pack, lambda: _machine)
