"""Queries of expressions under Relay's names: variables, nodes, well-formedness, features.  None recurs."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from ...ops.core.op import Op
from ...vm.diagnostics.argument_errors import wrong
from ..ir import visitor
from ..ir.expr import Call, Constant, Expr, Function, GlobalVar, If, IRModule, Let, Tuple, TupleGetItem, Var
from ..ir.match_expr import Match, RefCreate, RefRead, RefWrite

Feature = Enum(
    "Feature",
    [
        "fVar",
        "fGlobalVar",
        "fConstant",
        "fTuple",
        "fTupleGetItem",
        "fFunction",
        "fOp",
        "fCall",
        "fLet",
        "fIf",
        "fMatch",
        "fRefCreate",
        "fRefRead",
        "fRefWrite",
        "fGraph",
    ],
)
_FEATURES: dict[type, Feature] = {
    each: Feature[f"f{each.__name__}"]
    for each in (Var, GlobalVar, Constant, Tuple, TupleGetItem, Function, Op, Call, Let, If, Match, RefCreate, RefRead, RefWrite)
}


def parts(node: Expr | Op) -> tuple[Expr | Op, ...]:
    """The direct parts of a node in Relay's order: also operators, and variables at their bindings."""
    match node:
        case Call(op=op, args=args):
            return (op, *args)
        case Function() | Let() | Match():
            return (*visitor.bound_vars(node), *visitor.children(node))
        case Expr():
            return visitor.children(node)
    return ()


def nodes(expr: Expr | IRModule) -> list[Expr | Op]:
    """Every node of the expression, or of a module's functions, each object once, parts before their users."""
    order: list[Expr | Op] = []
    seen: set[int] = set()
    stack: list[tuple[Expr | Op, bool]] = [(root, False) for root in reversed(_roots(expr))]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((part, False) for part in reversed(parts(node)))
    return order


def _roots(expr: Any) -> tuple[Expr, ...]:
    if isinstance(expr, IRModule):
        return tuple(expr.functions.values())
    if not isinstance(expr, Expr):
        raise wrong("the analysed value", "an expression or an IRModule", expr)
    return (expr,)


def post_order_visit(expr: Expr | IRModule, fvisit: Callable[[Any], Any]) -> None:
    """Call ``fvisit`` with every node, each once, parts before their users."""
    for node in nodes(expr):
        fvisit(node)


def all_vars(expr: Expr | IRModule) -> list[Var]:
    """The variables, in order of first occurrence."""
    return [node for node in nodes(expr) if isinstance(node, Var)]


def bound_vars(expr: Expr | IRModule) -> list[Var]:
    """The variables that a function or a let binds, in order of first occurrence."""
    binders = [node for node in nodes(expr) if isinstance(node, Expr)]
    bound = {id(var) for node in binders for var in visitor.bound_vars(node)}
    return [var for var in all_vars(expr) if id(var) in bound]


def free_vars(expr: Expr | IRModule) -> list[Var]:
    """The variables that nothing binds, in order of first occurrence."""
    return visitor.free_vars(*_roots(expr))


def well_formed(expr: Expr | IRModule) -> bool:
    """Whether each variable is bound at most once, and a bound variable is used in its scope only."""
    bound: set[Var] = set()
    for node in nodes(expr):
        for var in visitor.bound_vars(node) if isinstance(node, Expr) else ():
            if var in bound:
                return False
            bound.add(var)
    return all(_in_scope(root, bound) for root in _roots(expr))


def _in_scope(root: Expr, bound: set[Var]) -> bool:
    """Whether the variables of ``bound`` are in scope at their uses; a shared expression has the scope of its first use."""
    scope: set[Var] = set()
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, leaves = stack.pop()
        if leaves:
            scope.difference_update(visitor.bound_vars(node))
        elif isinstance(node, Var):
            if node in bound and node not in scope:
                return False
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            scope.update(visitor.bound_vars(node))
            stack.extend((child, False) for child in reversed(visitor.children(node)))
    return True


def detect_feature(expr: Expr | IRModule) -> set[Feature]:
    """The constructs that occur; ``fGraph``: an expression that is no variable, constant or name is used twice."""
    found = nodes(expr)
    features = {_FEATURES[type(node)] for node in found if type(node) in _FEATURES}
    used = visitor.uses(node for node in found if isinstance(node, Expr))
    if any(isinstance(node, Expr) and not isinstance(node, visitor.LEAVES) and used.get(id(node), 0) > 1 for node in found):
        features.add(Feature["fGraph"])
    return features
