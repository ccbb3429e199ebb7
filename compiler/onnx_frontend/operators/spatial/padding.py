"""Padding: elements added around a tensor, or removed."""

from __future__ import annotations

import numpy as np

from .....shape_funcs.symbolic.int_operations import INT64_MAX
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..vectors import as_int64, numbers


@onnx_operator("Pad", since=2)
def pad_by_attributes(node: Node, x: Expr) -> Expr:
    value = const(np.array(node.attr("value", 0.0)), node.dtype(x))
    return _padded(node, x, numbers(node.required("pads")), value, list(range(node.rank(x))))


@onnx_operator("Pad", since=11)
def pad(node: Node, x: Expr, pads: Expr, value: Expr | None, axes: Expr | None) -> Expr:
    rank, fill = node.rank(x), const(np.array(0), node.dtype(x)) if value is None else relay.reshape(value, [])
    which = node.constant(axes)
    if axes is not None and which is None:
        halves = relay.reshape(as_int64(node, pads), [2, -1])
        at = relay.broadcast_to_like(relay.expand_dims(as_int64(node, axes), 0), halves)
        pads = relay.reshape(relay.scatter_elements(const(np.zeros((2, rank), np.int64)), at, halves, 1, "update"), [-1])
    counted = list(range(rank)) if which is None else node.axes([int(a) for a in which.reshape(-1)], rank)
    return _padded(node, x, pads, fill, counted)


def _padded(node: Node, x: Expr, pads: Expr, value: Expr, axes: list[int]) -> Expr:
    """The data with elements added, or, for negative numbers of elements, without them: elements are removed first.

    An axis whose pads remove more elements than it has loses the rest from those that are added.
    """
    rank, mode = node.rank(x), node.attr("mode", "constant")
    if not rank:
        return x
    known = node.constant(pads)
    if known is None:
        pairs = relay.transpose(relay.reshape(as_int64(node, pads), [2, len(axes)]), [1, 0])
        whole = relay.concatenate([pairs, const(np.zeros((1, 2), np.int64))], 0)
        width = relay.take(whole, numbers([axes.index(a) if a in axes else len(axes) for a in range(rank)]), axis=0)
        return _padded_at_run_time(node, x, node.bind(width), value, mode)
    if known.size != 2 * len(axes):
        raise node.error(f"pads has {known.size} numbers; {2 * len(axes)} are wanted for {len(axes)} axes")
    given = dict(zip(axes, known.reshape(2, -1).T.tolist(), strict=True))
    pairs_known = [tuple(given.get(a, (0, 0))) for a in range(rank)]
    if any(max(pair) > 0 > min(pair) for pair in pairs_known):
        return _cropped_and_padded(node, x, const(np.array(pairs_known, np.int64)), value, mode)
    for axis, ((before, after), size) in enumerate(zip(pairs_known, node.sizes(x), strict=True)):
        if size is not None and size + before + after < 0:
            raise node.error(f"pads removes {-before - after} elements from axis {axis}, which has {size}")
    if any(n < 0 for pair in pairs_known for n in pair):
        begin, end = [max(-b, 0) for b, _ in pairs_known], [-max(-e, 0) or INT64_MAX for _, e in pairs_known]
        x = relay.strided_slice(x, begin, end, [1] * rank)
        pairs_known = [(max(b, 0), max(e, 0)) for b, e in pairs_known]
    if not any(n for pair in pairs_known for n in pair):
        return x
    if mode == "wrap":
        return _wrapped(node, x, [tuple(const(n, "int64") for n in pair) for pair in pairs_known])
    return relay.nn.pad(x, pairs_known, value, mode)


def _padded_at_run_time(node: Node, x: Expr, width: Expr, value: Expr, mode: str) -> Expr:
    """The data padded by a matrix of numbers; only negative numbers cost a copy of the elements that are left."""
    x, zero = node.bind(x), const(0, "int64")
    return node.choose(
        relay.less(relay.min(width), zero),
        lambda inner: _cropped_and_padded(inner, x, width, value, mode),
        lambda inner: _added(inner, x, width, value, mode),
    )


def _cropped_and_padded(node: Node, x: Expr, width: Expr, value: Expr, mode: str) -> Expr:
    """The data without the elements that negative numbers remove, then with those that positive numbers add."""
    rank, zero = node.rank(x), const(0, "int64")
    size = relay.shape_of(x, dtype="int64")
    removed = [node.bind(_column(relay.maximum(relay.negative(width), zero), side)) for side in (0, 1)]
    before, after = (_column(relay.maximum(width, zero), side) for side in (0, 1))
    end = relay.subtract(size, removed[1])
    missing = node.bind(relay.minimum(relay.subtract(end, removed[0]), zero))
    left = relay.dyn.strided_slice(x, relay.minimum(removed[0], size), relay.maximum(end, zero), numbers([1] * rank))
    # what is removed from no element is removed from the end, then from the begin
    rest = node.bind(relay.add(after, missing))
    pair = [relay.add(before, relay.minimum(rest, zero)), relay.maximum(rest, zero)]
    return _added(node, node.bind(left), node.bind(relay.stack(pair, 1)), value, mode)


def _added(node: Node, x: Expr, width: Expr, value: Expr, mode: str) -> Expr:
    """The data with elements added; a negative number is an error of the run."""
    if mode != "wrap":
        return relay.dyn.nn.pad(x, width, value, mode)
    return _wrapped(node, x, [tuple(_element(width, a, k) for k in (0, 1)) for a in range(node.rank(x))])


def _column(pairs: Expr, side: int) -> Expr:
    return relay.take(pairs, const(side, "int64"), axis=1)


def _element(pairs: Expr, axis: int, side: int) -> Expr:
    return relay.take(relay.take(pairs, const(axis, "int64"), axis=0), const(side, "int64"), axis=0)


def _wrapped(node: Node, x: Expr, pairs: list[tuple[Expr, ...]]) -> Expr:
    """The data repeated periodically along each axis."""
    for axis, (before, after) in enumerate(pairs):
        if not all(n is not None and not n.any() for n in map(node.constant, (before, after))):
            total = relay.take(relay.shape_of(x, dtype="int64"), const(axis, "int64"), axis=0)
            begin, end = relay.negative(before), relay.add(total, after)
            x = relay.take(x, relay.arange(begin, end, const(1, "int64"), dtype="int64"), axis=axis, mode="wrap")
    return x
