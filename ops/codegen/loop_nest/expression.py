"""Scalar expressions as a table of numbered cells: common subexpressions are one cell, arguments precede their users.

``compute`` expressions are trees, and the tree of a fused group would be exponential in size if it has shared values.  Each
operator's tree is therefore put in the table immediately and stays shallow: its indices are references to cells.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ....shape_funcs.symbolic.dim import Dim, const
from ...core.compute import Apply, Axis, Cast, Guard, Literal, Load, Scalar, Select, Size, parts
from ...core.tensor_types import HALVES, is_float
from .constant_powers import constant_power
from .scalar_functions import ROOT_OF_HALF

LITERAL, AXIS, SIZE, LOAD, APPLY, CAST, SELECT, GUARD, LOCAL = (
    "literal", "axis", "size", "load", "apply", "cast", "select", "guard", "local",
)  # fmt: skip


class Cell(NamedTuple):
    """One operation; a tuple, since a table looks each one up.

    ``what``: the value's text of a literal, the number of an axis, the Dim of a size, the value that a load reads, the function
    of an application, the status of a guard, the name of a local.  The arguments of a load are its indices.  The first argument
    of a select or a guard is the condition.
    """

    kind: str
    dtype: str
    args: tuple[int, ...] = ()
    what: Any = None

    def with_args(self, args: tuple[int, ...]) -> Cell:
        """The operation on other cells."""
        return Cell(self.kind, self.dtype, args, self.what)


@dataclass(frozen=True, slots=True)
class Reference(Scalar):
    """A cell as a leaf of an expression."""

    cell: int
    dtype: str


@dataclass(frozen=True)
class _Gelu:
    """The function of a dtype for ``x * 0.5 * (1 + erf(x * factor))``, and with ``x / divisor`` if that is the same function."""

    function: str
    factor: float
    divisor: float | None = None


_GELU = {"float32": _Gelu("gelu", math.sqrt(0.5), math.sqrt(2)), **dict.fromkeys(HALVES, _Gelu("gelu_of_half", ROOT_OF_HALF))}
#: The functions beside which some literals make another function: ``power(x, 2)``, ``0.5 * x * (1 + erf(x * sqrt(0.5)))``.
OF_LITERALS = ("power", "erf")
#: Constant folding of int64 index arithmetic.
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
    """A table of distinct cells."""

    def __init__(self) -> None:
        self.table: list[Cell] = []
        self._number: dict[Cell, int] = {}
        self._cell_of: dict[int, tuple[Scalar, int]] = {}  # by id; the expression is kept alive, so that its id is not reused

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, number: int) -> Cell:
        return self.table[number]

    def put(self, cell: Cell) -> int:
        """The number of ``cell`` after simplification; added if absent."""
        simple = self._simplified(cell)
        if isinstance(simple, int):
            return simple
        number = self._number.setdefault(simple, len(self.table))
        if number == len(self.table):
            self.table.append(simple)
        return number

    def reached(self, roots: Iterable[int], stops: Collection[int] = ()) -> set[int]:
        """The cells that ``roots`` depend on, without the cells reached only through ``stops``."""
        seen, stack = set[int](), list(roots)
        while stack:
            number = stack.pop()
            if number not in seen:
                seen.add(number)
                if number not in stops:
                    stack += self[number].args
        return seen

    def axes(self, roots: Iterable[int]) -> set[int]:
        """The loops on whose indices ``roots`` depend."""
        return {self[number].what for number in self.reached(roots) if self[number].kind == AXIS}

    def literal(self, value: float | int | bool, dtype: str = "int64") -> int:
        """The cell of a constant."""
        return self.put(Cell(LITERAL, dtype, (), repr(float(value) if is_float(dtype) else value)))

    def apply(self, function: str, *args: int, dtype: str | None = None) -> int:
        """The cell of ``function(args)``; without ``dtype``, of the first argument's dtype."""
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
        """The cell as an expression; a literal index becomes a literal."""
        known = self.integer(number)
        return Reference(number, self[number].dtype) if known is None else Literal(known, "int64")

    def expression(self, scalar: Scalar) -> int:
        """The cell of an expression of any depth.

        An object that occurs several times is processed once.
        """
        stack = [(scalar, False)]
        while stack:
            part, ready = stack.pop()
            if ready:
                self._cell_of[id(part)] = part, self._converted(part)
            elif id(part) not in self._cell_of:
                stack.append((part, True))
                stack += [(p, False) for p in reversed(parts(part))]
        return self._cell_of[id(scalar)][1]

    def _converted(self, scalar: Scalar) -> int:
        """The cell of an expression whose parts already have cells."""
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
        return tuple(self._cell_of[id(s)][1] for s in scalars)

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
        if cell.what == "multiply" and cell.dtype in _GELU:
            return self._silu(cell) or self._gelu(cell)
        if cell.what == "power" and self[cell.args[1]].kind == LITERAL:
            power = constant_power(self, cell.args[0], float(self[cell.args[1]].what), cell.dtype)
            return cell if power is None else power
        return cell

    def _silu(self, cell: Cell) -> Cell | None:
        """``silu(x)`` for ``x * sigmoid(x)``, the factors in any order, else None: it takes less time than its sigmoid."""
        for x, gate in (cell.args, cell.args[::-1]):
            if self._operands(gate, "sigmoid") == (x,):
                return Cell(APPLY, cell.dtype, (x,), "silu")
        return None

    def _gelu(self, cell: Cell) -> Cell:
        """``gelu(x)`` for ``x * 0.5 * (1 + erf(x * sqrt(0.5)))``, with the factors in any order; else the cell.

        The whole is a shorter sum than its erf, which has to be as exact near 0 as elsewhere.  The constants are those of the
        dtype of x: in 11 or 8 bits sqrt(0.5) is another number, and so the function of such x is another.
        """
        for whole, other in (cell.args, cell.args[::-1]):
            for half, x, sum_ in itertools.permutations((other, *self._operands(whole, "multiply")), 3):
                if self._is_literal(half, 0.5) and self._is_one_plus_erf(sum_, x):
                    return Cell(APPLY, cell.dtype, (x,), _GELU[cell.dtype].function)
        return cell

    def _is_one_plus_erf(self, number: int, x: int) -> bool:
        """Whether a cell is ``1 + erf(x * sqrt(0.5))``."""
        for one, erf in itertools.permutations(self._operands(number, "add"), 2):
            for argument in self._operands(erf, "erf") if self._is_literal(one, 1.0) else ():
                if self._operands(argument, "divide")[:1] == (x,):
                    return self._is_literal(self[argument].args[1], _GELU[self[x].dtype].divisor)
                scales = [scale for scale, other in itertools.permutations(self._operands(argument, "multiply"), 2) if other == x]
                return any(self._is_literal(scale, _GELU[self[x].dtype].factor) for scale in scales)
        return False

    def _operands(self, number: int, function: str) -> tuple[int, ...]:
        """The arguments of a cell that applies the function; of no other cell."""
        cell = self[number]
        return cell.args if cell.kind == APPLY and cell.what == function else ()

    def _is_literal(self, number: int, value: float | None) -> bool:
        """Whether a cell is the constant ``value``, as float32."""
        cell = self[number]
        return cell.kind == LITERAL and cell.dtype in _GELU and value is not None and np.float32(cell.what) == np.float32(value)

    def _arithmetic(self, cell: Cell) -> Cell | int:
        """Fold int64 arithmetic on constants, and simplify operations with 0 and 1."""
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


def substituted(cells: Cells, substitution: dict[int, int], roots: Sequence[int]) -> tuple[Cells, list[int]]:
    """A new table of the cells that ``roots`` reach, and the new roots; each key of ``substitution`` is replaced by its value."""
    out = Cells()
    new: dict[int, int] = {}
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        number, ready = stack.pop()
        if number in new:
            continue
        if number in substitution:
            target = substitution[number]
            if target in new:
                new[number] = new[target]
            else:
                stack += [(number, False), (target, False)]
            continue
        cell = cells[number]
        if ready:
            new[number] = out.put(cell.with_args(tuple(new[a] for a in cell.args)))
        else:
            stack.append((number, True))
            stack += [(a, False) for a in reversed(cell.args)]
    return out, [new[r] for r in roots]
