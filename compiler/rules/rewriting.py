"""The view that a rewrite rule has of a program: the definitions of a call's operands.

A rule is a function ``(call, scope) -> expression | None``: an atom or another call of the same value, or None if the rule does
not match.  It is registered under the operators of the calls that it matches, see ``Rules``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops.core.op import Op, TypeRelError
from ...ops.core.tensor_types import Type
from ...ops.core.type_relation import relate
from ...ops.defs.arithmetic.elementwise import ZEROS_LIKE
from ..ir.expr import Call, Constant, Expr, Tuple

Rule = Callable[[Call, "Definitions"], "Expr | None"]


class Rules:
    """Rewrite rules by the operator of the calls that they match, in the order of their application."""

    def __init__(self) -> None:
        self._rules: dict[Op, list[Rule]] = {}

    def of(self, op: Op) -> tuple[Rule, ...]:
        """The rules for calls of ``op``."""
        return tuple(self._rules.get(op, ()))

    @property
    def operators(self) -> tuple[Op, ...]:
        """The operators that have rules."""
        return tuple(self._rules)

    def on(self, *ops: Op) -> Callable[[Rule], Rule]:
        """Register the decorated rule for each of ``ops``."""

        def register(rule: Rule) -> Rule:
            for op in ops:
                self._rules.setdefault(op, []).append(rule)
            return rule

        return register


class Definitions:
    """The definitions of the variables in scope at a point: ``values``, or none at first."""

    def __init__(self, values: dict[Expr, Expr] | None = None) -> None:
        self.values: dict[Expr, Expr] = {} if values is None else values

    def call(self, atom: Expr, *ops: Op) -> Call | None:
        """The call of one of ``ops`` that defines ``atom``, if there is one and it cannot fail: then it may be eliminated."""
        value = self.values.get(atom)
        return value if isinstance(value, Call) and value.op in ops and self.is_safe(value) else None

    def fields(self, atom: Expr) -> tuple[Expr, ...] | None:
        """The fields of the tuple that defines ``atom``; None if there is none."""
        value = self.values.get(atom)
        return value.fields if isinstance(value, Tuple) else None

    def constant(self, atom: Expr) -> np.ndarray | None:
        """The value of ``atom`` if it is a constant."""
        return atom.data if isinstance(atom, Constant) else None

    def is_all(self, atom: Expr, number: float | int | bool) -> bool:
        """Whether ``atom`` is a constant, or zeros, with every element equal to ``number``.  0.0 is not -0.0."""
        value = self.values.get(atom)
        if isinstance(value, Call) and value.op is ZEROS_LIKE:
            return number == 0 and math.copysign(1, number) > 0
        data = self.constant(atom)
        if data is None or not data.size:
            return False
        wanted = np.array(number, data.dtype)
        # the first element decides nearly always
        if data.reshape(-1)[0] != wanted or not bool(np.all(data == wanted)):
            return False
        floating = data.dtype.kind not in "iub"
        return not floating or bool(np.all(np.signbit(data) == np.signbit(wanted)))

    def is_safe(self, call: Call) -> bool:
        """Whether the sizes of the operands fit for all values of the dims.  A call with run-time checks is never eliminated."""
        found = self.typed(call)
        return found is not None and not found[1]

    def is_equivalent(self, new: Call, old: Call) -> bool:
        """Whether ``new`` has the type and the run-time checks of ``old``."""
        found = self.typed(new)
        return found is not None and found[0] == old.ty and found == self.typed(old)

    def typed(self, call: Call) -> tuple[Type, tuple[Any, ...]] | None:
        """The type of a call of an operator and its run-time checks; None if its arguments do not fit."""
        assert isinstance(call.op, Op)
        try:
            return relate(call.op, [a.ty for a in call.args], call.attrs, [self._known(a) for a in call.args])
        except TypeRelError:
            return None

    def _known(self, atom: Expr) -> Any:
        fields = self.fields(atom)
        return tuple(map(self.constant, fields)) if fields else self.constant(atom)


def operator_call(op: Op, args: tuple[Expr, ...], attrs: Any = None) -> Call:
    """A call of ``op``, untyped; ``attrs`` None: the operator's defaults."""
    return Call(op, args, op.attrs() if attrs is None else attrs)
