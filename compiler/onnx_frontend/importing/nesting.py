"""The nesting of subgraphs in the bytes of a model; protobuf reads no message that is nested more than 100 deep."""

from __future__ import annotations

from .wire_format import fields

#: The fields of messages within messages: ModelProto.graph, GraphProto.node, NodeProto.attribute, AttributeProto.g and graphs.
_INSIDE = {"model": {7: "graph"}, "graph": {1: "node"}, "node": {5: "attribute"}, "attribute": {6: "graph", 11: "graph"}}
_OUTPUT, _NAME, _OPERATOR = 2, 3, 4


def deep_node(data: bytes, most: int) -> tuple[str, str] | None:
    """Operator and name of a node whose subgraph is more than ``most`` graphs deep; None if there is none.

    Each field of the file is visited once.  Bytes that are no message are left out.
    """
    todo = [("model", 0, len(data), 0, -1)]  # message, its bytes, its depth in graphs, the begin of the node around
    ends: dict[int, int] = {}
    while todo:
        message, begin, end, depth, node = todo.pop()
        if depth > most:
            return _node_name(data, node, ends[node])
        for field, _, start, stop in fields(data, begin, end):
            inside = _INSIDE[message].get(field)
            if inside == "node":
                ends[start] = stop
            if inside is not None:
                todo.append((inside, start, stop, depth + (inside == "graph"), start if inside == "node" else node))
    return None


def _node_name(data: bytes, begin: int, end: int) -> tuple[str, str]:
    """Operator and name of a node; its first output if it has no name."""
    found: dict[int, str] = {}
    for field, _, start, stop in fields(data, begin, end):
        if field in (_OUTPUT, _NAME, _OPERATOR):
            found.setdefault(field, data[start:stop].decode("utf-8", "replace"))
    return found.get(_OPERATOR, ""), found.get(_NAME) or found.get(_OUTPUT, "")
