"""Searches: the largest elements, distinct elements, boxes that overlap no better one."""

from __future__ import annotations

from ....shape_funcs.symbolic.program import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .elementwise import number
from .vectors import as_int64, extent, numbers


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
    rank, count = node.rank(x), extent(x, axis)
    columns = 1
    for a in range(rank):
        size = 1 if a == axis else node.size(x, a)
        if size is None:
            raise node.error("the sizes of the other axes must be known at import, for they decide the number of steps")
        columns *= size
    if not columns:  # slices without elements are equal
        return relay.full(const(0, "int64"), relay.reshape(count, [1]), "int64")
    codes = node.bind(_numbered(relay.transpose(x, [axis, *(a for a in range(rank) if a != axis)]), columns))
    while columns > 1:
        if columns % 2:
            codes, columns = node.bind(relay.nn.pad(codes, [(0, 0), (0, 1)], const(0, "int64"))), columns + 1
        pairs = relay.reshape(codes, [-1, columns // 2, 2])
        left, right = (relay.squeeze(relay.strided_slice(pairs, [k], [k + 1], [1], [2]), [2]) for k in (0, 1))
        total = relay.multiply(count, const(columns, "int64"))
        columns //= 2
        codes = node.bind(_numbered(relay.add(relay.multiply(left, total), right), columns))
    return relay.reshape(codes, [-1])


def _numbered(rows: Expr, columns: int) -> Expr:
    """The number of each element's value among all values, in their order, as rows of columns."""
    return relay.reshape(_distinct(relay.reshape(rows, [-1]), True)[2], [-1, columns])


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
