"""Sequences and optionals: tuples whose length is known at import, and values that are absent, or not, at import.

Parts whose number comes at run time are a value of the library's type ``List``:

    let %loop = fn (%i: int64, %more: bool, %list: List[Tensor[(?, 4), float32]]) -> (List[Tensor[(?, 4), float32]]) {
      if (and(%i < %count, %more)) { ...; %loop(%i + 1, %more, Cons(%part, %list)) } else { (%list) }
    };
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ....ops.core.adt_types import TypeCall
from ....ops.core.tensor_types import TensorType, TupleType
from ....shape_funcs.symbolic.dim import ANY
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...builder.type_definitions import list_definition
from ...ir.expr import Call, Constructor, Expr, Tuple, TupleGetItem, type_of
from ..loops import Round, loop
from ..node import Node
from ..operator_table import onnx_operator
from ..run_time_checks import check_lengths
from ..scope import Scope
from .parts import known_parts, open_parts, part_of
from .shapes import squeezed
from .vectors import as_int64, extent, numbers


def elements(node: Node, sequence: Expr) -> list[Expr]:
    """The tensors of a sequence.  Raises ModelError for a tensor."""
    whole = node.bind(sequence)
    ty = type_of(whole)
    if isinstance(ty, TypeCall):
        help = "give SplitToSequence `split` as a vector of known length"
        raise node.error("the length of the sequence must be known at import", help)
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
    """Parts whose number is known at run time only are a list, which the model may return; no other operator takes it."""
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
    return _list_of_parts(node, x, axis, parts)


def _list_of_parts(node: Node, x: Expr, axis: int, parts: Expr | None) -> Expr:
    """The list of the parts along an axis, whose number is known at run time."""
    total = node.bind(extent(x, axis))
    if parts is not None and node.rank(parts) == 1:
        sizes = node.bind(as_int64(node, parts))
        ends = node.bind(relay.cumsum(sizes, axis=0))
        given, wanted = (node.bind(relay.full(const(True), relay.reshape(n, [1]))) for n in (relay.sum(sizes), total))
        check_lengths(node, given, wanted, "the parts have {} elements of {}")

        def part(inner: Node, k: Expr) -> Expr:
            end = relay.take(ends, k, axis=0)
            return part_of(inner, x, axis, relay.subtract(end, relay.take(sizes, k, axis=0)), end)

        return _listed(node, extent(sizes, 0), part)
    one = const(1, "int64")
    each = one if parts is None else node.bind(relay.reshape(as_int64(node, parts), []))
    drops = parts is None and not node.attr("keepdims", 1)

    def equal_part(inner: Node, k: Expr) -> Expr:
        if drops:
            return relay.take(x, k, axis=axis)
        begin = relay.multiply(k, each)
        return part_of(inner, x, axis, begin, relay.minimum(relay.add(begin, each), total))

    return _listed(node, relay.floor_divide(relay.subtract(relay.add(total, each), one), each), equal_part)


def _listed(node: Node, count: Expr, element: Callable[[Node, Expr], Expr]) -> Expr:
    """The list of ``count`` tensors, a number at run time: ``element`` makes the tensor of a position, an int64."""
    definition = list_definition()
    cons, nil = definition.constructors
    node.scope.values.types[definition.header.name] = definition
    tried = replace(node, scope=Scope(node.scope.values))
    one = tried.type(element(tried, const(0, "int64")))
    # any sizes: those of the first tensor may be known here, and those of the others not
    ty = TypeCall(definition.header, (TensorType((ANY,) * one.rank, one.dtype),))
    count = node.bind(relay.reshape(count, []))

    def made(inner: Node, constructor: Constructor, parts: Sequence[Expr]) -> Expr:
        return inner.scope.add(Call(constructor, tuple(parts), span=node.span, ty=ty), "list")

    def body(inner: Node, index: Expr, more: Expr, states: Sequence[Expr]) -> Round:
        # from the last to the first: a list grows at its begin
        position = inner.bind(relay.subtract(relay.subtract(count, const(1, "int64")), index))
        return Round(None, [made(inner, cons, (inner.bind(element(inner, position)), *states))])

    [whole], _ = loop(node, count, None, [made(node, nil, ())], body)
    return whole


@onnx_operator("SequenceMap", since=17)
def sequence_map(node: Node, first: Expr, *more: Expr) -> list[Expr]:
    """The length of the sequences must be known at import."""
    graph, rows = node.required("body"), [elements(node, first)]
    count = len(rows[0])
    for value in more:
        is_sequence = not isinstance(type_of(node.bind(value)), TensorType)
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
