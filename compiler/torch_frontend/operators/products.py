"""Matrix products and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.products import matrix_product
from ..operator_table import aten
from ..torch_node import TorchNode
from .arithmetic import operand


@aten("mm", "bmm", "matmul")
def matmul(node: TorchNode, a: Expr, b: Expr) -> Any:
    return matrix_product(node, a, b)


@aten("linear")
def linear(node: TorchNode, x: Expr, weight: Expr, bias: Expr | None) -> Any:
    if node.rank(weight) == 1:
        product = matrix_product(node, x, weight)
    elif node.rank(x) == 1:
        product = relay.squeeze(relay.nn.dense(relay.expand_dims(x, 0), weight), [0])
    else:
        product = relay.nn.dense(x, weight)
    return product if bias is None else relay.add(product, bias)


@aten("addmm", "baddbmm")
def addmm(node: TorchNode, term: Expr, a: Expr, b: Expr, beta: Any, alpha: Any) -> Any:
    dtype = node.result_dtype
    product = matrix_product(node, a, b)
    product = product if alpha == 1 else relay.multiply(operand(node, alpha, dtype), product)
    if beta == 0:
        return product
    return relay.add(product, term if beta == 1 else relay.multiply(operand(node, beta, dtype), term))


@aten("dot", "mv")
def dot(node: TorchNode, a: Expr, b: Expr) -> Any:
    return matrix_product(node, a, b)


@aten("einsum")
def einsum(node: TorchNode, equation: str, tensors: Sequence[Expr], path: Any) -> Any:
    return relay.einsum(list(tensors), equation.replace(" ", ""))


@aten("scaled_dot_product_attention")
def attention(
    node: TorchNode, query: Expr, key: Expr, value: Expr, mask: Expr | None, dropout: float, causal: bool, scale: Any, gqa: bool
) -> Any:
    if dropout:
        raise node.error("it drops elements; programs here are run, not trained", "export the module after .eval()")
    dtype, rank = node.dtype(query), node.rank(query)
    if gqa:
        key, value = (_repeated(node, x, query) for x in (key, value))
    axes = [*range(rank - 2), rank - 1, rank - 2]
    width = node.sizes(query)[-1]
    if scale is None:
        if width is None:
            raise node.error("the width of heads must be known at import")
        scale = 1 / math.sqrt(width)
    scores = matrix_product(node, query, node.bind(relay.transpose(key, axes)))
    scores = relay.multiply(node.bind(scores), operand(node, scale, dtype))
    least = const(-math.inf, dtype)
    if causal:
        scores = relay.where(_below(node, query, key), scores, least)
    if mask is not None:
        scores = relay.where(mask, scores, least) if node.dtype(mask) == "bool" else relay.add(scores, mask)
    weights = node.bind(relay.nn.softmax(scores, -1))
    if mask is not None:  # a query that sees no key
        weights = node.bind(relay.where(relay.isnan(weights), const(0, dtype), weights))
    return matrix_product(node, weights, value)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def attention_for_cpu(
    node: TorchNode, query: Expr, key: Expr, value: Expr, dropout: float, causal: bool, mask: Expr | None, scale: Any
) -> list[Any]:
    """The form that dynamo's graphs have on a CPU; its second result, for gradients, is not computed."""
    return [attention(node, query, key, value, mask, dropout, causal, scale, False), None]


def _repeated(node: TorchNode, x: Expr, query: Expr) -> Any:
    heads, own = node.sizes(query)[-3], node.sizes(x)[-3]
    if heads is None or own is None:
        raise node.error("the number of heads must be known at import")
    return x if heads == own else node.bind(relay.repeat(x, heads // own, axis=node.rank(x) - 3))


def _below(node: TorchNode, query: Expr, key: Expr) -> Any:
    """Whether the place of a key is not beyond that of the query."""
    at = []
    for x in (query, key):
        size = node.extent(x, node.rank(x) - 2)
        size = size if isinstance(size, Expr) else const(size, "int64")
        at.append(relay.arange(const(0, "int64"), size, const(1, "int64"), dtype="int64"))
    return relay.greater_equal(relay.expand_dims(at[0], 1), relay.expand_dims(at[1], 0))
