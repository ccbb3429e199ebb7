"""Rough cost model of an element of a loop nest, in units of an addition."""

from __future__ import annotations

from collections.abc import Iterable

from .expression import APPLY, LOAD, Cell, Cells

#: Cost of scalar functions; functions missing here cost ``COSTLY``.
_COSTS = {
    **dict.fromkeys(("divide", "sqrt", "trunc", "round", "floor_of_trunc", "ceil_of_trunc", "left_shift", "right_shift"), 4),
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum", "negative", "abs", "where"), 1),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isinf", "isfinite"), 1),
    **dict.fromkeys(("and", "or", "xor", "logical_not", "bitwise_not"), 1),
}  # fmt: skip
COSTLY = 20
#: Cost units per nanosecond, approximately.
PER_NS = 60
#: Cost of a load or a store of an element.
MEMORY = 2


def cost_of(cell: Cell) -> int:
    """The cost of a cell without loads."""
    return _COSTS.get(cell.what, COSTLY) if cell.kind == APPLY else 1


def cost_of_element(cells: Cells, roots: Iterable[int]) -> int:
    """The cost of computing ``roots`` once and storing a result; index arithmetic is free."""
    total, seen, stack = MEMORY, set[int](), list(roots)
    while stack:
        number = stack.pop()
        if number in seen:
            continue
        seen.add(number)
        cell = cells[number]
        stack += cell.args
        if cell.kind == LOAD:
            total += MEMORY
        elif cell.kind == APPLY and cell.dtype != "int64":
            total += cost_of(cell)
    return total
