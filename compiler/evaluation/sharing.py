"""Expressions that occur several times in a function: the place at which each is evaluated, once.

The place is the innermost function body or branch that contains all occurrences.  An expression that first occurs further inside
is *hoisted*: it is evaluated before the innermost enclosing ``if``, ``match`` or function of its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.expr import Expr, Function, If
from ..ir.match_expr import Match
from ..ir.visitor import LEAVES, children


@dataclass(eq=False)
class _Body:
    """A function body or branch; ``holder`` is the function, ``if`` or ``match`` that it is part of."""

    holder: Expr
    outer: _Body | None
    depth: int


@dataclass
class Sharing:
    """``shared``: the expressions that occur several times.  ``hoisted``: per expression those evaluated before it, in order."""

    shared: set[Expr] = field(default_factory=set)
    hoisted: dict[Expr, list[Expr]] = field(default_factory=dict)


def sharing_of(function: Function) -> Sharing:
    """The shared expressions of a function, inner functions included."""
    order, shared = _walk(function.body)
    found = Sharing(shared)
    if not shared:
        return found
    positions: dict[Expr, _Body] = {function.body: _Body(function, None, 0)}
    uses: list[tuple[Expr, _Body]] = []
    for node in reversed(order):
        for child, inner in zip(children(node), _inner_bodies(node, positions[node]), strict=True):
            if not isinstance(child, LEAVES):
                positions[child] = _meet(positions[child], inner) if child in positions else inner
                uses.append((child, inner))
    before: dict[Expr, set[Expr]] = {}
    for node, body in uses:
        if body is not positions[node]:
            while body.outer is not None and body.outer is not positions[node]:
                body = body.outer
            before.setdefault(body.holder, set()).add(node)
    found.hoisted = {holder: [node for node in order if node in nodes] for holder, nodes in before.items()}
    return found


def _walk(root: Expr) -> tuple[list[Expr], set[Expr]]:
    """The expressions below ``root`` in order of evaluation, and those among them that occur several times."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    shared: set[Expr] = set()
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif isinstance(node, LEAVES):
            continue
        elif node in seen:
            shared.add(node)
        else:
            seen.add(node)
            stack.append((node, True))
            stack += [(child, False) for child in reversed(children(node))]
    return order, shared


def _inner_bodies(node: Expr, body: _Body) -> list[_Body]:
    """The body of each child of ``node``."""
    parts = children(node)
    if not isinstance(node, (If, Function, Match)):
        return [body] * len(parts)
    outside = 0 if isinstance(node, Function) else 1
    return [body] * outside + [_Body(node, body, body.depth + 1) for _ in parts[outside:]]


def _meet(a: _Body, b: _Body) -> _Body:
    """The innermost body that contains both."""
    while a is not b:
        if a.depth < b.depth:
            a, b = b, a
        assert a.outer is not None
        a = a.outer
    return a
