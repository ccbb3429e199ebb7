"""``CapturePostDfsIndexInSpans``: the number of each expression as its place, ``index:<number>:<number of the dominator>``.

The number is the position among the nodes that ``relay.analysis.post_order_visit`` lists for the function.  The dominator is the
first expression that every path from the expression to the function passes through; the function has none, -1.
"""

from __future__ import annotations

from ...ops.core.op import Op
from ...vm.diagnostics.source import SourceText, Span
from ..analysis.variables import nodes, parts
from ..ir.expr import Call, Constant, Expr, Function, GlobalVar, If, IRModule, Let, Tuple, TupleGetItem, replace
from ..ir.match_expr import Match, RefCreate, RefRead, RefWrite
from ..ir.visitor import children, with_children

#: Nodes that get a place; a variable keeps that of its binding, a constructor that of its definition.
_NUMBERED = (Call, Constant, Function, GlobalVar, If, Let, Match, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem)


def capture_index_in_spans(mod: IRModule) -> IRModule:
    """The module with numbers of expressions as their places; primitives stay."""
    return replace(mod, functions={name: f if f.is_primitive else _numbered(f) for name, f in mod.functions.items()})


def _numbered(function: Function) -> Function:
    order = nodes(function)
    dominator = _dominators(order)
    new: dict[int, Expr] = {}
    for number, node in enumerate(order):
        if not isinstance(node, Expr):
            continue
        changed = with_children(node, tuple(new[id(child)] for child in children(node)))
        if isinstance(node, _NUMBERED):
            source = SourceText(f"index:{number}:{dominator[number]}", "")
            changed = replace(changed, span=Span(source, 0, 0))
        new[id(node)] = changed
    out = new[id(function)]
    assert isinstance(out, Function)
    return out


def _dominators(order: list[Expr | Op]) -> list[int]:
    """The number of the immediate dominator of each node; every user of a node has a larger number."""
    position = {id(node): number for number, node in enumerate(order)}
    found = [-1] * len(order)
    for number in reversed(range(len(order))):
        for part in parts(order[number]):
            k = position[id(part)]
            found[k] = number if found[k] < 0 else _common(found, found[k], number)
    return found


def _common(dominator: list[int], a: int, b: int) -> int:
    """The first node that dominates both, or is one of them."""
    while a != b:
        if a < b:
            a = dominator[a]
        else:
            b = dominator[b]
    return a
