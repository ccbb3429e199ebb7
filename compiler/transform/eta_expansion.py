"""``EtaExpand``: names of functions and constructors that are values as functions that call them."""

from __future__ import annotations

from ..ir.expr import Call, Constructor, Expr, Function, GlobalVar, IRModule, Var, map_functions
from ..ir.visitor import children, post_order, with_children


def eta_expand(mod: IRModule, constructors: bool, global_vars: bool) -> IRModule:
    """``@f`` as ``fn (%x) { @f(%x) }`` where it is not called, for global functions and constructors as chosen.

    Functions with type parameters keep their names: the arguments of a function value have one type.
    """
    return map_functions(mod, lambda f: _expanded(f, mod, constructors, global_vars))


def _expanded(function: Function, mod: IRModule, constructors: bool, global_vars: bool) -> Function:
    new: dict[int, Expr] = {}
    for node in post_order(function):
        parts = []
        for part in children(node):
            called = isinstance(node, Call) and part is node.op
            parts.append(new[id(part)] if called else _as_function(new[id(part)], mod, constructors, global_vars))
        new[id(node)] = with_children(node, tuple(parts))
    out = new[id(function)]
    assert isinstance(out, Function)
    return out


def _as_function(value: Expr, mod: IRModule, constructors: bool, global_vars: bool) -> Expr:
    if isinstance(value, GlobalVar) and global_vars and value.name in mod.functions:
        called = mod[value.name]
        if called.type_params:
            return value
        params = tuple(Var(p.name, p.annotation, span=value.span) for p in called.params)
        return Function(params, Call(value, params, span=value.span), called.ret_type, span=value.span)
    if isinstance(value, Constructor) and constructors and not mod.type_definitions[value.belong_to.name].type_vars:
        params = tuple(Var(f"field{k}", ty, span=value.span) for k, ty in enumerate(value.inputs))
        return Function(params, Call(value, params, span=value.span), span=value.span) if params else value
    return value
