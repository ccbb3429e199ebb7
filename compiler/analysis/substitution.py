"""Substitution of expressions for variables: ``relay.bind``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...vm.diagnostics.argument_errors import wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..builder.build import as_expr
from ..ir.expr import Expr, Function, Var
from ..ir.visitor import bound_vars, children, post_order, with_children


def bind(expr: Expr, binds: Mapping[Var, Any]) -> Expr:
    """``expr`` with expressions, numbers or arrays for free variables; a function loses the parameters that get a value.

    A new node has no type.  Raises ArgumentError for a variable that a part of ``expr`` binds.
    """
    if not isinstance(expr, Expr):
        raise wrong("bind: the first argument", "an expression", expr)
    if not isinstance(binds, Mapping) or not all(isinstance(var, Var) for var in binds):
        raise wrong("bind: the values", "a dict from variables to expressions", binds)
    values = {id(var): as_expr(value) for var, value in binds.items()}
    new: dict[int, Expr] = dict(values)
    for old in post_order(expr):
        inner = () if old is expr and isinstance(old, Function) else bound_vars(old)
        for var in inner:
            if id(var) in values:
                raise ArgumentError(f"bind: %{var.name} is bound inside the expression", here())
        if id(old) not in values:
            rebuilt = with_children(old, tuple(new[id(child)] for child in children(old)))
            new[id(old)] = rebuilt if rebuilt is old else replace(rebuilt, ty=None)
    out = new[id(expr)]
    if isinstance(expr, Function) and isinstance(out, Function):
        left = tuple(param for param in out.params if id(param) not in values)
        return out if len(left) == len(out.params) else replace(out, params=left, ty=None)
    return out
