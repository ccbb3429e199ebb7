"""Relay's ``ScopeBuilder``: lets and branches as statements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...vm.diagnostics.argument_errors import wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import Expr, If, Var, make_lets
from .build import as_expr, var

__all__ = ["ScopeBuilder"]


@dataclass
class _Scope:
    """The lets so far, the result, and the condition and first branch of an ``if_scope`` that waits for its ``else_scope``."""

    bindings: list[tuple[Var, Expr]] = field(default_factory=list)
    result: Expr | None = None
    waiting: tuple[Expr, Expr] | None = None

    def expression(self, who: str) -> Expr:
        if self.waiting is not None:
            raise ArgumentError(f"{who}: an if_scope has no else_scope", here(), help="with sb.else_scope(): sb.ret(value)")
        if self.result is None:
            raise ArgumentError(f"{who}: the scope has no result", here(), help="end it with sb.ret(value)")
        return make_lets(self.bindings, self.result)


class ScopeBuilder:
    """A builder of nested lets and branches.

    with sb.if_scope(condition):
        sb.ret(x)
    with sb.else_scope():
        doubled = sb.let("doubled", x + x)
        sb.ret(doubled)
    body = sb.get()
    """

    def __init__(self) -> None:
        self._scopes = [_Scope()]

    def let(self, variable: str | Var | tuple[str, Any], value: Any) -> Var:
        """Bind a variable, given as a name, a pair of name and type, or a ``relay.var``.  Raises ArgumentError."""
        scope = self._open("let")
        if isinstance(variable, str):
            variable = var(variable)
        elif isinstance(variable, tuple) and len(variable) == 2:
            variable = var(variable[0], type_annotation=variable[1])
        if not isinstance(variable, Var):
            raise wrong("let: the variable", "a name, a pair of name and type, or a relay.var", variable)
        scope.bindings.append((variable, as_expr(value)))
        return variable

    def ret(self, value: Any) -> None:
        """End the scope with its result.  Raises ArgumentError for a second result."""
        self._open("ret").result = as_expr(value)

    @contextmanager
    def if_scope(self, condition: Any) -> Iterator[None]:
        """The branch taken if ``condition`` holds; an ``else_scope`` follows."""
        outer, test = self._open("if_scope"), as_expr(condition)
        self._scopes.append(_Scope())
        try:
            yield
            outer.waiting = test, self._scopes[-1].expression("if_scope")
        finally:
            self._scopes.pop()

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The other branch; the choice is the result of the scope around.  Raises ArgumentError without an ``if_scope``."""
        outer = self._scopes[-1]
        if outer.waiting is None:
            raise ArgumentError("else_scope: there is no if_scope before it", here(), help="with sb.if_scope(condition): ...")
        self._scopes.append(_Scope())
        try:
            yield
            condition, true_branch = outer.waiting
            chosen = If(condition, true_branch, self._scopes[-1].expression("else_scope"), span=here())
            outer.waiting, outer.result = None, chosen
        finally:
            self._scopes.pop()

    def get(self) -> Expr:
        """The expression.  Raises ArgumentError if a scope has no result."""
        if len(self._scopes) > 1:
            raise ArgumentError("get: a branch is still open", here(), help="call sb.get() after the with blocks")
        return self._scopes[0].expression("get")

    def _open(self, who: str) -> _Scope:
        scope = self._scopes[-1]
        if scope.waiting is not None:
            raise ArgumentError(f"{who}: an if_scope waits for its else_scope", here(), help="with sb.else_scope(): ...")
        if scope.result is not None:
            raise ArgumentError(f"{who}: the scope has its result already", here(), help="a branch is the result of its scope")
        return scope
