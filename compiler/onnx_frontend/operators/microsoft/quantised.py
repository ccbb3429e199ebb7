"""Operators on quantised tensors of the domain com.microsoft, as optimisers write them.

Functions of real numbers are computed in float32 on dequantised data and quantised, halves to the even number; products of
integers are exact.
"""

from __future__ import annotations

from collections.abc import Callable

from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import MICROSOFT, onnx_operator
from ..elementwise import number
from ..quantised import (
    SCALE,
    along,
    dynamically_quantised,
    integer_product,
    parameter,
    qlinear_conv,
    quantised,
    real,
    rescaled,
    scales_product,
    scales_ratio,
)  # fmt: skip
from ..recurrent.layers import lstm
from ..softmaxes import softmax_of_rows
from ..spatial.pools import average_pool, global_average_pool


def _real(node: Node, x: Expr, scale: Expr, zero_point: Expr | None) -> Expr:
    """The dequantised data; scale and zero point are scalars, or vectors of one element."""
    given = parameter(node, x, scale, -1, SCALE)
    assert given is not None
    return real(x, given, parameter(node, x, zero_point, -1, "the zero point"))


def _quantised(node: Node, x: Expr, scale: Expr, zero_point: Expr | None, dtype: str) -> Expr:
    given = parameter(node, x, scale, -1, SCALE)
    assert given is not None
    return quantised(node, x, given, parameter(node, x, zero_point, -1, "the zero point"), dtype)


# ---- element by element ----------------------------------------------------------------------------------------------------


def _binary(name: str, function: Callable[[Expr, Expr], Expr]) -> None:
    @onnx_operator(name, domain=MICROSOFT)
    def convert(
        node: Node, a: Expr, scale_a: Expr, zero_a: Expr | None, b: Expr, scale_b: Expr, zero_b: Expr | None, scale: Expr,
        zero_point: Expr | None,
    ) -> Expr:  # fmt: skip
        result = function(_real(node, a, scale_a, zero_a), _real(node, b, scale_b, zero_b))
        return _quantised(node, result, scale, zero_point, node.dtype(a))


_binary("QLinearAdd", lambda a, b: relay.add(a, b))
_binary("QLinearMul", lambda a, b: relay.multiply(a, b))


def _unary(name: str, function: Callable[[Node, Expr], Expr]) -> None:
    @onnx_operator(name, domain=MICROSOFT)
    def convert(node: Node, x: Expr, scale_x: Expr, zero_x: Expr | None, scale: Expr, zero_point: Expr | None) -> Expr:
        return _quantised(node, function(node, _real(node, x, scale_x, zero_x)), scale, zero_point, node.dtype(x))


def _channels_first(node: Node, x: Expr, function: Callable[[Node, Expr], Expr]) -> Expr:
    """The function of data whose channels may be last, by the attribute ``channels_last``."""
    if not node.attr("channels_last", 0):
        return function(node, x)
    rank = node.rank(x)
    result = function(node, relay.transpose(x, [0, rank - 1, *range(1, rank - 1)]))
    return relay.transpose(result, [0, *range(2, rank), 1])


def _softmax(node: Node, x: Expr) -> Expr:
    """The softmax of the version ``opset`` of the standard: before 13 over all axes from ``axis`` on."""
    axis = node.attr("axis", -1)
    if node.attr("opset", 13) < 13:
        return softmax_of_rows(node, x, axis)
    return relay.nn.softmax(x, axis=node.axis(axis, node.rank(x)))


def _mean(node: Node, x: Expr) -> Expr:
    axes = node.axes(node.attr("axes", list(range(node.rank(x)))), node.rank(x))
    return relay.mean(x, axis=axes, keepdims=bool(node.attr("keepdims", 1)))


_unary("QLinearSigmoid", lambda node, x: relay.sigmoid(x))
_unary("QLinearLeakyRelu", lambda node, x: relay.nn.leaky_relu(x, alpha=node.attr("alpha", 0.01)))
_unary("QLinearSoftmax", _softmax)
_unary("QLinearAveragePool", lambda node, x: _channels_first(node, x, average_pool))
_unary("QLinearGlobalAveragePool", lambda node, x: _channels_first(node, x, global_average_pool))
_unary("QLinearReduceMean", _mean)


@onnx_operator("QLinearWhere", domain=MICROSOFT)
def qlinear_where(
    node: Node, condition: Expr, x: Expr, scale_x: Expr, zero_x: Expr, y: Expr, scale_y: Expr, zero_y: Expr, scale: Expr,
    zero_point: Expr,
) -> Expr:  # fmt: skip
    chosen = relay.where(condition, _real(node, x, scale_x, zero_x), _real(node, y, scale_y, zero_y))
    return _quantised(node, chosen, scale, zero_point, node.dtype(x))


@onnx_operator("QLinearConcat", domain=MICROSOFT)
def qlinear_concat(node: Node, scale: Expr, zero_point: Expr, *rest: Expr | None) -> Expr:
    if not rest or len(rest) % 3:
        raise node.error(f"it has {len(rest)} inputs for the joined tensors; there are three for each: data, scale, zero point")
    parts = []
    for k in range(0, len(rest), 3):
        x, scale_x, zero_x = rest[k : k + 3]
        if x is None or scale_x is None:
            raise node.error(f"input {k + 2 if x is None else k + 3} is missing")
        parts.append(_quantised(node, _real(node, x, scale_x, zero_x), scale, zero_point, node.dtype(zero_point)))
    return relay.concatenate(parts, node.axis(node.required("axis"), node.rank(parts[0])))


# ---- products ----------------------------------------------------------------------------------------------------------------


@onnx_operator("QLinearConv", domain=MICROSOFT)
def qlinear_conv_of_layout(
    node: Node, x: Expr, scale_x: Expr, zero_x: Expr, weight: Expr, scale_w: Expr, zero_w: Expr, scale: Expr, zero_point: Expr,
    bias: Expr | None,
) -> Expr:  # fmt: skip
    def convolved(node: Node, x: Expr) -> Expr:
        return qlinear_conv(node, x, scale_x, zero_x, weight, scale_w, zero_w, scale, zero_point, bias)

    return _channels_first(node, x, convolved)


@onnx_operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    node: Node, a: Expr, b: Expr, scale_a: Expr, scale_b: Expr, zero_a: Expr | None, zero_b: Expr | None, bias: Expr | None
) -> Expr:
    factor = relay.multiply(along(node, a, scale_a, -2 if node.rank(a) > 1 else None), along(node, b, scale_b, -1))
    result = relay.multiply(relay.cast(integer_product(node, a, b, zero_a, zero_b), "float32"), factor)
    return result if bias is None else relay.add(result, bias)


@onnx_operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(
    node: Node, a: Expr, b: Expr, scale_b: Expr, zero_b: Expr | None, bias: Expr | None
) -> Expr:  # fmt: skip
    whole, scale_a, zero_a = dynamically_quantised(node, a)
    return matmul_integer_to_float(node, node.bind(whole), b, scale_a, scale_b, zero_a, zero_b, bias)


@onnx_operator("QGemm", domain=MICROSOFT)
def qgemm(
    node: Node, a: Expr, scale_a: Expr, zero_a: Expr, b: Expr, scale_b: Expr, zero_b: Expr, c: Expr | None, scale: Expr | None,
    zero_point: Expr | None,
) -> Expr:  # fmt: skip
    """A result of float32 if its scale is not given."""
    a = relay.transpose(a) if node.attr("transA", 0) else a
    b = relay.transpose(b) if node.attr("transB", 0) else b
    product = integer_product(node, node.bind(a), node.bind(b), zero_a, zero_b)
    product = product if c is None else relay.add(product, c)
    factor = scales_product(scale_a, along(node, b, scale_b, -1))
    factor = scales_product(factor, number(node.attr("alpha", 1.0), "float32"))
    if scale is None:
        return relay.multiply(relay.cast(product, "float32"), factor)
    return rescaled(node, product, scales_ratio(factor, scale), zero_point)


# ---- recurrences -------------------------------------------------------------------------------------------------------------


@onnx_operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(
    node: Node, x: Expr, weight: Expr, recurrent: Expr, bias: Expr | None, lengths: Expr | None, initial: Expr | None,
    cell: Expr | None, peepholes: Expr | None, scale_w: Expr, zero_w: Expr, scale_r: Expr, zero_r: Expr,
) -> list[Expr]:  # fmt: skip
    """The weights are dequantised; the data stay floats."""

    def dequantised(value: Expr, scale: Expr, zero_point: Expr) -> Expr:
        spread = [p if node.rank(p) == 0 else relay.expand_dims(p, 1, 2 if node.rank(p) == 1 else 1) for p in (scale, zero_point)]
        whole = relay.subtract(relay.cast(value, "int32"), relay.cast(spread[1], "int32"))
        return relay.transpose(relay.multiply(relay.cast(whole, "float32"), spread[0]), [0, 2, 1])

    weights = dequantised(weight, scale_w, zero_w), dequantised(recurrent, scale_r, zero_r)
    return lstm(node, x, *weights, bias, lengths, initial, cell, peepholes)
