"""The check of programs for Relay's graph executor: no control flow.  Relay's needs known sizes, too; the machine does not."""

from __future__ import annotations

from ...vm.diagnostics import codes
from ...vm.diagnostics.source import TypeCheckError
from ..ir.call_graph import reachable, recursion_groups
from ..ir.expr import Call, Constant, Constructor, Expr, Function, GlobalVar, If, IRModule, Let, Tuple, TupleGetItem, Var
from ..ir.match_expr import Match
from ..ir.visitor import post_order

_HELP = 'relay.create_executor("vm", ...) and relay.compile run every program'
#: Expressions of programs without control flow.
_STRAIGHT = (Call, Constant, GlobalVar, Let, Tuple, TupleGetItem, Var)
_CONTROL = {
    If: "an `if`",
    Function: "a function within a function",
    Match: "a `match`",
    Constructor: "a constructor of a type",
}


def check_straight(mod: IRModule, name: str, who: str) -> None:
    """Raises TypeCheckError for control flow in the functions that ``@name`` reaches."""
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


def _called(function: Function) -> set[str]:
    return {node.name for node in post_order(function.body) if isinstance(node, GlobalVar)}


def _refused(message: str, node: Expr) -> TypeCheckError:
    return TypeCheckError(message, node.span, help=_HELP, code=codes.Type.STATIC)
