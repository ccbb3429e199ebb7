"""A tile of a matrix product whose second matrix has its rows anywhere in memory: each at an offset of its own."""

from __future__ import annotations

from typing import Any

from ...memory import set_machine_form, twin
from ..products.panel_products import TileCall
from ..products.register_tile import PANEL_BYTES
from ..products.tile_function import TileFunction


@twin
def multiply_shifted(
    a: Any, a_at: int, a_row: int, b: Any, b_at: int, offsets: Any, first: int, out: Any, out_at: int, out_row: int, rows: int,
    inner: int, columns: int,
) -> None:  # fmt: skip
    """Compute ``out[i, j] = sum of a[i, k] * b[offsets[first + k] + j]``.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``, at most GROUP_PANELS times the width of a panel; ``k`` below
    ``inner``, in order: the bits of ``multiply_panels``.  Rows are ``a_row`` and ``out_row`` elements apart.  Contiguous arrays
    of one dtype, float32 or float64; ``*_at``: their first elements.  ``offsets``: an int64 array.
    """
    a, b, out = a.reshape(-1), b.reshape(-1), out.reshape(-1)
    for i in range(int(rows)):
        for j in range(int(columns)):
            total = out.dtype.type(0)
            for k in range(int(inner)):
                total += a[int(a_at + i * a_row + k)] * b[int(b_at + offsets[int(first + k)] + j)]
            out[int(out_at + i * out_row + j)] = total


def _machine(
    emitter: Any, a: Any, a_at: Any, a_row: Any, b: Any, b_at: Any, offsets: Any, first: Any, out: Any, out_at: Any,
    out_row: Any, rows: Any, inner: Any, columns: Any,
) -> None:  # fmt: skip
    from ....core.tensor_types import ITEMSIZE

    assert a.type.dtype == b.type.dtype == out.type.dtype, (a, b, out)
    builder, word, itemsize = emitter.builder, emitter.word, ITEMSIZE[out.type.dtype]

    def pointer(array: Any, at: Any) -> Any:
        return builder.gep(array.parts[0], [word(at)])

    number = word(rows).type
    table = builder.ptrtoint(pointer(offsets, first), number)
    words = [word(a_row), number(PANEL_BYTES // itemsize), table, word(out_row), word(inner), word(columns), *[number(0)] * 6]
    call = TileCall(builder, out.parts[0].type.pointee, (pointer(a, a_at), pointer(b, b_at), pointer(out, out_at)), words)
    call.function_kind = _ShiftedFunction
    call.emit(word(rows), itemsize)


class _ShiftedFunction(TileFunction):
    """Generator of the function of a tile: in place of the elements from row to row it takes the address of the offsets."""

    kind = "shifted_tile"
    fetches = False  # rows at offsets of their own

    def row_at(self, builder: Any, k: Any, panel_row: Any) -> Any:
        table = builder.inttoptr(panel_row, self.word.as_pointer())
        return builder.load(builder.gep(table, [k]))


set_machine_form(multiply_shifted, lambda: _machine)
