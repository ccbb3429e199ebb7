"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .elementwise import number

Reduce = Callable[[Node, Expr, list[int], bool], Expr]


def _sum(node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
    return relay.sum(x, axis=axes, keepdims=keepdims)


def _prod(node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
    return relay.prod(x, axis=axes, keepdims=keepdims)


def _mean(node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
    return relay.mean(x, axis=axes, keepdims=keepdims)


def _sum_of_squares(node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
    return relay.sum(relay.multiply(x, x), axis=axes, keepdims=keepdims)


def _l1(node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
    return relay.sum(relay.abs(x), axis=axes, keepdims=keepdims)


def _l2(node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
    return relay.sqrt(_sum_of_squares(node, x, axes, keepdims))


def _log_sum(node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
    return relay.log(relay.sum(x, axis=axes, keepdims=keepdims))


def _log_sum_exp(node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
    return relay.logsumexp(x, axis=axes, keepdims=keepdims)


def _extreme(name: str) -> Reduce:
    """The largest or the smallest element; of no elements, the smallest or the largest number."""

    def reduce(node: Node, x: Expr, axes: list[int], keepdims: bool) -> Expr:
        if node.dtype(x) == "bool":
            function: Any = relay.any if name == "max" else relay.all
            return function(x, axis=axes, keepdims=keepdims)
        return getattr(relay, name)(x, axis=axes, keepdims=keepdims)

    return reduce


#: The reductions, and the version from which axes are an input.
_REDUCTIONS: dict[str, tuple[Reduce, int]] = {
    "ReduceSum": (_sum, 13), "ReduceProd": (_prod, 18), "ReduceMean": (_mean, 18), "ReduceMax": (_extreme("max"), 18),
    "ReduceMin": (_extreme("min"), 18), "ReduceSumSquare": (_sum_of_squares, 18), "ReduceL1": (_l1, 18), "ReduceL2": (_l2, 18),
    "ReduceLogSum": (_log_sum, 18), "ReduceLogSumExp": (_log_sum_exp, 18),
}  # fmt: skip


def _by_attribute(reduce: Reduce) -> Callable[[Node, Expr], Expr]:
    def convert(node: Node, x: Expr) -> Expr:
        rank = node.rank(x)
        return _reduced(node, x, node.axes(node.attr("axes") or range(rank), rank), reduce)

    return convert


def _by_input(reduce: Reduce) -> Callable[[Node, Expr, Expr | None], Expr]:
    def convert(node: Node, x: Expr, axes: Expr | None) -> Expr:
        rank = node.rank(x)
        given = [] if axes is None or node.sizes(axes) == (0,) else [int(a) for a in node.known(axes, "axes").reshape(-1)]
        if not given and node.attr("noop_with_empty_axes", 0):
            return _reduced(node, x, [], reduce)
        return _reduced(node, x, node.axes(given or range(rank), rank), reduce)

    return convert


def _reduced(node: Node, x: Expr, axes: list[int], reduce: Reduce) -> Expr:
    if axes:
        return reduce(node, x, axes, bool(node.attr("keepdims", 1)))
    # each element by itself
    return relay.squeeze(reduce(node, relay.expand_dims(x, 0), [0], True), [0])


for _name, (_reduce, _since) in _REDUCTIONS.items():
    onnx_operator(_name, since=1)(_by_attribute(_reduce))
    onnx_operator(_name, since=_since)(_by_input(_reduce))


def _position(name: str) -> Callable[[Node, Expr], Expr]:
    def convert(node: Node, x: Expr) -> Expr:
        axis, keepdims = node.axis(node.attr("axis", 0), node.rank(x)), bool(node.attr("keepdims", 1))
        last = bool(node.attr("select_last_index", 0))
        found = getattr(relay, name)(x, axis=axis, keepdims=keepdims, select_last_index=last)
        return relay.cast(found, "int64")

    return convert


onnx_operator("ArgMax", since=1)(_position("argmax"))
onnx_operator("ArgMin", since=1)(_position("argmin"))


# ---- softmax -----------------------------------------------------------------------------------------------------------


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
