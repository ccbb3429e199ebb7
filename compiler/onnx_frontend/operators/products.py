"""Matrix products and convolutions."""

from __future__ import annotations

from typing import Any

from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .elementwise import number
from .vectors import numbers, sizes_or_expr
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
    return _product_of_batches(node, a, b, out_dtype)


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
    if c is None:
        return product
    return relay.add(product, c if beta == 1.0 else relay.multiply(c, number(beta, dtype)))


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
    window = window_attributes(node, x, list(node.sizes(weight)[2:]))
    x, padding = padded_for_windows(node, x, window, 0)
    function: Any = getattr(relay.nn, _CONV[spatial])
    result: Expr = function(
        x, weight, strides=window.strides, padding=padding, dilation=window.dilations, groups=node.attr("group", 1)
    )
    return result


@onnx_operator("Einsum", since=12)
def einsum(node: Node, *tensors: Expr) -> Expr:
    return relay.einsum(list(tensors), node.required("equation"))
