"""Forks: an `If` whose branches have results of different ranks, which no single type describes.

The rest of the graph is converted once for each branch, where the rank is then known.  An exporter writes such an `If` for a
`squeeze` of an axis of unknown size, and the rest of the model fits one of the branches only: then the condition is checked at
run time.  If the rest fits both, their results are joined at the end of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ....vm.diagnostics.source import ModelError, Span
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr, Tuple, TupleGetItem
from ..model import NodeDef
from ..node import BranchTypes, Node
from ..run_time_checks import check_lengths, literal
from ..scope import Scope, constant
from ..value_types import spread_ranks

#: The most forks on one path through a graph: each may double the number of nodes.
MAX_FORKS = 5


class Graph(Protocol):
    """The conversion of a graph.  ``values``, ``ranks``: values and declared ranks by name; ``forks``: the forks around."""

    scope: Scope
    values: dict[str, Expr]
    ranks: dict[str, int]
    forks: int

    def value(self, name: str, span: Span | None) -> Expr:
        """The value of a name."""
        ...

    def path(self, scope: Scope) -> Graph:
        """The conversion with the values of now into another scope."""
        ...

    def convert_nodes(self, nodes: Sequence[NodeDef], outputs: Sequence[str]) -> list[Expr]:
        """The values of these names after these nodes."""
        ...


def forked(graph: Graph, nodes: Sequence[NodeDef], outputs: Sequence[str], error: BranchTypes) -> list[Expr]:
    """The values of these names after ``nodes``, of which the first is the `If` that cannot be typed.

    Raises ``error`` if the rest of the graph fits no branch, or after too many forks.
    """
    if graph.forks == MAX_FORKS:
        raise error
    name = nodes[0].proto.input[0]
    condition = graph.value(name, nodes[0].span)
    made: dict[bool, tuple[Scope, list[Expr]]] = {}
    refusals: list[ModelError] = []
    for taken in (True, False):
        path = graph.path(Scope(graph.scope.values))
        path.values[name] = constant(np.full([1] * len(error.node.shape(condition)), taken))
        spread_ranks([n.proto for n in nodes], path.ranks, {name: taken})
        try:
            made[taken] = path.scope, path.convert_nodes(nodes, outputs)
        except ModelError as refused:
            refusals.append(refused)
    if not made:
        raise error
    if len(made) == 2:
        return _joined(error.node, condition, made[True], made[False])
    ((taken, (scope, results)),) = made.items()
    _check(error.node, condition, taken, refusals[0])
    graph.scope.take_over(scope)
    return results


def _joined(node: Node, condition: Expr, then: tuple[Scope, list[Expr]], other: tuple[Scope, list[Expr]]) -> list[Expr]:
    """The results of both paths, of which one runs.  Raises ModelError for results without a common type."""
    count = len(then[1])
    chains = [scope.chain(scope.bind(_one(values), node.span)) for scope, values in (then, other)]
    chosen = node.bind(node.conditional(relay.reshape(condition, []), *chains))
    return [chosen] if count == 1 else [node.bind(TupleGetItem(chosen, k)) for k in range(count)]


def _one(values: list[Expr]) -> Expr:
    return values[0] if len(values) == 1 else Tuple(tuple(values))


def _check(node: Node, condition: Expr, taken: bool, refused: ModelError) -> None:
    """Check at run time that the condition chooses the branch that the rest of the graph fits."""
    marks = node.bind(relay.full(const(True), shape=relay.cast(relay.reshape(condition, [1]), "int64")))
    wanted = constant(np.ones(int(taken), bool))
    found = "the condition is {} at these sizes, but the rest of the model fits {} only (1: then_branch)"
    check_lengths(node, marks, wanted, f"{found}: {literal(refused.diagnostics[0].message)}")
