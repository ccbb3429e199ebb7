"""Natural numbers of ``nat.rly`` as expressions and as values, and back: ``s(s(z))`` is 2."""

from __future__ import annotations

from typing import Any

from ...vm.diagnostics.argument_errors import a_count, wrong
from ...vm.values.adt import ADT
from ..builder.prelude import Prelude
from ..ir.expr import Expr

_NUMBERS = "nat.rly"


def add_nat_definitions(prelude: Prelude) -> None:
    """Add the type ``nat`` and its functions to the prelude's module."""
    prelude.mod.import_from_std(_NUMBERS)


def make_nat_expr(prelude: Prelude, n: int) -> Expr:
    """The expression of a number.  Raises ArgumentError."""
    _, zero, successor = prelude.mod.get_type("nat")
    expr: Expr = zero()
    for _ in range(a_count(n, "make_nat_expr: the number")):
        expr = successor(expr)
    return expr


def make_nat_value(prelude: Prelude, n: int) -> ADT:
    """The value of a number.  Raises ArgumentError."""
    _, zero, successor = prelude.mod.get_type("nat")
    value = ADT(zero.name_hint, (), zero.tag)
    for _ in range(a_count(n, "make_nat_value: the number")):
        value = ADT(successor.name_hint, (value,), successor.tag)
    return value


def count(prelude: Prelude, n: Any) -> int:
    """The number that a value is.  Raises ArgumentError."""
    _, zero, successor = prelude.mod.get_type("nat")
    total = 0
    while isinstance(n, ADT) and n.constructor == successor.name_hint:
        total, n = total + 1, n.fields[0]
    if not isinstance(n, ADT) or n.constructor != zero.name_hint:
        raise wrong("count: the value", "a value of the type nat", n)
    return total
