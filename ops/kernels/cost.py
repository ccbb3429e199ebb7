"""What it takes to compute an element: a rough count, an addition being 1, for decisions that need no more."""

from __future__ import annotations

from collections.abc import Iterable

from .expression import APPLY, LOAD, Cell, Cells

#: The cost of what is not as quick as an addition.
_COSTS = {"divide": 4, "sqrt": 4, **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum", "negative", "abs"), 1)}
_COSTLY = 20
#: What takes a nanosecond, about.
PER_NS = 60
#: To read an element from memory, or to write it there, beside what is done with it.
MEMORY = 2


def cost_of(cell: Cell) -> int:
    """What one cell adds, other than by reading memory."""
    return _COSTS.get(cell.what, _COSTLY) if cell.kind == APPLY else 1


def cost_of_element(cells: Cells, roots: Iterable[int]) -> int:
    """What it takes to compute ``roots`` once and to store a result; the arithmetic of indices is left out."""
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
