"""Softmax and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .elementwise import number


def _softmax(name: str) -> Callable[[Node, Expr], Expr]:
    def convert(node: Node, x: Expr) -> Expr:
        rank = node.rank(x)
        if not rank:
            zero = relay.subtract(x, x)
            return zero if name == "log_softmax" else relay.exp(zero)
        return getattr(relay.nn, name)(x, axis=node.axis(node.attr("axis", -1), rank))

    return convert


def _softmax_of_rows(name: str) -> Callable[[Node, Expr], Expr]:
    """Before version 13: over all axes from ``axis`` on."""

    def convert(node: Node, x: Expr) -> Expr:
        rank = node.rank(x)
        axis = node.axis(node.attr("axis", 1), rank)
        function: Any = getattr(relay.nn, name)
        if axis == rank - 1:
            return function(x, axis=axis)
        rows = relay.reshape(x, [0] * axis + [-1])
        return relay.reshape_like(function(rows, axis=axis), x)

    return convert


for _name, _relay in (("Softmax", "softmax"), ("LogSoftmax", "log_softmax")):
    onnx_operator(_name, since=1)(_softmax_of_rows(_relay))
    onnx_operator(_name, since=13)(_softmax(_relay))


@onnx_operator("Hardmax", since=13)
def hardmax(node: Node, x: Expr) -> Expr:
    axis, dtype = node.axis(node.attr("axis", -1), node.rank(x)), node.dtype(x)
    best = relay.argmax(x, axis=axis, keepdims=False)
    depth = node.size(x, axis)
    if depth is None:
        raise node.error("the size of the axis must be known at import")
    return relay.one_hot(best, number(1, dtype), number(0, dtype), depth, axis, dtype)
