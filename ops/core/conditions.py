"""Conditions on sizes, and multi-versioned choices of implementations guarded by them, as data and as parsable text.

::

    rows if d0 <= 8 else blas                       -- two versions, selected at run time by d0
    column if d1 == 1 else rows if d0 <= 8 else blas
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import NamedTuple

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.symbolic.dim import INT, SYM, Dim, IntLike, const, dim, sym
from ...shape_funcs.symbolic.dim_operations import BUILD, all_, eq, le, lt, not_
from ...shape_funcs.symbolic.notation import FUNCTIONS, Notation


class Condition(NamedTuple):
    """``left relation right``, over the dims of a call."""

    left: Dim
    relation: str
    right: Dim

    @property
    def holds(self) -> Dim:
        """1 if the condition is true, else 0; a constant if its truth is known."""
        return _RELATIONS[self.relation](self.left, self.right)

    def __str__(self) -> str:
        return f"{_NOTATION.text(self.left)} {self.relation} {_NOTATION.text(self.right)}"


def _has_next(d: Dim) -> bool:
    """Whether ``d`` is a constant whose successor does not overflow: the strict comparison then saves a subtraction."""
    known = const(d)
    return known is not None and abs(known) < 2**62


_RELATIONS: dict[str, Callable[[Dim, Dim], Dim]] = {
    "==": eq,
    "!=": lambda a, b: not_(eq(a, b)),
    "<": lt,
    "<=": lambda a, b: lt(a, b + 1) if _has_next(b) else le(a, b),
    ">": lambda a, b: lt(b, a),
    ">=": lambda a, b: lt(b - 1, a) if _has_next(b) else le(b, a),
}
#: A conjunction of conditions.
Conditions = tuple[Condition, ...]
#: Names of implementations, each with its conditions; the first version whose conditions hold runs.
Versions = tuple[tuple[str, Conditions], ...]


def condition(left: IntLike, relation: str, right: IntLike) -> Condition:
    """A condition of dims or ints.  Raises ValueError for an unknown relation."""
    if relation not in _RELATIONS:
        raise ValueError(f"there is no relation {relation!r}; there are {' '.join(_RELATIONS)}")
    return Condition(dim(left), relation, dim(right))


def holds(conditions: Conditions) -> Dim:
    """1 if all of ``conditions`` are true, else 0; a constant if the truth is known."""
    return all_(*(c.holds for c in conditions))


def undecided(conditions: Conditions) -> Conditions | None:
    """The subset of ``conditions`` that depends on run-time sizes; None if a condition is known to be false."""
    values = [const(c.holds) for c in conditions]
    return None if 0 in values else tuple(c for c, v in zip(conditions, values, strict=True) if v is None)


@frozen
class Choice:
    """The chosen implementations of a call.

    ``versions``: names with their conditions; the first version whose conditions hold runs.  The last version has no conditions.
    ``because``: the reason of the choice, for people.
    """

    versions: tuple[tuple[str, Conditions], ...]
    because: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.versions)

    @property
    def guards(self) -> tuple[Dim, ...]:
        """For each version but the last: 1 if its conditions hold, else 0."""
        return tuple(holds(conditions) for _, conditions in self.versions[:-1])

    def __str__(self) -> str:
        *guarded, (last, _) = self.versions
        return "".join(f"{name} if {conditions_text(conditions)} else " for name, conditions in guarded) + last

    @staticmethod
    def parse(text: str, because: str = "") -> Choice:
        """The choice that prints as ``text``.  Raises ValueError if ``text`` is not a choice."""
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, RecursionError, MemoryError):
            raise ValueError(f"{text!r} is no choice of an implementation") from None
        versions: list[tuple[str, Conditions]] = []
        while isinstance(tree, ast.IfExp):
            versions.append((_name(tree.body, text), _conditions(tree.test, text)))
            tree = tree.orelse
        return Choice((*versions, (_name(tree, text), ())), because)


def conditions_text(conditions: Conditions) -> str:
    """``d0 <= 8 and d1 == 1``."""
    return " and ".join(map(str, conditions))


# ---- text ----------------------------------------------------------------------------------------------------------

_OPERATORS: dict[type, Callable[[Dim, Dim], Dim]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_SYMBOLS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _leaf(d: Dim) -> str:
    if d.op == INT or (d.op == SYM and d.args[0].isidentifier()):
        return str(d.args[0])
    raise ValueError(f"a condition cannot be about {d}")


#: Only arithmetic over symbols has a text form.
_NOTATION = Notation(_leaf)


def _name(tree: ast.expr, text: str) -> str:
    if not isinstance(tree, ast.Name):
        raise ValueError(f"{text!r} is no choice of an implementation: {ast.unparse(tree)} is no name")
    return tree.id


def _conditions(tree: ast.expr, text: str) -> Conditions:
    parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    out = []
    for part in parts:
        match part:
            case ast.Compare(left=left, ops=[relation], comparators=[right]) if type(relation) in _SYMBOLS:
                out.append(Condition(_dim(left, text), _SYMBOLS[type(relation)], _dim(right, text)))
            case _:
                raise ValueError(f"{text!r} is no choice of an implementation: {ast.unparse(part)} is no condition")
    return tuple(out)


def _dim(tree: ast.expr, text: str) -> Dim:
    match tree:
        case ast.Constant(value=int(value)) if type(value) is int:
            return dim(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_dim(operand, text)
        case ast.Name(id=name):
            return sym(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_dim(left, text), _dim(right, text))
        case ast.Call(func=ast.Name(id=name), args=[a, b], keywords=[]) if name in FUNCTIONS:
            return BUILD[name](_dim(a, text), _dim(b, text))
    raise ValueError(f"{text!r} is no choice of an implementation: {ast.unparse(tree)} is no size")
