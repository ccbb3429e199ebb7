"""Determinants, by elimination with the largest pivot."""

from __future__ import annotations

from collections.abc import Sequence

from ....shape_funcs.symbolic.program import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..loops import Round, loop
from ..node import Node
from ..operator_table import onnx_operator
from .elementwise import number
from .vectors import extent


@onnx_operator("Det", since=11)
def determinant(node: Node, x: Expr) -> Expr:
    """One step for each row: unrolled if their number is known at import, else a loop."""
    rank, dtype = node.rank(x), node.dtype(x)
    known = [n for n in node.sizes(x)[-2:] if n is not None]
    shape = relay.shape_of(x, dtype="int64")
    rows = node.bind(
        relay.reshape(x, relay.concatenate([_product_of_batch(shape, rank), _last_two(shape, rank)], 0), allowzero=True)
    )
    result = node.bind(relay.add(relay.sum(relay.zeros_like(rows), axis=[1, 2]), number(1, dtype)))
    if known:
        rows = node.bind(relay.reshape(rows, [-1, known[0], known[0]])) if known[0] else rows
        for _ in range(known[0]):
            rows, result = eliminated(node, rows, result)
    else:

        def body(inner: Node, number: Expr, more: Expr, states: Sequence[Expr]) -> Round:
            return Round(None, eliminated(inner, *states))

        result = loop(node, extent(rows, 1), None, [rows, result], body)[0][1]
    batch = relay.strided_slice(shape, [0], [rank - 2])
    return relay.reshape(result, batch, allowzero=True) if rank > 2 else relay.reshape(result, [])


def _product_of_batch(shape: Expr, rank: int) -> Expr:
    batch = relay.strided_slice(shape, [0], [rank - 2])
    return relay.prod(batch, axis=0, keepdims=True) if rank > 2 else const([1], "int64")


def _last_two(shape: Expr, rank: int) -> Expr:
    return relay.strided_slice(shape, [rank - 2], [rank])


def eliminated(node: Node, rows: Expr, result: Expr) -> tuple[Expr, Expr]:
    """The matrices without the pivot's row and the first column, and the results times the pivots, signed."""
    dtype, zero = node.dtype(rows), const(0, "int64")
    column = relay.squeeze(relay.strided_slice(rows, [0], [1], [1], [2]), [2])
    best = relay.cast(relay.argmax(relay.abs(column), axis=1, keepdims=True), "int64")
    index = relay.expand_dims(relay.arange(zero, extent(rows, 1), const(1, "int64"), dtype="int64"), 0)
    # the first row and the pivot's are exchanged
    order = relay.where(relay.equal(index, best), zero, index)
    order = relay.where(relay.equal(index, zero), best, order)
    rows = node.bind(relay.take(rows, order, axis=1, batch_dims=1))
    pivot = relay.squeeze(relay.strided_slice(rows, [0, 0], [1, 1], [1, 1], [1, 2]), [1, 2])
    sign = relay.where(relay.equal(relay.squeeze(best, [1]), zero), number(1, dtype), number(-1, dtype))
    result = node.bind(relay.multiply(result, relay.multiply(sign, pivot)))
    divisor = relay.where(relay.equal(pivot, number(0, dtype)), number(1, dtype), pivot)
    first = relay.strided_slice(rows, [0, 1], [1, INT64_MAX], [1, 1], [1, 2])
    below = relay.strided_slice(rows, [1, 0], [INT64_MAX, 1], [1, 1], [1, 2])
    factor = relay.divide(below, relay.reshape(divisor, [-1, 1, 1]))
    rest = relay.strided_slice(rows, [1, 1], [INT64_MAX, INT64_MAX], [1, 1], [1, 2])
    return node.bind(relay.subtract(rest, relay.multiply(factor, first))), result
