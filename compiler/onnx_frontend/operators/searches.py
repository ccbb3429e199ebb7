"""Searches: the largest elements, distinct elements, boxes that overlap no better one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..loops import Round, loop
from ..node import Node
from ..operator_table import onnx_operator
from .elementwise import number
from .vectors import as_int64, extent, numbers, sizes_or_expr


@onnx_operator("TopK", since=1)
def top_k_by_attribute(node: Node, x: Expr) -> list[Expr]:
    return _largest(node, x, node.required("k"))


@onnx_operator("TopK", since=10)
def top_k(node: Node, x: Expr, k: Expr) -> list[Expr]:
    known = node.constant(k)
    return _largest(node, x, relay.reshape(as_int64(node, k), []) if known is None else int(known.reshape(-1)[0]))


def _largest(node: Node, x: Expr, k: Expr | int) -> list[Expr]:
    axis, smallest = node.axis(node.attr("axis", -1), node.rank(x)), not node.attr("largest", 1)
    found = relay.topk(x, k, axis, "both", smallest, "int64")
    if isinstance(k, int) and k > 0:
        return [found[0], found[1]]
    # the operator takes 0 for all elements
    rank, count = node.rank(x), as_int64(node, k) if isinstance(k, Expr) else const(k, "int64")
    sides = [numbers([INT64_MAX] * n) for n in (axis, rank - 1 - axis)]
    end = relay.concatenate([sides[0], relay.reshape(count, [1]), sides[1]], 0)
    return [relay.dyn.strided_slice(found[i], numbers([0] * rank), end, numbers([1] * rank)) for i in (0, 1)]


@onnx_operator("Unique", since=11)
def unique(node: Node, x: Expr) -> list[Expr]:
    """The number of distinct elements is known at run time."""
    is_sorted = bool(node.attr("sorted", 1))
    if not node.has("axis"):
        values, first, inverse, counts = _distinct(relay.reshape(x, [-1]), is_sorted)
        return [values, first, inverse, counts]
    axis = node.axis(node.attr("axis"), node.rank(x))
    _, first, inverse, counts = _distinct(_slice_numbers(node, x, axis), is_sorted)
    return [relay.take(x, first, axis=axis, mode="fast"), first, inverse, counts]


def _distinct(vector: Expr, is_sorted: bool) -> tuple[Expr, Expr, Expr, Expr]:
    """The distinct elements, the index of each first occurrence, the number of each element's value, and the counts."""
    found = relay.unique(vector, is_sorted, True)
    first, inverse, counts = (relay.cast(found[k], "int64") for k in (1, 2, 4))
    return found[0], first, inverse, counts


def _slice_numbers(node: Node, x: Expr, axis: int) -> Expr:
    """A number for each slice along an axis: equal for equal slices, and in their lexicographic order.

    The elements are numbered in their order; then the numbers of neighbouring columns are combined, until one column is left.
    """
    rank, one = node.rank(x), const(1, "int64")
    rest = [a for a in range(rank) if a != axis]
    moved, known = relay.transpose(x, [axis, *rest]), [node.size(x, a) for a in rest]
    if known and all(known):
        rows = node.bind(relay.reshape(moved, [-1, math.prod(n for n in known if n)]))
    else:
        sizes = relay.take(relay.shape_of(x, dtype="int64"), numbers(rest), axis=0)
        shape = node.bind(relay.stack([extent(x, axis), relay.prod(sizes)], 0))
        rows = node.bind(relay.reshape(moved, sizes_or_expr(node, shape), allowzero=True))
    codes = node.bind(_numbered(node, rows))
    columns = node.size(rows, 1)
    if columns is not None:
        while columns > 1:
            codes, columns = node.bind(_paired(node, codes)), -(-columns // 2)
    else:

        def body(inner: Node, number: Expr, more: Expr, states: Sequence[Expr]) -> Round:
            paired = inner.bind(_paired(inner, states[0]))
            return Round(relay.less(one, extent(paired, 1)), [paired])

        codes = loop(node, None, relay.less(one, extent(codes, 1)), [codes], body)[0][0]
    # slices without elements have no column, and are equal
    return relay.sum(codes, axis=[1])


def _paired(node: Node, codes: Expr) -> Expr:
    """Half as many columns: a number for each pair of neighbours, the last column beside zeros if it has no neighbour."""
    wide = node.bind(relay.nn.pad(codes, [(0, 0), (0, 1)], const(0, "int64")))
    left = relay.strided_slice(codes, [0], [INT64_MAX], [2], [1])
    right = relay.strided_slice(wide, [1], [INT64_MAX], [2], [1])
    total = relay.prod(relay.shape_of(wide, dtype="int64"))
    return _numbered(node, node.bind(relay.add(relay.multiply(left, total), right)))


def _numbered(node: Node, rows: Expr) -> Expr:
    """The number of each element's value among all values, in their order."""
    return relay.reshape_like(_distinct(relay.reshape(rows, [-1]), True)[2], rows)


@onnx_operator("NonMaxSuppression", since=10)
def non_max_suppression(
    node: Node, boxes: Expr, scores: Expr, most: Expr | None, overlap: Expr | None, threshold: Expr | None
) -> Expr:
    """The number of boxes is known at run time."""
    if node.attr("center_point_box", 0):
        x, y, width, height = (relay.strided_slice(boxes, [k], [k + 1], [1], [2]) for k in range(4))
        half = number(0.5, node.dtype(boxes))
        across, down = relay.multiply(half, width), relay.multiply(half, height)
        corners = [relay.subtract(y, down), relay.subtract(x, across), relay.add(y, down), relay.add(x, across)]
        boxes = relay.concatenate(corners, 2)
    count = const(0, "int64") if most is None else relay.maximum(relay.reshape(most, []), const(0, "int64"))
    limit = const(0.0, "float32") if overlap is None else relay.reshape(overlap, [])
    least = const(-3.4e38, "float32") if threshold is None else relay.reshape(threshold, [])
    return relay.vision.all_class_non_max_suppression(boxes, scores, count, limit, least)[0]
