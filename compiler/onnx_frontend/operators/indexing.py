"""Operators that select and write elements by index."""

from __future__ import annotations

import numpy as np

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator


def from_the_front(node: Node, indices: Expr, x: Expr, axis: int) -> Expr:
    """Indices of an axis, negative ones counted from the end."""
    known = node.constant(indices)
    if known is not None and (known >= 0).all():
        return indices
    total = node.size(x, axis)
    if known is not None and total is not None:
        return const(np.where(known < 0, known + total, known).astype(known.dtype))
    size = relay.take(relay.shape_of(x, dtype="int64"), const(axis, "int64"), axis=0)
    size = size if node.dtype(indices) == "int64" else relay.cast(size, node.dtype(indices))
    zero = const(0, node.dtype(indices))
    return relay.where(relay.less(indices, zero), relay.add(indices, size), indices)


@onnx_operator("Gather", since=1)
def gather(node: Node, x: Expr, indices: Expr) -> Expr:
    """An index out of range is an error."""
    axis = node.axis(node.attr("axis", 0), node.rank(x))
    return relay.take(x, from_the_front(node, indices, x, axis), axis=axis, mode="fast")


@onnx_operator("GatherElements", since=11)
def gather_elements(node: Node, x: Expr, indices: Expr) -> Expr:
    axis = node.axis(node.attr("axis", 0), node.rank(x))
    return relay.gather(x, axis, from_the_front(node, indices, x, axis))
