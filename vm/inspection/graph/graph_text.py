"""A graph as text and as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ..figures import align, time_text
from .node_times import NodeTime
from .nodes import COPY, KERNEL, ProgramGraph
from .scopes import MOST_ITEMS, GraphScope

#: Version of the JSON form.
SCHEMA = 1
#: The depth of the scopes that the text lists.
_DEPTH = 2

Times = Mapping[int, NodeTime]
Line = tuple[str, str, str, str, str]


def graph_text(graph: ProgramGraph, root: GraphScope, times: Times) -> str:
    """The scopes with their kernels, copies, devices and times; of a small program also the nodes."""
    whole = sum(time.ns for time in times.values())
    nodes = len(graph.nodes) <= MOST_ITEMS
    lines = [_summary(graph, root, times, whole, 0), *_listed(graph, root, times, whole, 1, nodes)]
    header = ("Name", "Kernels", "Copies", "Device", "Time" if times else "")
    return align([header, *lines], (0, 3))


def _listed(graph: ProgramGraph, scope: GraphScope, times: Times, whole: float, depth: int, nodes: bool) -> Iterator[Line]:
    for item in scope.items:
        if isinstance(item, GraphScope):
            yield _summary(graph, item, times, whole, depth)
            if depth < _DEPTH or nodes:
                yield from _listed(graph, item, times, whole, depth + 1, nodes)
        elif nodes:
            node = graph.nodes[item]
            fact = node.detail.get("because") or node.detail.get("results") or node.detail.get("type") or ""
            name = f"{'  ' * depth}{node.name}" + (f": {fact}" if fact else "")
            yield name, "", "", node.device, _time(times[item].ns, whole) if item in times else ""


def _summary(graph: ProgramGraph, scope: GraphScope, times: Times, whole: float, depth: int) -> Line:
    inside = list(scope.nodes())
    kinds = Counter(graph.nodes[n].kind for n in inside)
    devices = dict.fromkeys(graph.nodes[n].device for n in inside if graph.nodes[n].kind == KERNEL)
    time = sum(times[n].ns for n in inside if n in times)
    shown = _time(time, whole) if times else ""
    return f"{'  ' * depth}{scope.name}", str(kinds[KERNEL]), str(kinds[COPY]), ", ".join(devices), shown


def _time(ns: float, whole: float) -> str:
    return f"{time_text(ns)} ({100 * ns / whole:.1f} %)" if whole else time_text(ns)


def graph_data(graph: ProgramGraph, root: GraphScope, times: Times) -> dict[str, Any]:
    """The graph as plain data: nodes with their scopes, edges by the numbers of nodes; times in ns per run."""
    scopes = dict(_scopes(root, ()))
    nodes = []
    for number, node in enumerate(graph.nodes):
        time = times.get(number)
        nodes.append(
            {
                "kind": node.kind,
                "name": node.name,
                "scope": list(scopes[number]),
                "function": node.function,
                "pc": node.pc,
                "device": node.device,
                "formats": node.formats,
                "facts": dict(node.detail),
                "constants": list(node.constants),
                "operators": [] if node.group is None else [n.op for n in node.group.nodes],
                "place": None if node.span is None else node.span.place,
                "ns": None if time is None else time.ns,
            }
        )
    edges = [
        {"source": e.source, "target": e.target, "name": e.name, "type": e.type, "bytes": e.nbytes, "sizes_only": e.sizes_only}
        for e in graph.edges
    ]
    return {"schema": SCHEMA, "entry": graph.entry, "device": graph.device, "nodes": nodes, "edges": edges}


def _scopes(scope: GraphScope, path: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
    for item in scope.items:
        if isinstance(item, GraphScope):
            yield from _scopes(item, (*path, item.name))
        else:
            yield item, path
