"""Matrix products, determinants and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..loops import Round, loop
from ..node import Node
from ..operator_table import onnx_operator
from .elementwise import number
from .vectors import extent, numbers, sizes_or_expr
from .windows import padded_for_windows, window_attributes


@onnx_operator("MatMul", since=1)
def matmul(node: Node, a: Expr, b: Expr) -> Expr:
    return matrix_product(node, a, b)


def matrix_product(node: Node, a: Expr, b: Expr, out_dtype: str = "") -> Expr:
    """The product as of numpy's matmul: batches broadcast, a vector is a row on the left and a column on the right."""
    rank_a, rank_b = node.rank(a), node.rank(b)
    if rank_b == 1:
        product = matrix_product(node, a, relay.expand_dims(b, 1), out_dtype)
        return relay.squeeze(product, [max(rank_a, 1) - 1])
    if rank_a == 1:
        product = matrix_product(node, relay.expand_dims(a, 0), b, out_dtype)
        return relay.squeeze(product, [rank_b - 2])
    if rank_b == 2:
        return relay.nn.matmul(a, b, out_dtype=out_dtype)
    if rank_a == rank_b == 3:
        return relay.nn.batch_matmul(a, b, out_dtype=out_dtype, transpose_b=False)
    merged = of_merged_batches(node, a, b, lambda x, y: matrix_product(node, x, y, out_dtype))
    return _product_of_batches(node, a, b, out_dtype) if merged is None else merged


def of_merged_batches(node: Node, a: Expr, b: Expr, product: Callable[[Expr, Expr], Expr]) -> Expr | None:
    """The product of tensors whose equal batches have two axes, by that of tensors with one; None for other tensors."""
    if node.rank(a) != 4 or node.rank(b) != 4 or not (split := _split_of_equal_batches(node, a, b)):
        return None
    merged = [node.bind(relay.reshape(x, [-3, -2])) for x in (a, b)]
    return relay.reshape(product(*merged), [-4, *split, -2])


def _split_of_equal_batches(node: Node, a: Expr, b: Expr) -> tuple[int, int] | None:
    """The values after -4 that split the merged batch again; None if the batches may differ, or no size is known."""
    batches = [node.shape(x)[:2] for x in (a, b)]
    first, second = (node.size(a, axis) for axis in (0, 1))
    if batches[0] != batches[1] or not (first or second):
        return None
    return (-1, second) if second else (first or 0, -1)


def _product_of_batches(node: Node, a: Expr, b: Expr, out_dtype: str) -> Expr:
    """The product of tensors whose batches have several axes: broadcast, then taken as one axis."""
    shape_a, shape_b = (relay.shape_of(x, dtype="int64") for x in (a, b))
    batch_a, batch_b = (_begin(node, s, node.rank(x) - 2) for s, x in ((shape_a, a), (shape_b, b)))
    batch = _broadcast(batch_a, node.rank(a) - 2, batch_b, node.rank(b) - 2)
    flat = []
    for x, shape in ((a, shape_a), (b, shape_b)):
        rank = node.rank(x)
        matrix = relay.strided_slice(shape, [rank - 2], [rank])
        whole = node.bind(relay.concatenate([batch, matrix], 0))
        x = relay.broadcast_to(x, sizes_or_expr(node, whole))
        one = node.bind(relay.concatenate([relay.reshape(relay.prod(batch), [1]), matrix], 0))
        flat.append(relay.reshape(x, sizes_or_expr(node, one), allowzero=True))
    product = relay.nn.batch_matmul(*flat, out_dtype=out_dtype, transpose_b=False)
    rows = relay.strided_slice(shape_a, [node.rank(a) - 2], [node.rank(a) - 1])
    columns = relay.strided_slice(shape_b, [node.rank(b) - 1], [node.rank(b)])
    result = node.bind(relay.concatenate([batch, rows, columns], 0))
    return relay.reshape(product, sizes_or_expr(node, result), allowzero=True)


def _begin(node: Node, shape: Expr, count: int) -> Expr:
    return relay.strided_slice(shape, [0], [count])


def _broadcast(a: Expr, count_a: int, b: Expr, count_b: int) -> Expr:
    """The shape to which two shapes broadcast; those that do not fit are found where it is used."""
    most = max(count_a, count_b)
    a = relay.concatenate([numbers([1] * (most - count_a)), a], 0) if count_a < most else a
    b = relay.concatenate([numbers([1] * (most - count_b)), b], 0) if count_b < most else b
    return relay.where(relay.equal(a, numbers([1] * most)), b, a)


@onnx_operator("Gemm", since=6)
def gemm(node: Node, a: Expr, b: Expr, c: Expr | None) -> Expr:
    product = relay.nn.matmul(a, b, transpose_a=bool(node.attr("transA", 0)), transpose_b=bool(node.attr("transB", 0)))
    alpha, beta, dtype = node.attr("alpha", 1.0), node.attr("beta", 1.0), node.dtype(a)
    product = product if alpha == 1.0 else relay.multiply(product, number(alpha, dtype))
    return with_term(node, product, c, beta)


def with_term(node: Node, product: Expr, term: Expr | None, factor: float) -> Expr:
    """The product plus ``factor`` times the term, which a factor of 0 does not read."""
    if term is None or factor == 0.0:
        return product
    return relay.add(product, term if factor == 1.0 else relay.multiply(term, number(factor, node.dtype(product))))


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


_CONV = {1: "conv1d", 2: "conv2d", 3: "conv3d"}


@onnx_operator("Conv", since=1)
def conv(node: Node, x: Expr, weight: Expr, bias: Expr | None) -> Expr:
    result = convolved(node, x, weight)
    return result if bias is None else relay.nn.bias_add(result, bias, axis=1)


def convolved(node: Node, x: Expr, weight: Expr) -> Expr:
    """The convolution with the attributes of ``Conv``.  Raises ModelError."""
    spatial = node.rank(x) - 2
    if spatial not in _CONV:
        raise node.error(f"convolutions have 1 to {len(_CONV)} spatial axes, not {spatial}")
    window = window_attributes(node, x, weight)
    x, padding = padded_for_windows(node, x, window, 0)
    function: Any = getattr(relay.nn, _CONV[spatial])
    result: Expr = function(
        x, weight, strides=window.strides, padding=padding, dilation=window.dilations, groups=node.attr("group", 1)
    )
    return result


@onnx_operator("Einsum", since=12)
def einsum(node: Node, *tensors: Expr) -> Expr:
    return relay.einsum(list(tensors), node.required("equation"))
