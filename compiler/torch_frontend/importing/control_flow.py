"""Operators of torch over graphs: ``cond``, ``while_loop``, ``scan`` and ``map``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr, Tuple, TupleGetItem
from ...onnx_frontend.loops import Round, loop
from ...onnx_frontend.node import Node
from ...onnx_frontend.scope import Scope, constant
from ..torch_node import TorchNode
from ..torch_package import torch_package
from .graph import GraphConverter

#: A converter of an operator: the converter of the graph, the call, and its arguments, of which some are graphs.
OverGraphs = Callable[..., list[Expr]]


@functools.cache
def over_graphs() -> dict[Any, OverGraphs]:
    """The converters by operator."""
    operators = torch_package().ops.higher_order
    return {operators.cond: _branches, operators.while_loop: _while, operators.scan: _scan, operators.map_impl: _map}


def _branches(graph: GraphConverter, call: TorchNode, condition: Any, then: Any, other: Any, operands: Any) -> list[Expr]:
    """The results of one of two graphs, of which only that one is computed."""
    chosen = graph.resolved(condition)
    if not isinstance(chosen, Expr):
        chosen = constant(np.array(chosen, bool))
    given, made = graph.resolved(list(operands)), []
    for branch in (then, other):
        inner = graph.within(Scope(graph.scope.values))
        made.append(inner.scope.chain(inner.scope.bind(Tuple(inner.results(_graph(branch), given, call)), call.span)))
    whole = graph.scope.bind(call.conditional(call.cast(chosen, "bool"), *made), call.span, call.op_type)
    return [graph.scope.bind(TupleGetItem(whole, k), call.span) for k in range(len(call.meta))]


def _while(graph: GraphConverter, call: TorchNode, condition: Any, body: Any, carried: Any, others: Any = ()) -> list[Expr]:
    """The states after the rounds of a body, as long as the condition of the states holds."""
    given = graph.resolved(list(others))

    def computed(at: Node, part: Any, states: Sequence[Expr]) -> list[Expr]:
        return graph.within(at.scope).results(_graph(part), [*states, *given], call)

    def one_round(inner: Node, index: Expr, more: Expr, states: Sequence[Expr]) -> Round:
        found = computed(inner, body, states)
        return Round(computed(inner, condition, found)[0], found)

    first = [graph.as_expr(v) for v in graph.resolved(list(carried))]
    return loop(call, None, computed(call, condition, first)[0], first, one_round)[0]


def _scan(graph: GraphConverter, call: TorchNode, body: Any, initial: Any, sources: Any, others: Any = ()) -> list[Expr]:
    """The last states, and the results of all rounds, one for each row of the sources, along a new first axis."""
    given, states = graph.resolved(list(others)), [graph.as_expr(v) for v in graph.resolved(list(initial))]
    rows = [graph.as_expr(v) for v in graph.resolved(list(sources))]
    if not rows:
        raise call.error("it has no source of rows")
    count = call.extent(rows[0], 0)
    rounds = count if isinstance(count, Expr) else constant(np.array(count, np.int64))

    def one_round(inner: Node, index: Expr, more: Expr, values: Sequence[Expr]) -> Round:
        here = [inner.bind(relay.take(source, index, axis=0)) for source in rows]
        found = graph.within(inner.scope).results(_graph(body), [*values, *here, *given], call)
        return Round(None, found[: len(states)], found[len(states) :])

    last, stacked = loop(call, rounds, None, states, one_round)
    return [*last, *stacked]


def _map(graph: GraphConverter, call: TorchNode, body: Any, sources: Any, others: Any = ()) -> list[Expr]:
    """The results of a body for each row of the sources, along a new first axis."""
    return _scan(graph, call, body, [], sources, others)


def _graph(attribute: Any) -> Any:
    """The graph of a subgraph, which a node reads."""
    return getattr(attribute.graph.owning_module, attribute.target).graph
