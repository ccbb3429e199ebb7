"""The nesting of subgraphs in the bytes of a model; protobuf reads no message that is nested more than 100 deep.

A message is a series of fields: a number ``field << 3 | kind``, then a number (kind 0), 8 bytes (1), a length and that many bytes
(2), or 4 bytes (5).  Numbers have 7 bits in a byte, the lowest first, and a bit that says whether there are more.
"""

from __future__ import annotations

from collections.abc import Iterator

#: The fields of messages within messages: ModelProto.graph, GraphProto.node, NodeProto.attribute, AttributeProto.g and graphs.
_INSIDE = {"model": {7: "graph"}, "graph": {1: "node"}, "node": {5: "attribute"}, "attribute": {6: "graph", 11: "graph"}}
_OUTPUT, _NAME, _OPERATOR = 2, 3, 4
_FIXED = {1: 8, 5: 4}


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
        for field, start, stop in _fields(data, begin, end):
            inside = _INSIDE[message].get(field)
            if inside == "node":
                ends[start] = stop
            if inside is not None:
                todo.append((inside, start, stop, depth + (inside == "graph"), start if inside == "node" else node))
    return None


def _node_name(data: bytes, begin: int, end: int) -> tuple[str, str]:
    """Operator and name of a node; its first output if it has no name."""
    found: dict[int, str] = {}
    for field, start, stop in _fields(data, begin, end):
        if field in (_OUTPUT, _NAME, _OPERATOR):
            found.setdefault(field, data[start:stop].decode("utf-8", "replace"))
    return found.get(_OPERATOR, ""), found.get(_NAME) or found.get(_OUTPUT, "")


def _fields(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields with a length, and where their bytes begin and end, up to the first that is none."""
    at = begin
    while at < end:
        key, at = _number(data, at, end)
        field, kind = key >> 3, key & 7
        if kind == 0:
            _, at = _number(data, at, end)
        elif kind == 2:
            length, at = _number(data, at, end)
            if at + length > end:
                return
            yield field, at, at + length
            at += length
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            return


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of up to 64 bits and where it ends; beyond ``end`` it is 0."""
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at
    return 0, end
