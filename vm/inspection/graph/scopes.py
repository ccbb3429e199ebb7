"""Scopes of the nodes of a graph, which can be folded: functions, the names of a model's nodes, numbered parts of long lists."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .nodes import Node, ProgramGraph

#: The most items of a scope; more are divided into parts.
MOST_ITEMS = 40
#: A line of a listing that begins with a name in scopes, ``/encoder/layer.0/MatMul: ...`` or ``encoder/MatMul: ...``.
_NAMED = re.compile(r"([^\s:()]*/[^\s:()]*): ")


@dataclass(eq=False)
class GraphScope:
    """A scope: its name and its items in the order of the code, scopes or numbers of nodes."""

    name: str
    items: list[GraphScope | int] = field(default_factory=list)

    def nodes(self) -> Iterator[int]:
        """The numbers of the nodes in it, and in the scopes in it."""
        waiting: list[GraphScope | int] = [self]
        while waiting:
            item = waiting.pop()
            if isinstance(item, GraphScope):
                waiting += item.items[::-1]
            else:
                yield item


def scopes_of(graph: ProgramGraph) -> GraphScope:
    """The scope of the whole program."""
    root = GraphScope(f"@{graph.entry}")
    inner: dict[tuple[str, ...], GraphScope] = {(): root}
    for number, node in enumerate(graph.nodes):
        path = (*((f"@{node.function}",) if len(graph.functions) > 1 else ()), *named_scope(node))
        for depth in range(1, len(path) + 1):
            if path[:depth] not in inner:
                inner[path[:depth]] = GraphScope(path[depth - 1])
                inner[path[: depth - 1]].items.append(inner[path[:depth]])
        inner[path].items.append(number)
    return _divided(_joined(root))


def named_scope(node: Node) -> tuple[str, ...]:
    """The scope that the line of the source names, outermost first; empty if it names none."""
    found = None if node.span is None else _NAMED.match(node.span.source.line(node.span.line))
    return () if found is None else tuple(filter(None, found[1].split("/")))[:-1]


def _joined(scope: GraphScope) -> GraphScope:
    """The scope with each scope of one item replaced by the item: ``a`` with nothing but ``b`` is ``a/b``."""
    items: list[GraphScope | int] = []
    for item in scope.items:
        made = _joined(item) if isinstance(item, GraphScope) else item
        if isinstance(made, GraphScope) and len(made.items) == 1:
            (only,) = made.items
            if isinstance(only, GraphScope):
                only.name = f"{made.name}/{only.name}"
            made = only
        items.append(made)
    return GraphScope(scope.name, items)


def _divided(scope: GraphScope) -> GraphScope:
    """The scope with at most ``MOST_ITEMS`` items in each scope: longer lists are divided into parts, in order."""
    items: Sequence[GraphScope | int] = [_divided(item) if isinstance(item, GraphScope) else item for item in scope.items]
    return GraphScope(scope.name, _parts(items, 1))


def _parts(items: Sequence[GraphScope | int], first: int) -> list[GraphScope | int]:
    """The items, or parts of them; ``first``: the position of the first item in the list that is divided, from 1."""
    if len(items) <= MOST_ITEMS:
        return list(items)
    levels = math.ceil(math.log(len(items), MOST_ITEMS))
    count = math.ceil(len(items) ** (1 / levels))
    size = math.ceil(len(items) / count)
    return [
        GraphScope(f"{first + at} to {first + min(at + size, len(items)) - 1}", _parts(items[at : at + size], first + at))
        for at in range(0, len(items), size)
    ]
