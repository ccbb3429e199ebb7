"""Scalar expressions as numbered cells: equal expressions are one cell, arguments come before what uses them.

``compute`` expressions are trees, and trees of a fused group would be exponential where values are shared.  Here each
operator's tree is taken apart at once and stays shallow: the indices it is given are references to cells.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...shape_funcs.dims import Dim, const
from ..compute import Apply, Axis, Cast, Guard, Literal, Load, Scalar, Select, Size, parts
from ..ty import is_float

LITERAL, AXIS, SIZE, LOAD, APPLY, CAST, SELECT, GUARD, LOCAL = (
    "literal", "axis", "size", "load", "apply", "cast", "select", "guard", "local",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """One operation.  ``what`` is: of a literal the text of its value, of an axis its number, of a size the Dim, of a load
    the value read, of an application the function, of a guard the status, of a local its name.

    The arguments of a load are its indices; of a select and a guard, the condition comes first.
    """

    kind: str
    dtype: str
    args: tuple[int, ...] = ()
    what: Any = None


@dataclass(frozen=True, slots=True)
class Reference(Scalar):
    """A cell, as an expression."""

    cell: int
    dtype: str


#: What is known of int64 index arithmetic at once.
_FOLD: dict[str, Callable[[int, int], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "maximum": max,
    "minimum": min,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


class Cells:
    """A table of cells, each once."""

    def __init__(self) -> None:
        self.table: list[Cell] = []
        self._number: dict[Cell, int] = {}
        self._taken: dict[int, tuple[Scalar, int]] = {}  # by id; the expression is kept, or another would get its id

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, number: int) -> Cell:
        return self.table[number]

    def put(self, cell: Cell) -> int:
        """The number of ``cell``, simplified."""
        simple = self._simplified(cell)
        if isinstance(simple, int):
            return simple
        if simple not in self._number:
            self._number[simple] = len(self.table)
            self.table.append(simple)
        return self._number[simple]

    def literal(self, value: float | int | bool, dtype: str = "int64") -> int:
        """The cell of a constant."""
        return self.put(Cell(LITERAL, dtype, (), repr(float(value) if is_float(dtype) else value)))

    def apply(self, function: str, *args: int, dtype: str | None = None) -> int:
        """The cell of ``function(args)``; the dtype is that of the first argument unless given."""
        return self.put(Cell(APPLY, dtype or self[args[0]].dtype, args, function))

    def size(self, dim: Dim) -> int:
        """The cell of a size."""
        known = const(dim)
        return self.put(Cell(SIZE, "int64", (), dim)) if known is None else self.literal(known)

    def integer(self, number: int) -> int | None:
        """The value of an int64 literal, None for any other cell."""
        cell = self[number]
        return int(cell.what) if cell.kind == LITERAL and cell.dtype == "int64" else None

    def reference(self, number: int) -> Scalar:
        """The cell as an expression; a literal index as a literal."""
        known = self.integer(number)
        return Reference(number, self[number].dtype) if known is None else Literal(known, "int64")

    def expression(self, scalar: Scalar) -> int:
        """The cell of an expression, however deep it is.

        An object that stands in several places is taken apart once.
        """
        stack = [(scalar, False)]
        while stack:
            part, ready = stack.pop()
            if ready:
                self._taken[id(part)] = part, self._apart(part)
            elif id(part) not in self._taken:
                stack.append((part, True))
                stack += [(p, False) for p in reversed(parts(part))]
        return self._taken[id(scalar)][1]

    def _apart(self, scalar: Scalar) -> int:
        """The cell of an expression whose parts have theirs."""
        match scalar:
            case Reference():
                return scalar.cell
            case Literal():
                return self.literal(scalar.value, scalar.dtype)
            case Axis():
                return self.put(Cell(AXIS, "int64", (), scalar.number))
            case Size():
                return self.size(scalar.dim)
            case Load():
                return self.put(Cell(LOAD, scalar.dtype, self._each(scalar.index), scalar.param))
            case Apply():
                return self.apply(scalar.function, *self._each(scalar.args), dtype=scalar.dtype)
            case Cast():
                return self.put(Cell(CAST, scalar.dtype, self._each((scalar.value,))))
            case Select():
                return self.put(Cell(SELECT, scalar.dtype, self._each(parts(scalar))))
            case Guard():
                return self.put(Cell(GUARD, scalar.dtype, self._each(parts(scalar)), scalar.status))
        raise AssertionError(scalar)

    def _each(self, scalars: Iterable[Scalar]) -> tuple[int, ...]:
        return tuple(self._taken[id(s)][1] for s in scalars)

    def _simplified(self, cell: Cell) -> Cell | int:
        if cell.kind in (SELECT, GUARD) and self[cell.args[0]].kind == LITERAL:
            holds = self[cell.args[0]].what == "True"
            if cell.kind == SELECT:
                return cell.args[1 if holds else 2]
            return cell.args[1] if holds else cell
        if cell.kind == CAST and cell.dtype == "int64" and self[cell.args[0]].kind == LITERAL:
            source = self[cell.args[0]]
            return self.literal(int(source.what == "True")) if source.dtype == "bool" else cell
        if cell.kind == APPLY and len(cell.args) == 2 and self[cell.args[0]].dtype == "int64":
            return self._arithmetic(cell)
        return cell

    def _arithmetic(self, cell: Cell) -> Cell | int:
        """int64 arithmetic on constants, and with 0 and 1."""
        a, b = cell.args
        x, y = self.integer(a), self.integer(b)
        if x is not None and y is not None and cell.what in _FOLD:
            value = _FOLD[cell.what](x, y)
            if isinstance(value, bool) or -(2**63) <= value < 2**63:
                return self.literal(value, cell.dtype)
        if cell.what == "multiply" and 0 in (x, y):
            return self.literal(0)
        if cell.what == "add" and 0 in (x, y):
            return b if x == 0 else a
        if cell.what == "multiply" and 1 in (x, y):
            return b if x == 1 else a
        return a if cell.what == "subtract" and y == 0 else cell


def resolved(cells: Cells, meaning: dict[int, int], roots: Sequence[int]) -> tuple[Cells, list[int]]:
    """New cells of what ``roots`` need, and the roots in it; a cell that is a key of ``meaning`` stands for another."""
    out, new = Cells(), {}
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        number, ready = stack.pop()
        if number in new:
            continue
        if number in meaning:
            target = meaning[number]
            if target in new:
                new[number] = new[target]
            else:
                stack += [(number, False), (target, False)]
            continue
        cell = cells[number]
        if ready:
            new[number] = out.put(replace(cell, args=tuple(new[a] for a in cell.args)))
        else:
            stack.append((number, True))
            stack += [(a, False) for a in reversed(cell.args)]
    return out, [new[r] for r in roots]
