"""Calls of functions as the bodies of the functions."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...ops.core.tensor_types import Type
from ...shape_funcs.symbolic.dim import Dim, name_of, sym
from ..ir.anf import Names, is_atom
from ..ir.call_graph import recursion_groups
from ..ir.expr import Call, Expr, Function, GlobalVar, IRModule, Let, Var, replace
from ..ir.visitor import bound_vars, children, post_order, rewrite, with_children
from ..type_inference.type_match import map_dims


def can_be_inlined(function: Function) -> bool:
    """Whether calls of a function that is not recursive can be its body: it has no type parameters, and can be copied."""
    return not function.type_params and all(
        isinstance(node, (Function, Let)) for node in post_order(function) if bound_vars(node)
    )


def with_calls_inlined(
    mod: IRModule, names: set[str], whole: Callable[[Function], bool] = lambda f: False, checked: bool = False
) -> IRModule:
    """Calls of the functions of these names as their bodies, or of those that are ``whole`` as calls of the functions themselves.

    ``checked``: as for ``beta_reduced``.
    """
    functions = dict(mod.functions)
    sizes = Names({name for f in mod.functions.values() for name in _named_sizes(f)})

    def visit(node: Expr) -> Expr:
        if not isinstance(node, Call) or not isinstance(node.op, GlobalVar) or node.op.name not in names:
            return node
        function = functions[node.op.name]
        return replace(node, op=_copy(function, sizes)) if whole(function) else beta_reduced(function, node, sizes, checked)

    for group in recursion_groups(mod):  # callees before their callers
        for caller in group:
            functions[caller] = rewritten_function(functions[caller], visit)
    return replace(mod, functions=functions)


def rewritten_function(function: Function, visit: Callable[[Expr], Expr]) -> Function:
    """The function after ``rewrite``, which gives functions for functions."""
    out = rewrite(function, visit)
    assert isinstance(out, Function)
    return out


def beta_reduced(function: Function, call: Call, sizes: Names | None = None, checked: bool = False) -> Expr:
    """The body of the function, with lets that bind its parameters to the arguments of the call; ``sizes``: as for ``_copy``.

    ``checked``: Whether the arguments are known to have the types of the parameters.  A variable then has the type of its
    argument, which may be more precise, unless the body names a size of the parameter's type.
    """
    named = set(_named_sizes(function.body))
    is_open = {id(p) for p in function.params if checked and not named.intersection(_sizes_in(p.annotation))}
    copied = _copy(function, sizes, is_open)
    out = copied.body
    for param, arg in zip(reversed(copied.params), reversed(call.args), strict=True):
        out = Let(param, arg, out, span=call.span, ty=call.ty)
    return out


def _copy(function: Function, sizes: Names | None = None, is_open: Collection[int] = ()) -> Function:
    """The function with new variables, so that no variable is bound twice in the program that it is put into.

    ``sizes``: the names of sizes in that program.  The named sizes of a global function are its own: each copy has new names.
    ``is_open``: the variables, by ``id``, that lose their annotations.
    """
    named = {} if sizes is None else {name: sym(sizes(name)) for name in _named_sizes(function)}
    nodes = post_order(function)
    old = [var for node in nodes for var in bound_vars(node)]
    types = {id(var): None if id(var) in is_open else _with_sizes(var.annotation, named) for var in old}
    renamed = {id(var): Var(var.name, types[id(var)], span=var.span, ty=var.ty) for var in old}
    new: dict[int, Expr] = {}
    for node in nodes:
        copied = with_children(node, tuple(new[id(child)] for child in children(node)))
        if isinstance(copied, Var):
            copied = renamed.get(id(node), copied)
        elif isinstance(copied, Let):
            copied = replace(copied, var=renamed[id(copied.var)])
        elif isinstance(copied, Function):
            params = tuple(renamed[id(param)] for param in copied.params)
            copied = replace(copied, params=params, ret_type=_with_sizes(copied.ret_type, named))
        elif copied is node and not is_atom(node):
            copied = replace(node)  # a value shared by two copies would be evaluated once, where both are needed
        new[id(node)] = copied
    out = new[id(function)]
    assert isinstance(out, Function)
    return out


def _named_sizes(expr: Expr) -> list[str]:
    """The names of sizes in the annotations within the expression, in order."""
    found = dict[str, None]()
    for node in post_order(expr):
        for ty in (*(var.annotation for var in bound_vars(node)), node.ret_type if isinstance(node, Function) else None):
            found.update(dict.fromkeys(_sizes_in(ty)))
    return list(found)


def _sizes_in(ty: Type | None) -> list[str]:
    """The names of sizes in a type, in order."""
    found: list[str] = []

    def see(d: Dim) -> Dim:
        if (name := name_of(d)) is not None:
            found.append(name)
        return d

    if ty is not None:
        map_dims(ty, see)
    return found


def _with_sizes(ty: Type | None, named: dict[str, Dim]) -> Type | None:
    """``ty`` with the symbol of each name in ``named``."""
    return ty if ty is None or not named else map_dims(ty, lambda d: named.get(name_of(d) or "", d))
