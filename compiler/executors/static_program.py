"""The check of programs for Relay's graph executor: no control flow, every size known."""

from __future__ import annotations

from ...ops.core.tensor_types import TensorType, TupleType, Type
from ...shape_funcs.symbolic.dim import const
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import TypeCheckError
from ..ir.call_graph import reachable, recursion_groups
from ..ir.expr import Call, Constant, Constructor, Expr, Function, GlobalVar, If, IRModule, Let, Tuple, TupleGetItem, Var, replace
from ..ir.match_expr import Match
from ..ir.visitor import post_order
from ..transform.requirements import with_requirements

_HELP = 'relay.create_executor("vm", ...) and relay.compile run every program'
#: Expressions of programs without control flow.
_STRAIGHT = (Call, Constant, GlobalVar, Let, Tuple, TupleGetItem, Var)
_CONTROL = {
    If: "an `if`",
    Function: "a function within a function",
    Match: "a `match`",
    Constructor: "a constructor of a type",
}


def check_static(mod: IRModule, name: str, who: str) -> None:
    """Raises TypeCheckError for control flow or an unknown size in the functions that ``@name`` reaches."""
    names = reachable(mod, [name])
    for group in recursion_groups(mod):
        first = group[0]
        if first in names and (len(group) > 1 or first in _called(mod[first])):
            raise _refused(f"{who} runs no control flow: @{first} calls itself", mod[first])
    for each in names:
        for node in post_order(mod[each].body):
            if not isinstance(node, _STRAIGHT):
                what = next((text for kind, text in _CONTROL.items() if isinstance(node, kind)), f"a {type(node).__name__}")
                raise _refused(f"{who} runs no control flow: @{each} has {what}", node)
    typed = with_requirements(replace(mod, functions={n: f for n, f in mod.functions.items() if n in names}), ["InferType"])
    for each, function in typed.functions.items():
        for node in (*function.params, *post_order(function.body)):
            if not isinstance(node, GlobalVar) and node.ty is not None and not _is_static(node.ty):
                what = f"%{node.name}" if isinstance(node, Var) else f"a value in @{each}"
                raise _refused(f"{who} runs programs of known sizes: {what} is {node.ty}", node)


def _called(function: Function) -> set[str]:
    return {node.name for node in post_order(function.body) if isinstance(node, GlobalVar)}


def _is_static(ty: Type) -> bool:
    if isinstance(ty, TupleType):
        return all(map(_is_static, ty.fields))
    return not isinstance(ty, TensorType) or all(const(d) is not None for d in ty.shape)


def _refused(message: str, node: Expr) -> TypeCheckError:
    return TypeCheckError(message, node.span, help=_HELP, code=codes.Type.STATIC)
