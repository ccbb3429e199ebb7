"""Traversal of expressions without Python recursion: graphs of any depth, each shared node once.

``run`` executes a recursive function on the heap: the function is a generator that *yields the generators of its recursive calls*
and receives their return values.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from ...ops.core.op import Op
from .expr import Call, Constant, Constructor, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from .match_expr import Match, RefCreate, RefRead, RefWrite, pattern_vars, with_results

T = TypeVar("T")
#: A recursive computation as a generator: yields computations of the same kind, returns a result.
Steps = Generator[Any, Any, T]

LEAVES = (Var, Constant, GlobalVar, Constructor)


def run(steps: Steps[T]) -> T:
    """The result of ``steps``; depth uses heap memory instead of the Python stack."""
    stack: list[Steps[Any]] = [steps]
    value: Any = None
    while True:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as end:
            stack.pop()
            value = end.value
            if not stack:
                result: T = value
                return result


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions of ``expr``, in order of evaluation, without bound variables."""
    match expr:
        case Call(op=op, args=args):
            return args if isinstance(op, Op) else (op, *args)
        case Let(value=value, body=body):
            return (value, body)
        case _ if isinstance(expr, LEAVES):  # early, for half of the nodes are leaves
            return ()
        case Tuple(fields=fields):
            return fields
        case TupleGetItem(tuple_value=value):
            return (value,)
        case If(cond=cond, true_branch=true, false_branch=false):
            return (cond, true, false)
        case Function(body=body):
            return (body,)
        case Match(data=data, clauses=clauses):
            return (data, *(c.rhs for c in clauses))
        case RefCreate(value=value):
            return (value,)
        case RefRead(ref=ref):
            return (ref,)
        case RefWrite(ref=ref, value=value):
            return (ref, value)
    return ()


def with_children(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """``expr`` with its ``children`` replaced; ``expr`` itself if none differs."""
    if all(a is b for a, b in zip(children(expr), new, strict=True)):
        return expr
    match expr:
        case Call(op=op):
            return replace(expr, args=new) if isinstance(op, Op) else replace(expr, op=new[0], args=new[1:])
        case Tuple():
            return replace(expr, fields=new)
        case TupleGetItem():
            return replace(expr, tuple_value=new[0])
        case Let():
            return replace(expr, value=new[0], body=new[1])
        case If():
            return replace(expr, cond=new[0], true_branch=new[1], false_branch=new[2])
        case Function():
            return replace(expr, body=new[0])
        case Match(clauses=clauses):
            return replace(expr, data=new[0], clauses=with_results(clauses, new[1:]))
        case RefCreate():
            return replace(expr, value=new[0])
        case RefRead():
            return replace(expr, ref=new[0])
        case RefWrite():
            return replace(expr, ref=new[0], value=new[1])
    raise AssertionError(f"{type(expr).__name__} has no children")


def post_order(*roots: Expr) -> list[Expr]:
    """Every expression reachable from ``roots``, each object once, children before their users.

    Variables are listed at their uses, not at their bindings.
    """
    order: list[Expr] = []
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        expr, done = stack.pop()
        if done:
            order.append(expr)
        elif id(expr) not in seen:
            seen.add(id(expr))
            stack.append((expr, True))
            stack.extend((child, False) for child in reversed(children(expr)))
    return order


def rewrite(expr: Expr, visit: Callable[[Expr], Expr]) -> Expr:
    """``expr`` with ``visit`` applied to every node, children first; shared nodes stay shared.

    ``visit`` gets a node with rewritten children, and returns it or its replacement.
    """
    new: dict[int, Expr] = {}
    for old in post_order(expr):
        new[id(old)] = visit(with_children(old, tuple(new[id(child)] for child in children(old))))
    return new[id(expr)]


def bound_vars(expr: Expr) -> tuple[Var, ...]:
    """The variables that this node itself binds."""
    if isinstance(expr, Function):
        return expr.params
    if isinstance(expr, Match):
        return tuple(var for clause in expr.clauses for var in pattern_vars(clause.lhs))
    return (expr.var,) if isinstance(expr, Let) else ()


def free_vars(*roots: Expr) -> list[Var]:
    """The free variables of ``roots``, in order of first occurrence.

    Every variable is bound at most once in a well-formed program, so a variable bound anywhere inside is not free.
    """
    nodes = post_order(*roots)
    bound = {id(var) for node in nodes for var in bound_vars(node)}
    return [node for node in nodes if isinstance(node, Var) and id(node) not in bound]


def uses(nodes: Iterable[Expr]) -> dict[int, int]:
    """The number of uses of each expression (by ``id``) as a child of ``nodes``."""
    count: dict[int, int] = {}
    for node in nodes:
        for child in children(node):
            count[id(child)] = count.get(id(child), 0) + 1
    return count
