"""Passes of Relay's that put functions and values in the place of names: ``Inline``, ``DefuseOps``, ``ToGraphNormalForm``."""

from __future__ import annotations

from collections.abc import Callable

from ...ops.core.op import Op
from ..ir.call_graph import mentioned, recursion_groups
from ..ir.expr import Call, Expr, Function, GlobalVar, IRModule, Let, Var, replace
from ..ir.match_expr import RefCreate, RefRead, RefWrite
from ..ir.visitor import bound_vars, children, post_order, rewrite, with_children


def inline(mod: IRModule) -> IRModule:
    """Calls of global functions with the attribute ``Inline=1`` as their bodies; recursive functions stay functions.

    A function that no other mentions any more is removed, except ``main``.
    """
    wanted = {name for name, f in mod.functions.items() if f.attrs.get("Inline")}
    return _inlined(mod, {name for name in wanted if _can_be_inlined(mod, name)})


def defuse_ops(mod: IRModule) -> IRModule:
    """Calls of primitives as the calls of operators within them: the inverse of ``FuseOps``."""
    return _inlined(mod, {name for name, f in mod.functions.items() if f.is_primitive})


def _can_be_inlined(mod: IRModule, name: str) -> bool:
    recursive = name in mentioned(mod[name].body) or any(len(g) > 1 and name in g for g in recursion_groups(mod))
    return not recursive and not mod[name].type_params and _can_be_copied(mod[name])


def _can_be_copied(function: Function) -> bool:
    return all(isinstance(node, (Function, Let)) for node in post_order(function) if bound_vars(node))


def _inlined(mod: IRModule, names: set[str]) -> IRModule:
    functions = dict(mod.functions)
    for group in recursion_groups(mod):  # callees before their callers
        for caller in group:
            functions[caller] = rewritten_function(functions[caller], lambda node: _in_place_of_call(node, functions, names))
    used = {other for name, f in functions.items() for other in mentioned(f.body) if other != name}
    kept = {name: f for name, f in functions.items() if name not in names or name == "main" or name in used}
    return replace(mod, functions=kept)


def rewritten_function(function: Function, visit: Callable[[Expr], Expr]) -> Function:
    """The function after ``rewrite``, which gives functions for functions."""
    out = rewrite(function, visit)
    assert isinstance(out, Function)
    return out


def _in_place_of_call(node: Expr, functions: dict[str, Function], names: set[str]) -> Expr:
    if not isinstance(node, Call) or not isinstance(node.op, GlobalVar) or node.op.name not in names:
        return node
    function = functions[node.op.name]
    copied = _copy(function)
    out = copied.body
    for param, arg in zip(reversed(copied.params), reversed(node.args), strict=True):
        out = Let(param, arg, out, span=node.span, ty=node.ty)
    return out


def _copy(function: Function) -> Function:
    """The function with new variables, so that no variable is bound twice in the program that it is put into."""
    old = [var for node in post_order(function) for var in bound_vars(node)]
    renamed = {id(var): Var(var.name, var.annotation, span=var.span, ty=var.ty) for var in old}
    new: dict[int, Expr] = {}
    for node in post_order(function):
        copied = with_children(node, tuple(new[id(child)] for child in children(node)))
        if isinstance(copied, Var):
            copied = renamed.get(id(node), copied)
        elif isinstance(copied, Let):
            copied = replace(copied, var=renamed[id(copied.var)])
        elif isinstance(copied, Function):
            copied = replace(copied, params=tuple(renamed[id(param)] for param in copied.params))
        new[id(node)] = copied
    out = new[id(function)]
    assert isinstance(out, Function)
    return out


def to_graph_normal_form(mod: IRModule) -> IRModule:
    """Values in the place of the variables that lets bind to them.

    A value that is a function keeps its variable; in a module with references so does a value that may read or write them.
    """
    return replace(mod, functions={name: f if f.is_primitive else graph_of(f, mod) for name, f in mod.functions.items()})


def graph_of(function: Function, mod: IRModule) -> Function:
    """One function of ``to_graph_normal_form``."""
    nodes = post_order(function)
    ordered = any(isinstance(node, _REFERENCES) for f in mod.functions.values() for node in post_order(f))
    values = {
        id(node.var): node.value
        for node in nodes
        if isinstance(node, Let) and not isinstance(node.value, Function) and not (ordered and _has_order(node.value))
    }
    new: dict[int, Expr] = {}
    for node in nodes:
        if id(node) in values:  # a variable; its value is listed before its uses
            new[id(node)] = new[id(values[id(node)])]
        elif isinstance(node, Let) and id(node.var) in values:
            new[id(node)] = new[id(node.body)]
        else:
            new[id(node)] = with_children(node, tuple(new[id(child)] for child in children(node)))
    out = new[id(function)]
    assert isinstance(out, Function)
    return out


_REFERENCES = (RefCreate, RefRead, RefWrite)


def _has_order(value: Expr) -> bool:
    """Whether the value may read or write a reference."""
    nodes = post_order(value)
    return any(isinstance(n, _REFERENCES) or (isinstance(n, Call) and not isinstance(n.op, Op)) for n in nodes)
