"""A tile of a product that fetches panels with other tiles: each of them a share, a few lines at a time.

Tiles of narrow vectors read the panels of a group one after the other.  A tile that fetched all lines of a panel would ask for
one in six cycles, more than third caches and memories deliver; the tiles after it would fetch nothing.
"""

from __future__ import annotations

from typing import Any

from ...memory import set_machine_form, twin
from .panel_products import TileCall, multiply_panels
from .register_tile import GROUP_PANELS, TILE_ROWS, panel_width, register_tile
from .tile_fetch import PacedFetch, function_type
from .tile_function import TileFunction

#: Steps along the inner axis in one iteration.  A tile of 6 rows by 2 registers takes 3 % less time than with 4.
_STEPS = 8
#: A tile asks for lines of its rows, about one line ahead: of this many rows in turn, a part of a line apart.  Rows some KB apart
#: share a set of the first cache, where lines of all rows at a time come late.
_ROWS_IN_TURN = 4
#: The fewest rows of such a tile.
_ASKING_ROWS = 4
#: Rows at fixed places from one pointer: an address is the sum of a pointer, a multiple of a distance (1 or 2) and a constant.
_ROWS_OF_POINTER = 3


@twin
def spans_group() -> bool:
    """Whether a tile of TILE_ROWS rows spans a group of panels: with the registers of AVX-512."""
    return False


def _spans_group(emitter: Any) -> Any:
    from llvmlite import ir

    from ...front_end.machine_types import BOOL, Value

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
    from ....core.tensor_types import ITEMSIZE

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

    @property
    def repeats(self) -> bool:
        """Whether the function goes from panel to panel: a call for each tile takes as long as 3 steps of it more."""
        return not self.tile.is_part and self.tile.width >= self.panel

    def _fill(self, function: Any) -> None:
        from llvmlite import ir

        if not self.repeats:
            super()._fill(function)
            return
        a, a_row, panels, panel_step, panel_row, out, out_row, inner, columns, *others = function.args
        entry, tiles, end = (function.append_basic_block(name) for name in ("entry", "tiles", "end"))
        b, width = ir.IRBuilder(entry), self.word(self.tile.width)
        b.branch(tiles)
        b.position_at_end(tiles)
        now, to, left = nodes = [self._join(b, {entry: value}) for value in (panels, out, columns)]
        self.emit_tile(b, (a, a_row, now, panel_step, panel_row, to, out_row, inner, left, *others))
        step = b.mul(panel_step, self.word(self.tile.width // self.panel))
        following = b.gep(now, [step]), b.gep(to, [width]), b.sub(left, width)
        for node, value in zip(nodes, following, strict=True):
            node.add_incoming(value, b.block)
        b.cbranch(b.icmp_signed(">=", following[-1], width), tiles, end)
        b.position_at_end(end)
        b.ret_void()

    def row_at(self, builder: Any, k: Any, panel_row: Any) -> Any:
        """The row ``k`` of panels whose rows follow each other: its elements from the first row."""
        return builder.mul(k, self.word(self.panel))

    def iteration(
        self, builder: Any, operands: tuple[Any, ...], before: Any, k: Any, steps: int, sums: list[Any]
    ) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Emit the steps with the rows at fixed places from a few pointers, which go along with the steps from step 0 on.

        Pointers to all rows take more instructions, and as many registers as the machine has.
        """
        if steps == 1:
            return super().iteration(builder, operands, before, k, steps, sums)
        rows_of_a, across, panel_row, _ = operands
        rows, nodes = self._going_rows(builder, rows_of_a, before, steps)
        for step in range(steps):
            at = self.row_at(builder, builder.add(k, self.word(step)), panel_row)
            sums = self._step(builder, rows, across, self.word(step), at, sums)
            self._after_step(builder, rows, step, steps)
        return sums, nodes

    def _going_rows(self, builder: Any, rows_of_a: list[Any], before: Any, steps: int) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """The pointers to the rows of an iteration, and the nodes of the loop's pointers with their next values."""
        from llvmlite import ir

        byte, places = ir.IntType(8).as_pointer(), range(0, self.rows, _ROWS_OF_POINTER)
        of_loop = [self._join(builder, {before: rows_of_a[i]}) for i in places]
        apart = builder.mul(builder.function.args[1], self.word(self.bits // 8))
        rows, nodes = [], []
        for i, node in zip(places, of_loop, strict=True):
            # no instruction: LLVM else computes the pointers from each other in every iteration
            now = builder.asm(function_type(node.type, [node.type]), "", "=r,0", [node], side_effect=False)
            nodes.append((node, builder.gep(now, [self.word(steps)])))
            for j in range(min(_ROWS_OF_POINTER, self.rows - i)):
                row = builder.gep(builder.bitcast(now, byte), [builder.mul(apart, self.word(j))])
                rows.append(builder.bitcast(row, node.type))
        return rows, nodes

    def _after_step(self, builder: Any, rows: list[Any], step: int, steps: int) -> None:
        """Ask for a line of a row, about a line ahead of the iteration, in each of the first steps."""
        from llvmlite import ir

        if self.rows >= _ASKING_ROWS:
            part = self.panel // _ROWS_IN_TURN
            for i in range(step, self.rows, steps):
                ahead = self.word(self.panel - part + i % _ROWS_IN_TURN * part)
                self.into_first_cache(builder, builder.gep(rows[i], [ahead]), is_write=0)
        # no instruction: LLVM keeps the loads of later steps behind it, which else wait in registers that the sums need
        builder.asm(function_type(ir.VoidType(), []), "", "~{memory}", [], side_effect=True)


set_machine_form(spans_group, lambda: _spans_group)
set_machine_form(multiply_paced, lambda: _machine)
