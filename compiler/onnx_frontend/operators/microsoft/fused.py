"""Products and convolutions with what follows them."""

from __future__ import annotations

from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import MICROSOFT, onnx_operator
from ..elementwise import SELU, elu_of, number, selu_of, softplus, softsign, thresholded_relu_of
from ..products import convolved, matrix_product, with_term


@onnx_operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(node: Node, a: Expr, b: Expr) -> Expr:
    """`MatMul` of transposed operands, times a number; with `transBatchA` and `transBatchB` the first axis is before the last."""
    a = _operand(node, a, node.attr("transA", 0), node.attr("transBatchA", 0))
    b = _operand(node, b, node.attr("transB", 0), node.attr("transBatchB", 0))
    product, alpha = matrix_product(node, a, b), node.attr("alpha", 1.0)
    return product if alpha == 1.0 else relay.multiply(product, number(alpha, node.dtype(product)))


def _operand(node: Node, x: Expr, is_transposed: int, batch_last: int) -> Expr:
    rank = node.rank(x)
    if rank < 2:
        return x
    order = list(range(rank))
    if batch_last:
        order = [*order[1:-1], 0, order[-1]]
    if is_transposed:
        order[-2:] = order[:-3:-1]
    return x if order == list(range(rank)) else relay.transpose(x, order)


@onnx_operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(node: Node, a: Expr, b: Expr, c: Expr | None) -> Expr:
    """`Gemm`, then an activation."""
    product = relay.nn.matmul(a, b, transpose_a=bool(node.attr("transA", 0)), transpose_b=bool(node.attr("transB", 0)))
    dtype = node.dtype(a)
    total = relay.multiply(product, number(node.attr("alpha", 1.0), dtype))
    total = with_term(node, total, c, node.attr("beta", 1.0))
    name = node.attr("activation", "")
    attributes = ("activation_alpha", "activation_gamma" if name == "Selu" else "activation_beta")
    given = [node.attr(n, default) for n, default in zip(attributes, _DEFAULTS.get(name, ()), strict=False)]
    return _activated(node, total, name, given)


@onnx_operator("FusedConv", domain=MICROSOFT)
def fused_conv(node: Node, x: Expr, weight: Expr, bias: Expr | None, other: Expr | None) -> Expr:
    """`Conv`, then the sum with another tensor, then an activation."""
    result = convolved(node, x, weight)
    result = result if bias is None else relay.nn.bias_add(result, bias, axis=1)
    result = result if other is None else relay.add(result, other)
    return _activated(node, result, node.attr("activation", ""), node.attr("activation_params", []))


@onnx_operator("NhwcConv", domain=MICROSOFT)
def conv_channels_last(node: Node, x: Expr, weight: Expr, bias: Expr | None) -> Expr:
    """`Conv` of data whose channels are last; those of the weights are second, as documented, or last if only that fits."""
    rank, channels = node.rank(x), node.size(x, -1)
    own = (node.size(weight, 1), node.size(weight, -1))
    each = None if channels is None else channels // node.attr("group", 1)
    to_front = [0, rank - 1, *range(1, rank - 1)]
    if own[0] not in (None, each) and own[1] == each:
        weight = node.bind(relay.transpose(weight, to_front))
    result = convolved(node, node.bind(relay.transpose(x, to_front)), weight)
    result = result if bias is None else relay.nn.bias_add(result, bias, axis=1)
    return relay.transpose(node.bind(result), [0, *range(2, rank), 1])


#: The activations, and the defaults of their numbers.
_DEFAULTS: dict[str, tuple[float, ...]] = {
    "": (), "Relu": (), "Tanh": (), "Sigmoid": (), "Softplus": (), "Softsign": (), "LeakyRelu": (0.01,), "Elu": (1.0,),
    "ThresholdedRelu": (1.0,), "Clip": (-3.4028234e38, 3.4028234e38), "HardSigmoid": (0.2, 0.5), "ScaledTanh": (1.0, 1.0),
    "Selu": SELU,
}  # fmt: skip


def _activated(node: Node, x: Expr, name: str, given: list[float]) -> Expr:
    if name not in _DEFAULTS:
        raise node.error(f"the activation {name} is unknown", f"the activations are {', '.join(filter(None, _DEFAULTS))}")
    numbers, dtype = [*given, *_DEFAULTS[name][len(given) :]], node.dtype(x)
    values = [number(v, dtype) for v in numbers]
    match name:
        case "Relu":
            return relay.nn.relu(x)
        case "Tanh":
            return relay.tanh(x)
        case "Sigmoid":
            return relay.sigmoid(x)
        case "Softplus":
            return softplus(node, x)
        case "Softsign":
            return softsign(node, x)
        case "LeakyRelu":
            return relay.where(relay.less(x, number(0, dtype)), relay.multiply(values[0], x), x)
        case "Elu":
            return elu_of(node, x, numbers[0])
        case "ThresholdedRelu":
            return thresholded_relu_of(node, x, numbers[0])
        case "Clip":
            return relay.minimum(relay.maximum(x, values[0]), values[1])
        case "HardSigmoid":
            return relay.clip(relay.add(relay.multiply(values[0], x), values[1]), 0.0, 1.0)
        case "ScaledTanh":
            return relay.multiply(values[0], relay.tanh(relay.multiply(values[1], x)))
        case "Selu":
            return selu_of(node, x, numbers[0], numbers[1])
    return x
