"""Values counted by intervals, and products of groups of rows, each group with a matrix of its own."""

from __future__ import annotations

from typing import Any

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.products import matrix_product
from ..operator_table import aten, declare
from ..torch_node import TorchNode
from .movement import select, slice_of


@aten("histc")
def histogram(node: TorchNode, x: Expr, intervals: int, low: Any, high: Any) -> Any:
    """The last interval has its upper end, too; values outside of all are not counted."""
    dtype = node.dtype(x)
    x = node.bind(relay.reshape(x, [-1]))
    first, last = _ends(node, x, low, high)
    is_inside = node.bind(relay.logical_and(relay.greater_equal(x, first), relay.less_equal(x, last)))
    place = relay.divide(relay.multiply(relay.subtract(x, first), const(intervals, dtype)), relay.subtract(last, first))
    place = node.cast(node.bind(relay.where(is_inside, place, const(0, dtype))), "int64")
    place = node.bind(relay.minimum(place, const(intervals - 1, "int64")))
    counts = relay.zeros([intervals], dtype)
    return relay.scatter_elements(counts, place, node.cast(is_inside, dtype), 0, "add")


def _ends(node: TorchNode, x: Expr, low: Any, high: Any) -> tuple[Expr, Expr]:
    """The ends of a range; equal numbers mean the range of the values, and a value alone has a range of 2."""
    dtype = node.dtype(x)
    if low != high:
        return const(low, dtype), const(high, dtype)
    least, most = node.bind(relay.min(x)), node.bind(relay.max(x))
    more = node.bind(relay.cast(relay.equal(least, most), dtype))
    return node.bind(relay.subtract(least, more)), node.bind(relay.add(most, more))


@aten("_grouped_mm")
def grouped_product(node: TorchNode, a: Expr, b: Expr, ends: Expr | None, bias: Expr | None, dtype: Any) -> Any:
    """Groups are rows of ``a`` beside a stack ``b``, columns of ``b`` beside a stack ``a``, or parts of the summed axis."""
    if bias is not None:
        raise node.error("it adds a bias", "add it after the product")
    if ends is None:
        return node.cast(node.bind(matrix_product(node, a, b)), node.result_dtype)
    ranks = node.rank(a), node.rank(b)
    count = node.sizes(ends)[0]
    if count is None:
        raise node.error("the number of groups must be known at import")
    ends = node.cast(ends, "int64")
    bounds = [const(0, "int64"), *(node.bind(select(node, ends, 0, k)) for k in range(count))]

    def part(x: Expr, axis: int, group: int) -> Expr:
        """The group of an axis; of a stack of matrices, that of the group."""
        if node.rank(x) == 3:
            return node.bind(select(node, x, 0, group))
        return node.bind(slice_of(node, x, axis, bounds[group], bounds[group + 1], 1))

    cut, axis = int(ranks == (2, 2)), int(ranks == (3, 2))
    parts = [node.bind(matrix_product(node, part(a, cut, k), part(b, axis, k))) for k in range(count)]
    if ranks == (2, 2):
        whole = node.bind(relay.stack(parts, 0))
    else:
        whole = _filled(node, parts, axis, bounds[-1], (node.extent(a, node.rank(a) - 2), node.extent(b, node.rank(b) - 1)))
    return node.cast(whole, node.result_dtype)


def _filled(node: TorchNode, parts: list[Expr], axis: int, end: Expr, sizes: tuple[Any, Any]) -> Expr:
    """The parts side by side, and zeros after the end of the last group."""
    dtype, extent = node.dtype(parts[0]), sizes[axis]
    rest = node.bind(relay.subtract(extent if isinstance(extent, Expr) else const(extent, "int64"), end))
    shape = node.vector([rest if k == axis else size for k, size in enumerate(sizes)])
    zeros = node.bind(relay.full(const(0, dtype), shape, dtype))
    return node.bind(relay.reshape(relay.concatenate([*parts, zeros], axis), node.vector(sizes)))


@declare("grouped_mm_fallback", namespace="transformers")
def grouped_rows(node: TorchNode, x: Expr, matrices: Expr, ends: Expr) -> Any:
    return grouped_product(node, x, matrices, ends, None, None)
