"""Grids of positions under affine maps: the positions that GridSample takes."""

from __future__ import annotations

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..elementwise import number
from ..vectors import as_int64, measured


@onnx_operator("AffineGrid", since=20)
def affine_grid(node: Node, theta: Expr, size: Expr) -> Expr:
    """Over two or three spatial axes, with sizes known at import or at run time; an axis of one element is at 0."""
    size, count = measured(node, size, "the size", node.declared_rank)
    spatial = count - 2
    if spatial not in (2, 3):
        raise node.error(f"a grid has 2 or 3 spatial axes, not {spatial}")
    dtype, sizes = node.dtype(theta), node.bind(as_int64(node, size))
    counts = [node.bind(relay.take(sizes, const(2 + k, "int64"), axis=0)) for k in range(spatial)]
    lines = [_positions(node, n, dtype) for n in counts]
    rows = []
    for row in range(spatial):
        total = _entry(theta, row, spatial, spatial)
        for k, line in enumerate(lines):  # the maps have the factor of the last axis first
            place = relay.reshape(line, [1] * (1 + k) + [-1] + [1] * (spatial - 1 - k))
            total = relay.add(total, relay.multiply(_entry(theta, row, spatial - 1 - k, spatial), place))
        rows.append(total)
    return relay.stack(rows, axis=spatial + 1)


def _entry(theta: Expr, row: int, column: int, spatial: int) -> Expr:
    """One entry of each map, ``[maps, 1, ...]``."""
    entry = relay.take(relay.take(theta, const(row, "int64"), axis=1), const(column, "int64"), axis=1)
    return relay.reshape(entry, [-1] + [1] * spatial)


def _positions(node: Node, count: Expr, dtype: str) -> Expr:
    """The positions of the elements of an axis between -1 and 1."""
    index = relay.cast(relay.arange(const(0, "int64"), count, const(1, "int64"), dtype="int64"), "float64")
    total, one, two = relay.cast(count, "float64"), number(1, "float64"), number(2, "float64")
    if node.attr("align_corners", 0):  # the first element is at -1, the last at 1
        last = relay.subtract(total, one)
        place = relay.divide(relay.subtract(relay.multiply(two, index), last), relay.maximum(last, one))
    else:  # the outer edges of the elements are at -1 and 1
        place = relay.divide(relay.subtract(relay.add(relay.multiply(two, index), one), total), total)
    return node.bind(relay.cast(place, dtype))
