"""Sequences and optionals: tuples whose length is known at import, and values that are absent, or not, at import."""

from __future__ import annotations

from collections.abc import Sequence

from ....ops.core.tensor_types import TupleType
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr, Tuple, TupleGetItem, type_of
from ..node import Node
from ..operator_table import onnx_operator
from .parts import known_parts, open_parts
from .shapes import squeezed
from .vectors import as_int64, numbers


def elements(node: Node, sequence: Expr) -> list[Expr]:
    """The tensors of a sequence.  Raises ModelError for a tensor."""
    whole = node.bind(sequence)
    ty = type_of(whole)
    if not isinstance(ty, TupleType):
        raise node.error(f"a sequence is wanted, not {ty}")
    return [node.bind(TupleGetItem(whole, k)) for k in range(len(ty.fields))]


def _sequence(tensors: Sequence[Expr]) -> Expr:
    return Tuple(tuple(tensors))


@onnx_operator("SequenceEmpty", since=11)
def empty(node: Node) -> Expr:
    return _sequence([])


@onnx_operator("SequenceConstruct", since=11)
def construct(node: Node, *tensors: Expr) -> Expr:
    return _sequence(tensors)


@onnx_operator("SequenceLength", since=11)
def sequence_length(node: Node, sequence: Expr) -> Expr:
    return const(len(elements(node, sequence)), "int64")


def _place(node: Node, position: Expr, count: int, *, inserts: bool = False) -> int:
    """A known position, counted from the front; ``inserts``: the end is a position, too.  Raises ModelError."""
    value = node.constant(position)
    if value is None:
        raise node.error("the position must be known at import, for it decides the type of the sequence")
    known = int(value.reshape(-1)[0])
    if not -count <= known < count + inserts:
        raise node.error(f"a sequence of {count} tensors has no position {known}")
    return known + count if known < 0 else known


@onnx_operator("SequenceInsert", since=11)
def insert(node: Node, sequence: Expr, tensor: Expr, position: Expr | None) -> Expr:
    """The position must be known at import."""
    parts = elements(node, sequence)
    at = len(parts) if position is None else _place(node, position, len(parts), inserts=True)
    return _sequence([*parts[:at], tensor, *parts[at:]])


@onnx_operator("SequenceErase", since=11)
def erase(node: Node, sequence: Expr, position: Expr | None) -> Expr:
    """The position must be known at import."""
    parts = elements(node, sequence)
    at = len(parts) - 1 if position is None else _place(node, position, len(parts))
    if not parts:
        raise node.error("an empty sequence has no element")
    return _sequence([*parts[:at], *parts[at + 1 :]])


@onnx_operator("SequenceAt", since=11)
def at(node: Node, sequence: Expr, position: Expr) -> Expr:
    """At a position known at run time only, the tensors must have one dtype and rank."""
    parts = elements(node, sequence)
    if not parts:
        raise node.error("an empty sequence has no element")
    if node.constant(position) is not None:
        return parts[_place(node, position, len(parts))]
    count = len(parts)
    counted = relay.add(relay.reshape(as_int64(node, position), []), const(count, "int64"))
    chosen = node.bind(relay.take(numbers([*range(count), *range(count)]), counted, axis=0, mode="fast"))

    def among(inner: Node, k: int) -> Expr:
        if k == count - 1:
            return parts[k]
        here = relay.equal(chosen, const(k, "int64"))
        return inner.choose(here, lambda _: parts[k], lambda branch: among(branch, k + 1))

    return among(node, 0)


@onnx_operator("ConcatFromSequence", since=11)
def concat(node: Node, sequence: Expr) -> Expr:
    parts, axis = elements(node, sequence), node.required("axis")
    if not parts:
        raise node.error("an empty sequence has no tensor to concatenate")
    if node.attr("new_axis", 0):
        return relay.stack(parts, axis=node.axis(axis, node.rank(parts[0]) + 1))
    axis = node.axis(axis, node.rank(parts[0]))
    return relay.concatenate(parts, axis) if len(parts) > 1 else parts[0]


@onnx_operator("SplitToSequence", since=11)
def split(node: Node, x: Expr, parts: Expr | None) -> Expr:
    """The number of parts must be known at import."""
    axis = node.axis(node.attr("axis", 0), node.rank(x))
    total, known = node.size(x, axis), node.constant(parts)
    if parts is not None and node.rank(parts) == 1:
        count = node.size(parts, 0)
        if known is not None:
            return _sequence(known_parts(node, x, axis, known.tolist()))
        if count is not None:
            return _sequence(open_parts(node, x, axis, parts, count))
    elif total is not None and (parts is None or known is not None):
        each = 1 if known is None else int(known.reshape(-1)[0])
        if each < 1:
            raise node.error(f"parts of {each} elements are impossible")
        made = known_parts(node, x, axis, [min(each, total - k) for k in range(0, total, each)])
        drops = parts is None and not node.attr("keepdims", 1)
        return _sequence([squeezed(node, p, [axis]) for p in made] if drops else made)
    help = "give `split` as a vector with a number for each part"
    raise node.error("the number of parts must be known at import, for it decides the type of the sequence", help)


@onnx_operator("SequenceMap", since=17)
def sequence_map(node: Node, first: Expr, *more: Expr) -> list[Expr]:
    """The length of the sequences must be known at import."""
    graph, rows = node.required("body"), [elements(node, first)]
    count = len(rows[0])
    for value in more:
        is_sequence = isinstance(type_of(node.bind(value)), TupleType)
        rows.append(elements(node, value) if is_sequence else [value] * count)
    if any(len(r) != count for r in rows):
        raise node.error(f"the sequences have the lengths {', '.join(str(len(r)) for r in rows)}")
    results = [node.subgraph(graph, list(inputs)) for inputs in zip(*rows, strict=True)]
    return [_sequence([r[k] for r in results]) for k in range(len(node.outputs))]


# ---- optionals -----------------------------------------------------------------------------------------------------------


@onnx_operator("Optional", since=15)
def optional(node: Node, x: Expr | None) -> list[Expr | None]:
    """Whether the value is absent must be known at import."""
    return [x]


@onnx_operator("OptionalHasElement", since=15)
def has_element(node: Node, x: Expr | None) -> Expr:
    return const(x is not None)


@onnx_operator("OptionalGetElement", since=15)
def get_element(node: Node, x: Expr) -> Expr:
    return x
