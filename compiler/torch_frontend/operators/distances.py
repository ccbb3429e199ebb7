"""Distances of rows."""

from __future__ import annotations

from typing import Any

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..operator_table import aten
from ..torch_node import TorchNode


@aten("_cdist_forward")
def distances_of_two(node: TorchNode, a: Expr, b: Expr, order: float, compute_mode: int | None) -> Any:
    """The distance of each row of ``a`` to each row of ``b``."""
    apart = relay.abs(relay.subtract(relay.expand_dims(a, node.rank(a) - 1), relay.expand_dims(b, node.rank(b) - 2)))
    return _norm(node, node.bind(apart), order)


@aten("_pdist_forward")
def distances_of_pairs(node: TorchNode, x: Expr, order: float) -> Any:
    """The distances of all pairs of rows, those of the first row first."""
    zero, one, count = const(0, "int64"), const(1, "int64"), node.extent(x, 0)
    at = relay.arange(zero, count if isinstance(count, Expr) else const(count, "int64"), one, dtype="int64")
    pairs = node.bind(relay.argwhere(relay.less(relay.expand_dims(at, 1), relay.expand_dims(at, 0))))
    rows = [relay.take(x, relay.take(pairs, const(k, "int64"), axis=1), axis=0, mode="fast") for k in (0, 1)]
    return _norm(node, node.bind(relay.abs(relay.subtract(*rows))), order)


def _norm(node: TorchNode, x: Expr, order: float) -> Any:
    """The norm of the last axis of elements that are not negative."""
    axis, dtype = node.rank(x) - 1, node.dtype(x)
    if order == 0:
        return relay.sum(node.cast(node.bind(relay.not_equal(x, const(0, dtype))), dtype), axis=[axis])
    if order == 1:
        return relay.sum(x, axis=[axis])
    if order == 2:
        return relay.sqrt(relay.sum(relay.multiply(x, x), axis=[axis]))
    if order == float("inf"):
        return relay.max(x, axis=[axis]) if node.sizes(x)[axis] != 0 else relay.sum(x, axis=[axis])
    return relay.power(relay.sum(relay.power(x, const(order, dtype)), axis=[axis]), const(1 / order, dtype))
