"""Softmax and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .vectors import as_int64, extent


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
        return softmax_of_rows(node, x, node.attr("axis", 1), name)

    return convert


def softmax_of_rows(node: Node, x: Expr, axis: int, name: str = "softmax") -> Expr:
    """The softmax, or by its name the logarithm, over all axes from ``axis`` on."""
    rank = node.rank(x)
    axis = node.axis(axis, rank)
    function: Any = getattr(relay.nn, name)
    if axis == rank - 1:
        return function(x, axis=axis)
    rows = relay.reshape(x, [0] * axis + [-1])
    return relay.reshape_like(function(rows, axis=axis), x)


for _name, _relay in (("Softmax", "softmax"), ("LogSoftmax", "log_softmax")):
    onnx_operator(_name, since=1)(_softmax_of_rows(_relay))
    onnx_operator(_name, since=13)(_softmax(_relay))


@onnx_operator("Hardmax", since=13)
def hardmax(node: Node, x: Expr) -> Expr:
    rank = node.rank(x)
    return _hardest(node, x, node.axis(node.attr("axis", -1), rank)) if rank else relay.ones_like(x)


def _hardest(node: Node, x: Expr, axis: int) -> Expr:
    """1 for the first of the largest elements along an axis, 0 for all others; of no elements there is no largest one."""
    if not node.size(x, axis):
        x = node.bind(x)
        return node.choose(
            relay.equal(extent(x, axis), const(0, "int64")), lambda _: x, lambda inner: _hardest_of_some(inner, x, axis)
        )
    return _hardest_of_some(node, x, axis)


def _hardest_of_some(node: Node, x: Expr, axis: int) -> Expr:
    rank, zero, one = node.rank(x), const(0, "int64"), const(1, "int64")
    index = relay.arange(zero, extent(x, axis), one, dtype="int64")
    best = relay.argmax(x, axis=axis, keepdims=True)
    place = relay.reshape(index, [-1 if a == axis else 1 for a in range(rank)])
    return relay.cast(relay.equal(as_int64(node, best), place), node.dtype(x))


@onnx_operator("Hardmax", since=1)
def hardmax_of_rows(node: Node, x: Expr) -> Expr:
    rank = node.rank(x)
    axis = node.axis(node.attr("axis", 1), rank)
    if axis == rank - 1:
        return _hardest(node, x, axis)
    rows = node.bind(relay.reshape(x, [0] * axis + [-1]))
    return relay.reshape_like(_hardest(node, rows, axis), x)
