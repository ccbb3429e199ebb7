"""Passes of Relay's that put functions and values in the place of names: ``Inline``, ``DefuseOps``, ``ToGraphNormalForm``."""

from __future__ import annotations

from collections.abc import Callable

from ...ops.core.op import Op
from ..ir.call_graph import CallEdges, mentioned
from ..ir.expr import Call, Expr, Function, IRModule, Let, Var, map_functions, replace
from ..ir.match_expr import RefCreate, RefRead, RefWrite
from ..ir.visitor import children, free_vars, post_order, uses, with_children
from ..passes.beta_reduction import can_be_inlined, with_calls_inlined


def inline(mod: IRModule) -> IRModule:
    """Calls of global functions with the attribute ``Inline=1`` as their bodies; recursive functions stay functions.

    A function for an external compiler takes the place of its name.  A function that no other mentions any more is removed,
    except ``main``.
    """
    wanted = {name for name, f in mod.functions.items() if f.attrs.get("Inline") and can_be_inlined(f)}
    return inlined_calls(mod, wanted - CallEdges.of(mod).recursive() if wanted else wanted, whole=is_for_compiler)


def defuse_ops(mod: IRModule) -> IRModule:
    """Calls of primitives as the calls of operators within them: the inverse of ``FuseOps``."""
    return inlined_calls(mod, {name for name, f in mod.functions.items() if f.is_primitive})


def is_for_compiler(function: Function) -> bool:
    """Whether the function is one for an external compiler, or the composite of one."""
    return "Compiler" in function.attrs or "Composite" in function.attrs


def inlined_calls(mod: IRModule, names: set[str], whole: Callable[[Function], bool] = lambda f: False) -> IRModule:
    """``with_calls_inlined``, without the functions of these names that no other mentions any more, except ``main``."""
    functions = with_calls_inlined(mod, names, whole).functions
    used = {other for name, f in functions.items() for other in mentioned(f.body) if other != name}
    kept = {name: f for name, f in functions.items() if name not in names or name == "main" or name in used}
    return replace(mod, functions=kept)


def to_graph_normal_form(mod: IRModule) -> IRModule:
    """Values in the place of the variables that lets bind to them.

    A value that is a function keeps its variable, if it is not one for an external compiler.  In a module with references so does
    a value that may read or write them.
    """
    return map_functions(mod, lambda f: graph_of(f, mod))


def inline_values_used_once(mod: IRModule) -> IRModule:
    """The module with values that are used once in the place of their variables, as ``to_graph_normal_form`` puts all values.

    A value that a function within the function uses keeps its variable: the inner function may run often.
    """
    return map_functions(mod, lambda f: graph_of(f, mod, _used_once(f)))


def _used_once(function: Function) -> Callable[[Var], bool]:
    nodes = post_order(function)
    count = uses(nodes)
    captured = {id(var) for node in nodes if isinstance(node, Function) and node is not function for var in free_vars(node)}
    return lambda var: count.get(id(var)) == 1 and id(var) not in captured


def graph_of(function: Function, mod: IRModule, is_wanted: Callable[[Var], bool] = lambda var: True) -> Function:
    """One function of ``to_graph_normal_form``; ``is_wanted``: whether the value of a variable takes its place."""
    nodes = post_order(function)
    ordered = has_references(mod)
    values = {
        id(node.var): node.value
        for node in nodes
        if isinstance(node, Let)
        and is_wanted(node.var)
        and not _keeps_variable(node.value)
        and not (ordered and has_order(node.value))
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


def _keeps_variable(value: Expr) -> bool:
    """Whether the value is a function; a closed one for an external compiler stands where it is called."""
    return isinstance(value, Function) and not (is_for_compiler(value) and not free_vars(value))


_REFERENCES = (RefCreate, RefRead, RefWrite)


def has_references(mod: IRModule) -> bool:
    """Whether the module makes, reads or writes references."""
    return any(isinstance(node, _REFERENCES) for f in mod.functions.values() for node in post_order(f))


def has_order(value: Expr) -> bool:
    """Whether the value may read or write a reference."""
    nodes = post_order(value)
    return any(isinstance(n, _REFERENCES) or (isinstance(n, Call) and not isinstance(n.op, Op)) for n in nodes)
