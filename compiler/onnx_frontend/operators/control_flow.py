"""Control flow: branches and loops over subgraphs, which may use every value around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ops.core.tensor_types import TupleType
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr, Tuple, TupleGetItem, type_of
from ..loops import Round, loop
from ..node import BranchTypes, LengthChanges, Node, UnknownRank
from ..operator_table import onnx_operator

#: The most rounds of a loop over a sequence whose length changes.
MAX_ROUNDS = 1024


@onnx_operator("If", since=1)
def branch(node: Node, condition: Expr) -> list[Expr]:
    """Outputs of the branches may have different ranks if the rest of the graph fits one branch, or gives both one type."""
    graphs = [node.required("then_branch"), node.required("else_branch")]
    count = len(node.outputs)

    def outputs(inner: Node, graph: Any) -> Expr:
        values = inner.subgraph(graph)
        if len(values) != count:
            raise node.error(f"a branch has {len(values)} outputs; {count} are wanted")
        return values[0] if count == 1 else Tuple(tuple(values))

    condition = node.bind(relay.reshape(condition, []))
    try:
        chosen = node.bind(node.choose(condition, lambda n: outputs(n, graphs[0]), lambda n: outputs(n, graphs[1])))
    except UnknownRank as error:
        raise error if node.constant(condition) is not None else BranchTypes.within(node, error) from None
    return [chosen] if count == 1 else fields(node, chosen)


def fields(node: Node, whole: Expr) -> list[Expr]:
    """The fields of a tuple."""
    ty = type_of(whole)
    assert isinstance(ty, TupleType)
    return [node.bind(TupleGetItem(whole, k)) for k in range(len(ty.fields))]


@onnx_operator("Loop", since=1)
def loop_over_subgraph(node: Node, trips: Expr | None, condition: Expr | None, *initial: Expr) -> list[Expr]:
    """Any number of states; values collected in no round have the size 0 along axes whose sizes only the body computes.

    A sequence among the states may change its length if the number of rounds is known at import.
    """
    graph, count = node.required("body"), len(initial)

    def body(inner: Node, index: Expr, more: Expr, states: Sequence[Expr]) -> Round:
        outputs = inner.subgraph(graph, [index, more, *states])
        if len(outputs) < 1 + count:
            raise node.error(f"its body has {len(outputs)} outputs; at least {1 + count} are wanted")
        return Round(outputs[0], outputs[1 : 1 + count], outputs[1 + count :])

    try:
        states, collected = loop(node, trips, condition, initial, body)
    except LengthChanges as error:
        rounds = _known_rounds(node, trips, condition)
        if error.node.outputs != node.outputs or rounds is None:
            raise
        states, collected = _unrolled(node, graph, rounds, initial, error)
    return [*states, *collected]


def _known_rounds(node: Node, trips: Expr | None, condition: Expr | None) -> int | None:
    """The number of rounds of a loop whose body does not end the loop; None if the number is not known at import."""
    count, begins = node.constant(trips), node.constant(condition)
    if condition is not None and begins is not None and not begins.any():
        return 0
    return None if count is None or (condition is not None and begins is None) else max(int(count.reshape(-1)[0]), 0)


def _unrolled(
    node: Node, graph: Any, rounds: int, initial: Sequence[Expr], error: LengthChanges
) -> tuple[list[Expr], list[Expr]]:
    """The states and the collected values after so many rounds, one body after the other.

    Raises ``error`` for a body that decides at run time whether the loop ends.
    """
    states, rows = list(initial), list[list[Expr]]()
    if rounds > MAX_ROUNDS or (rounds == 0 and len(node.outputs) > len(states)):
        raise error
    for number in range(rounds):
        more, *values = node.subgraph(graph, [const(number, "int64"), const(True), *states])
        states = values[: len(states)]
        rows.append(values[len(states) :])
        again = node.constant(more)
        if again is None:
            raise error
        if not again.any():
            break
    return states, [relay.stack(list(column), axis=0) for column in zip(*rows, strict=True)]


@onnx_operator("Scan", since=9)
def scan(node: Node, *inputs: Expr) -> list[Expr]:
    count = node.required("num_scan_inputs")
    states, sources = list(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])
    return _scanned(node, states, sources)


def _scanned(node: Node, states: Sequence[Expr], sources: Sequence[Expr]) -> list[Expr]:
    if not sources:
        raise node.error("it scans no input")
    graph = node.required("body")
    axes = [node.axis(a, node.rank(s)) for a, s in zip(_each(node, "scan_input_axes", len(sources)), sources, strict=True)]
    backwards = _each(node, "scan_input_directions", len(sources))
    sources = [node.bind(s) for s in sources]
    trips = relay.take(relay.shape_of(sources[0], dtype="int64"), const(axes[0], "int64"), axis=0)
    trips = node.bind(trips)

    def body(inner: Node, index: Expr, more: Expr, states: Sequence[Expr]) -> Round:
        last = relay.subtract(relay.subtract(trips, const(1, "int64")), index)
        rows = [
            inner.bind(relay.take(s, last if back else index, axis=a, mode="fast"))
            for s, a, back in zip(sources, axes, backwards, strict=True)
        ]
        outputs = inner.subgraph(graph, [*states, *rows])
        return Round(None, outputs[: len(states)], outputs[len(states) :])

    finals, collected = loop(node, trips, None, states, body)
    directions = _each(node, "scan_output_directions", len(collected))
    positions = _each(node, "scan_output_axes", len(collected))
    return [*finals, *(_placed(node, c, a, back) for c, a, back in zip(collected, positions, directions, strict=True))]


def _each(node: Node, name: str, count: int) -> list[int]:
    """An attribute with one number for each of several values, 0 by default."""
    given: list[int] = node.attr(name) or [0] * count
    if len(given) != count:
        raise node.error(f"{name} has {len(given)} numbers; {count} are wanted")
    return given


def _placed(node: Node, stack: Expr, axis: int, backwards: int) -> Expr:
    """The stack with its first axis at another place, and back to front."""
    rank = node.rank(stack)
    axis = node.axis(axis, rank)
    stack = relay.reverse(stack, axis=0) if backwards else stack
    order = list(range(1, rank))
    order.insert(axis, 0)
    return relay.transpose(stack, order) if axis else stack


@onnx_operator("Scan", since=8)
def scan_of_batch(node: Node, lengths: Expr | None, *inputs: Expr) -> list[Expr]:
    """Version 8: the first axis is a batch, the second is scanned; every sequence has the full length."""
    if lengths is not None:
        raise node.error("sequence_lens is given, which only version 8 of the operator has")
    count = node.required("num_scan_inputs")
    bound = [node.bind(x) for x in inputs]
    trips = relay.take(relay.shape_of(bound[0], dtype="int64"), const(0, "int64"), axis=0)

    def body(inner: Node, index: Expr, more: Expr, states: Sequence[Expr]) -> Round:
        rows = [inner.bind(relay.take(x, index, axis=0, mode="fast")) for x in bound]
        return Round(None, (), _scanned(inner, rows[: len(rows) - count], rows[len(rows) - count :]))

    return loop(node, trips, None, (), body)[1]
