"""Fetching into the second cache while a tile of a product is computed: lines of panels, and rows of the next tile."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from .register_tile import TILE_ROWS

#: The most rows of a tile that fetch one line of the panels in an iteration, after which the machine fetches the others: more
#: fetches at a time than it can wait for take longer than they save.
_FETCH_ONE = 4
#: The most rows of a tile that are fetched in turn: a power of 2.
_TURNS = 8
#: Lines of all panels that a tile fetches in an iteration with other tiles: for more, addresses do not fit registers.
_LINES = 8


def function_type(result: Any, arguments: list[Any]) -> Any:
    """LLVM's type of a function."""
    from llvmlite import ir

    return ir.FunctionType(result, arguments)


class Fetch:
    """Generator of what a tile fetches: lines of the panels ahead, and of the rows of the next tile.

    Rows alone are fetched with chunks of as many steps as a line of a row has elements.

    ``panels``: pointers to the first row of each panel of the tile;
    ``a_ahead``: the elements from ``a`` to the rows of the next tile, which are ``later_row`` elements apart.
    """

    #: Whether rows alone are fetched with chunks of steps, which then have no instructions but those of the products.
    in_chunks = True

    def __init__(
        self, function: Any, a: Any, panels: list[Any], panel_row: Any, ahead: Any, first: Any, end: Any, a_ahead: Any,
        later_row: Any,
    ) -> None:  # fmt: skip
        self.function, self.word = function, function.word
        self.a, self.panel_row, self.a_ahead, self.later_row = a, panel_row, a_ahead, later_row
        self.panels, self.ahead, self.first, self.end = panels, ahead, first, end
        self.chosen: list[Any] = []
        #: Whether lines of panels are fetched; None if there are none.
        self.of_panels: Any = None

    def is_wanted(self, builder: Any) -> Any:
        """Whether there is something to fetch; emits the pointers: a panel that fetches nothing has its own elements."""
        self.of_panels = builder.icmp_signed("!=", self.word(0), self.word(0))
        for panel, pointer in enumerate(self.panels):
            number = self.word(panel)
            is_ahead = builder.and_(builder.icmp_signed("<=", self.first, number), builder.icmp_signed("<", number, self.end))
            self.chosen.append(builder.gep(pointer, [builder.select(is_ahead, self.ahead, self.word(0))]))
            self.of_panels = builder.or_(self.of_panels, is_ahead)
        return builder.or_(builder.icmp_signed("!=", self.later_row, self.word(0)), self.of_panels)

    def emit(self, builder: Any, k: Any, steps: int) -> None:
        """Fetch lines for ``steps`` steps from ``k`` on into the second cache; no address faults.

        Each row of the next tile is fetched in turn: a line of it while the steps go along a line, or half a line.
        """
        for step in range(0, steps, steps if self.function.rows <= _FETCH_ONE else 1):
            at = self.function.row_at(builder, builder.add(k, self.word(step)), self.panel_row)
            for pointer in self.chosen:
                self._line(builder, builder.gep(pointer, [at]))
        together = max(1, _TURNS * steps // self.function.panel)
        along = builder.and_(k, self.word(_TURNS * steps // together - 1))
        turn = builder.udiv(along, self.word(steps // together))
        first = builder.add(self.a_ahead, builder.add(builder.xor(k, along), builder.mul(turn, self.later_row)))
        for n in range(together):
            self._line(builder, builder.gep(self.a, [builder.add(first, builder.mul(self.later_row, self.word(n)))]))

    def emit_rows(self, builder: Any, k: Any) -> None:
        """Fetch a line of each row of the next tile into the second cache, for a chunk of steps from ``k`` on."""
        first = builder.add(self.a_ahead, k)
        for n in range(TILE_ROWS):
            self._line(builder, builder.gep(self.a, [builder.add(first, builder.mul(self.later_row, self.word(n)))]))

    def _line(self, builder: Any, pointer: Any) -> None:
        from llvmlite import ir

        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        fetch = self.function.declared("llvm.prefetch.p0", function_type(ir.VoidType(), [byte, flag, flag, flag]))
        # a read, into the second cache, of data
        builder.call(fetch, [builder.bitcast(pointer, byte), flag(0), flag(2), flag(1)])


class PacedFetch(Fetch):
    """Generator of what a tile fetches that shares the fetching of panels with other tiles: ``pace`` elements a step.

    A step of less than a line asks for some lines twice, which takes no time.  Tiles of several panels ask for every second line
    or fewer of each; the machine fetches the others.
    """

    in_chunks = False
    #: Lines of all panels that are fetched in an iteration.
    lines = _LINES

    @property
    def pace(self) -> Any:
        """The elements from a step to the next; in the place of rows of the next tile."""
        return self.a_ahead

    def is_wanted(self, builder: Any) -> Any:
        """Whether there is something to fetch; emits the pointers."""
        self.chosen = [builder.gep(panel, [self.ahead]) for panel in self.panels]
        return builder.icmp_signed("!=", self.pace, self.word(0))

    def loops(self, builder: Any, steps: int, run: Callable[[Fetch], list[Any]]) -> list[Any]:
        """The results of one of two loops: at a slow pace an iteration goes along one line at most, and fetches one."""
        if steps == 1:
            return run(self)
        slow = copy(self)
        slow.lines = 1
        is_slow = builder.icmp_signed("<=", builder.mul(self.pace, self.word(steps)), self.word(self.function.panel))
        return self.function.choice(builder, is_slow, lambda: run(slow), lambda: run(self))  # type: ignore[no-any-return]

    def emit(self, builder: Any, k: Any, steps: int) -> None:
        """Fetch lines for ``steps`` steps from ``k`` on into the second cache; no address faults."""
        lines = max(1, self.lines // len(self.chosen))
        for step in range(0, steps, max(1, steps // lines)):
            at = builder.mul(builder.add(k, self.word(step)), self.pace)
            for pointer in self.chosen:
                self._line(builder, builder.gep(pointer, [at]))
