"""The page of a program's graph: its nodes, edges and scopes as data, each scope with a layout of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ....ops.core.group import Group
from ....ops.core.tensor_types import Tensor, TensorType
from ....shape_funcs.symbolic.dim import ANY, const
from ...bytecode.size_expressions import shape_text
from ...device_table import DEVICES
from ...inspection.graph.node_times import NodeTime
from ...inspection.graph.nodes import ProgramGraph
from ...inspection.graph.scopes import MOST_ITEMS, GraphScope
from ..page_file import filled_page
from .layout import Layout, Size, layered

#: Sizes of boxes in pixels: the width of a character, and around the text; the widths allowed; the height, without and of times.
_CHARACTER, _AROUND, _LEAST, _MOST, _HEIGHT, _TIME = 7, 30, 100, 240, 44, 15
#: The characters of a scope's box, at least.
_SCOPE = 26
#: Files of this folder, from that of the pages.
_FOLDER = "graph/"

Times = Mapping[int, NodeTime]


def graph_page(graph: ProgramGraph, root: GraphScope, times: Times, title: str, subtitle: str, settings: Sequence[str]) -> str:
    """The HTML page of a graph, which needs no network.  ``times``: empty if no run was measured.

    ``settings``: texts at the top.  Raises ConfigError if the package of layouts is not installed.
    """
    data = {"title": title, "subtitle": subtitle, "settings": list(settings), **_Data(graph, root, times).data()}
    return filled_page(f"{_FOLDER}graph.html", title, data, (f"{_FOLDER}graph.js",), (f"{_FOLDER}graph.css",))


class _Data:
    """The graph as plain data; texts are numbers in one list, since most occur often."""

    def __init__(self, graph: ProgramGraph, root: GraphScope, times: Times) -> None:
        self.graph, self.root, self.times = graph, root, times
        self.texts: dict[str, int] = {}
        self.kernels: dict[str, int] = {}
        self.inner: list[dict[str, Any]] = []
        self.height = _HEIGHT + (_TIME if times else 0)

    def data(self) -> dict[str, Any]:
        """The data of the page's script."""
        nodes = [self._node(number) for number in range(len(self.graph.nodes))]
        edges = [
            [e.source, e.target, self._text(e.name), self._text(e.type), e.nbytes, int(e.sizes_only)] for e in self.graph.edges
        ]
        scopes = self._scopes()
        listed = {"nodes": nodes, "edges": edges, "scopes": scopes, "kernels": self.inner}
        return {"devices": list(DEVICES), "most": MOST_ITEMS, **listed, "texts": list(self.texts)}

    def _text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def _node(self, number: int) -> list[Any]:
        node, time = self.graph.nodes[number], self.times.get(number, NodeTime(0, 0))
        facts = {key: value for key, value in node.detail.items() if value}
        if node.constants:
            facts["constants"] = "; ".join(node.constants)
        span = node.span
        place = (
            "" if span is None else f"{span.source.name.rpartition('/')[2]}:{span.line}: {span.source.line(span.line).strip()}"
        )
        return [
            node.kind,
            self._text(node.name),
            self._text(node.function),
            node.pc,
            DEVICES.index(node.device),
            self._text(node.formats),
            self._text(place),
            [[self._text(key), self._text(value)] for key, value in facts.items()],
            -1 if node.group is None or len(node.group.nodes) < 2 else self._kernel(node.group),
            round(time.ns),
            round(time.calls, 2),
            self._text(node.callee),
        ]

    # ---- layouts -----------------------------------------------------------------------------------------------------------

    def _scopes(self) -> list[list[Any]]:
        """Each scope as its name, its items (nodes, or scopes as ``~number``) and its layout; the outermost first."""
        scopes, at = [self.root], 0
        items: list[list[int]] = []
        while at < len(scopes):
            items.append([])
            for item in scopes[at].items:
                items[at].append(~len(scopes) if isinstance(item, GraphScope) else item)
                if isinstance(item, GraphScope):
                    scopes.append(item)
            at += 1
        edges = self._edges_by_scope(items)
        return [
            [self._text(scope.name), listed, self._layout([self._size(i) for i in scope.items], found)]
            for scope, listed, found in zip(scopes, items, edges, strict=True)
        ]

    def _edges_by_scope(self, items: Sequence[Sequence[int]]) -> list[list[tuple[int, int]]]:
        """For each scope the edges between its items, by position: a value belongs to the innermost scope of both ends."""
        outer = {item: (scope, position) for scope, listed in enumerate(items) for position, item in enumerate(listed)}
        found: list[dict[tuple[int, int], None]] = [{} for _ in items]
        for edge in self.graph.edges:
            if edge.sizes_only:  # drawn where asked for, over the layout of the values
                continue
            source, target = _path(edge.source, outer), _path(edge.target, outer)
            for (scope, one), (other, two) in zip(source, target, strict=False):
                if one != two:
                    assert scope == other, "the paths part here"
                    found[scope][one, two] = None
                    break
        return [list(edges) for edges in found]

    def _size(self, item: GraphScope | int) -> Size:
        if isinstance(item, GraphScope):
            words = max(len(item.name) + 2, _SCOPE)
        else:
            node = self.graph.nodes[item]
            second = next((node.detail[key] for key in ("because", "results", "type", "result") if node.detail.get(key)), "")
            words = max(len(node.name) + 2, len(second))
        return _width(words), self.height

    def _kernel(self, group: Group) -> int:
        """The number of the operators of a kernel, with their layout."""
        key = group.key()
        if key not in self.kernels:
            self.kernels[key] = len(self.inner)
            made_by: dict[int, int] = {}
            edges: list[tuple[int, int]] = []
            ops: list[tuple[str, str]] = []
            number = len(group.params) + len(group.literals)
            for position, node in enumerate(group.nodes):
                refs = [r for arg in node.args for r in (arg if isinstance(arg, tuple) else (arg,))]
                edges += [(made_by[r], position) for r in dict.fromkeys(refs) if r in made_by]
                for _ in node.outputs:
                    made_by[number], number = position, number + 1
                ops.append((node.op, ", ".join(map(_own_type, node.outputs))))
            sizes = [(_width(max(map(len, op)) + 2), _HEIGHT) for op in ops]
            listed = [[self._text(name), self._text(ty)] for name, ty in ops]
            self.inner.append({"ops": listed, "edges": list(dict.fromkeys(edges)), "layout": self._layout(sizes, edges)})
        return self.kernels[key]

    def _layout(self, sizes: Sequence[Size], edges: Sequence[tuple[int, int]]) -> list[Any]:
        found: Layout = layered(sizes, edges)
        boxes = [[round(x), round(y), *size] for (x, y), size in zip(found.corners, sizes, strict=True)]
        routes = [[a, b, *(round(v) for point in points for v in point)] for (a, b), points in found.routes.items()]
        return [math.ceil(found.width), math.ceil(found.height), boxes, routes]


def _path(node: int, outer: Mapping[int, tuple[int, int]]) -> list[tuple[int, int]]:
    """The scopes around a node, outermost first, each with the position of the item that leads to the node."""
    path, item = [], node
    while item != ~0:
        scope, position = outer[item]
        path.append((scope, position))
        item = ~scope
    return path[::-1]


def _own_type(tensor: Tensor) -> str:
    """The type of a value of a kernel; the names of its dims are the kernel's own."""
    return shape_text(TensorType(tuple(d if const(d) is not None else ANY for d in tensor.shape), tensor.dtype))


def _width(characters: int) -> int:
    return min(_MOST, max(_LEAST, _CHARACTER * characters + _AROUND))
