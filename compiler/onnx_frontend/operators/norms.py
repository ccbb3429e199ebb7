"""Normalisations."""

from __future__ import annotations

from ....ops.core.tensor_types import computed_in
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .elementwise import cast_to, number, widened


@onnx_operator("BatchNormalization", since=7)
def batch_normalization(node: Node, x: Expr, scale: Expr, bias: Expr, mean: Expr, variance: Expr) -> Expr:
    """As in inference."""
    if node.attr("training_mode", 0):
        raise node.error("it is in training mode; programs here are run, not trained")
    if not node.attr("spatial", 1):
        raise node.error("with spatial=0 it normalises each element by its own mean, which versions from 9 on do not have")
    if node.rank(x) == 1:
        row = relay.expand_dims(x, 1)
        return relay.squeeze(_batch_norm(node, row, scale, bias, mean, variance), [1])
    return _batch_norm(node, x, scale, bias, mean, variance)


@onnx_operator("BatchNormalization", since=6)
def batch_normalization_in_test(node: Node, x: Expr, scale: Expr, bias: Expr, mean: Expr, variance: Expr) -> Expr:
    if not node.attr("is_test", 0):
        raise node.error("it is in training mode; programs here are run, not trained")
    return batch_normalization(node, x, scale, bias, mean, variance)


def _batch_norm(node: Node, x: Expr, scale: Expr, bias: Expr, mean: Expr, variance: Expr) -> Expr:
    dtypes = {node.dtype(e) for e in (x, scale, bias, mean, variance)}
    if len(dtypes) > 1:
        dtype = node.dtype(x)
        scale, bias, mean, variance = (relay.cast(e, dtype) for e in (scale, bias, mean, variance))
    return relay.nn.batch_norm(x, scale, bias, mean, variance, epsilon=node.attr("epsilon", 1e-5))[0]


@onnx_operator("InstanceNormalization", since=6)
def instance_normalization(node: Node, x: Expr, scale: Expr, bias: Expr) -> Expr:
    return relay.nn.instance_norm(x, scale, bias, epsilon=node.attr("epsilon", 1e-5))


@onnx_operator("LayerNormalization", since=17)
def layer_normalization(node: Node, x: Expr, scale: Expr, bias: Expr | None) -> list[Expr]:
    """The statistics are computed in float32, or in float64 for data of float64."""
    rank = node.rank(x)
    axes = list(range(node.axis(node.attr("axis", -1), rank), rank))
    return normalised(node, x, scale, bias, axes, node.attr("epsilon", 1e-5))


def normalised(
    node: Node, x: Expr, scale: Expr, bias: Expr | None, axes: list[int], epsilon: float, *, centred: bool = True
) -> list[Expr]:
    """The data less its mean if ``centred``, divided by its standard deviation; the mean; the inverse of the deviation."""
    dtype = node.dtype(x)
    compute = computed_in(dtype)
    wide = x if compute == dtype else relay.cast(x, compute)
    mean = relay.mean(wide, axis=axes, keepdims=True)
    apart = relay.subtract(wide, mean) if centred else wide
    variance = relay.mean(relay.multiply(apart, apart), axis=axes, keepdims=True)
    inverse = relay.rsqrt(relay.add(variance, number(epsilon, compute)))
    normal = relay.multiply(apart, inverse)
    normal = normal if compute == dtype else relay.cast(normal, dtype)
    result = relay.multiply(normal, scale)
    return [result if bias is None else relay.add(result, bias), mean, inverse]


@onnx_operator("LRN", since=1)
def local_response_normalization(node: Node, x: Expr) -> Expr:
    size = node.required("size")
    bias, alpha, beta = node.attr("bias", 1.0), node.attr("alpha", 1e-4), node.attr("beta", 0.75)
    if size % 2:
        return relay.nn.lrn(x, size=size, bias=bias, alpha=alpha, beta=beta)
    # a window of an even size has one channel more after the middle than before it
    back_to_front = relay.nn.lrn(relay.reverse(x, axis=1), size=size, bias=bias, alpha=alpha, beta=beta)
    return relay.reverse(back_to_front, axis=1)


@onnx_operator("LpNormalization", since=1)
def lp_normalization(node: Node, x: Expr) -> Expr:
    dtype, x = node.dtype(x), widened(node, x)
    axis, zero = node.axis(node.attr("axis", -1), node.rank(x)), number(0, node.dtype(x))
    if node.attr("p", 2) == 1:
        norm = relay.sum(relay.abs(x), axis=axis, keepdims=True)
    else:
        norm = relay.sqrt(relay.sum(relay.multiply(x, x), axis=axis, keepdims=True))
    return cast_to(node, relay.where(relay.equal(norm, zero), zero, relay.divide(x, norm)), dtype)


@onnx_operator("Dropout", since=1)
def dropout(node: Node, x: Expr, ratio: Expr | None, training: Expr | None) -> list[Expr]:
    """As in inference."""
    known = node.constant(training)
    if training is not None and (known is None or bool(known.any())):
        raise node.error("it is in training mode; programs here are run, not trained")
    ones = relay.ones_like(x)
    return [x, relay.cast(ones, "bool") if node.version >= 10 else ones]
