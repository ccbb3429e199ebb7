"""A tile of a product that fetches panels with other tiles: each of them a share, a few lines at a time.

Tiles of narrow vectors read the panels of a group one after the other.  A tile that fetched all lines of a panel would ask for
one in six cycles, more than third caches and memories deliver; the tiles after it would fetch nothing.
"""

from __future__ import annotations

from typing import Any

from ..memory import set_machine_form, twin
from .product_tile import GROUP_PANELS, TILE_ROWS, TileCall, TileFunction, multiply_panels, panel_width, register_tile
from .tile_fetch import PacedFetch, function_type

#: Steps along the inner axis in one iteration.  A tile of 6 rows by 2 registers takes 3 % less time than with 4.
_STEPS = 8
#: A tile asks for lines of its rows, about one line ahead: of this many rows in turn, a part of a line apart.  Rows some KB apart
#: share a set of the first cache, where lines of all rows at a time come late.
_ROWS_IN_TURN = 4
#: The fewest rows of such a tile.
_ASKING_ROWS = 4


@twin
def spans_group() -> bool:
    """Whether a tile of TILE_ROWS rows spans a group of panels: with the registers of AVX-512."""
    return False


def _spans_group(emitter: Any) -> Any:
    from llvmlite import ir

    from ..front_end.machine_types import BOOL, Value

    spans = register_tile(4, TILE_ROWS).width == GROUP_PANELS * panel_width(4)  # for every size of elements: bytes count
    return Value(BOOL, (ir.IntType(1)(int(spans)),))


@twin
def multiply_paced(
    a: Any, a_at: int, a_row: int, panels: Any, panel_at: int, panel_step: int, out: Any, out_at: int, out_row: int, rows: int,
    inner: int, columns: int, add: int, ahead: int, pace: int,
) -> None:  # fmt: skip
    """Compute as ``multiply_panels``, of panels whose rows follow each other; meanwhile fetch elements of panels.

    Of each panel of the group fetch ``pace`` elements for each step along the inner axis, from the element ``ahead`` of its first
    on; a pace of 0 fetches nothing.
    """
    multiply_panels(
        a, a_at, a_row, panels, panel_at, panel_step, panel_width(out.itemsize), out, out_at, out_row, rows, inner, columns, add,
        0, GROUP_PANELS, GROUP_PANELS, a, 0, 0,
    )  # fmt: skip


def _machine(
    emitter: Any, a: Any, a_at: Any, a_row: Any, panels: Any, panel_at: Any, panel_step: Any, out: Any, out_at: Any,
    out_row: Any, rows: Any, inner: Any, columns: Any, add: Any, ahead: Any, pace: Any,
) -> None:  # fmt: skip
    from ...core.tensor_types import ITEMSIZE

    assert a.type.dtype == panels.type.dtype == out.type.dtype, (a, panels, out)
    b, word, itemsize = emitter.builder, emitter.word, ITEMSIZE[out.type.dtype]
    number = word(rows).type

    def pointer(array: Any, at: Any) -> Any:
        return b.gep(array.parts[0], [word(at)])

    words = [word(a_row), word(panel_step), number(panel_width(itemsize)), word(out_row), word(inner), word(columns), word(add)]
    words += [word(ahead), number(0), number(0), word(pace), number(0)]
    call = TileCall(b, out.parts[0].type.pointee, (pointer(a, a_at), pointer(panels, panel_at), pointer(out, out_at)), words)
    call.function_kind = _PacedFunction
    call.emit(word(rows), itemsize)


class _PacedFunction(TileFunction):
    """Generator of the function of a tile: in place of the rows ahead it takes the pace."""

    kind = "paced_tile"
    fetch_kind = PacedFetch
    most_steps = _STEPS

    def after_step(self, builder: Any, rows_of_a: list[Any], k: Any, step: int, steps: int) -> None:
        """Ask for a line of a row, about a line ahead of ``k``, in each of the first steps."""
        from llvmlite import ir

        if steps == 1:
            return
        if self.rows >= _ASKING_ROWS:
            part = self.panel // _ROWS_IN_TURN
            for i in range(step, self.rows, steps):
                at = builder.add(k, self.word(self.panel - part + i % _ROWS_IN_TURN * part))
                self.into_first_cache(builder, builder.gep(rows_of_a[i], [at]), is_write=0)
        # no instruction: LLVM keeps the loads of later steps behind it, which else wait in registers that the sums need
        builder.asm(function_type(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)


set_machine_form(spans_group, lambda: _spans_group)
set_machine_form(multiply_paced, lambda: _machine)
