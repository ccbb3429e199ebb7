"""Operators of one element: arithmetic functions, activations, casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ops.core.tensor_types import computed_in, is_float
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from ..tensors import dtype_name

#: The operators that Relay has under another or the same name, by version.
_SAME = {
    ("Abs", 6): "abs", ("Acos", 7): "acos", ("Acosh", 9): "acosh", ("Asin", 7): "asin", ("Asinh", 9): "asinh",
    ("Atan", 7): "atan", ("Atanh", 9): "atanh", ("BitwiseNot", 18): "bitwise_not", ("Ceil", 6): "ceil", ("Cos", 7): "cos",
    ("Cosh", 9): "cosh", ("Erf", 9): "erf", ("Exp", 6): "exp", ("Floor", 6): "floor", ("IsNaN", 9): "isnan", ("Log", 6): "log",
    ("Neg", 6): "negative", ("Not", 1): "logical_not", ("Relu", 6): "nn.relu", ("Sigmoid", 6): "sigmoid", ("Sign", 9): "sign",
    ("Sin", 7): "sin", ("Sinh", 9): "sinh", ("Sqrt", 6): "sqrt", ("Tan", 7): "tan", ("Tanh", 6): "tanh",
}  # fmt: skip


def _direct(name: str) -> Callable[[Node, Expr], Expr]:
    def convert(node: Node, x: Expr) -> Expr:
        function: Any = relay
        for part in name.split("."):
            function = getattr(function, part)
        return function(x)

    return convert


for (_name, _since), _relay in _SAME.items():
    onnx_operator(_name, since=_since)(_direct(_relay))


def number(value: float, dtype: str) -> Expr:
    """A scalar constant of a dtype."""
    return const(np.asarray(value), dtype)


@onnx_operator("Identity")
def identity(node: Node, x: Expr | None) -> list[Expr | None]:
    return [x]


@onnx_operator("Reciprocal", since=6)
def reciprocal(node: Node, x: Expr) -> Expr:
    return relay.divide(number(1, node.dtype(x)), x)


@onnx_operator("Round", since=11)
def round_half_to_even(node: Node, x: Expr) -> Expr:
    """Halves to the even neighbour."""
    dtype = node.dtype(x)
    floor = relay.floor(x)
    fraction = relay.subtract(x, floor)
    half, one = number(0.5, dtype), number(1, dtype)
    is_odd = relay.not_equal(relay.floor_mod(floor, number(2, dtype)), number(0, dtype))
    up = relay.logical_or(relay.greater(fraction, half), relay.logical_and(relay.equal(fraction, half), is_odd))
    return relay.where(up, relay.add(floor, one), floor)


@onnx_operator("IsInf", since=10)
def is_infinite(node: Node, x: Expr) -> Expr:
    zero, found = number(0, node.dtype(x)), relay.isinf(x)
    if not node.attr("detect_negative", 1):
        found = relay.logical_and(found, relay.greater(x, zero))
    if not node.attr("detect_positive", 1):
        found = relay.logical_and(found, relay.less(x, zero))
    return found


@onnx_operator("LeakyRelu", since=6)
def leaky_relu(node: Node, x: Expr) -> Expr:
    return relay.nn.leaky_relu(x, alpha=node.attr("alpha", 0.01))


@onnx_operator("Elu", since=6)
def elu(node: Node, x: Expr) -> Expr:
    return elu_of(node, x, node.attr("alpha", 1.0))


def elu_of(node: Node, x: Expr, alpha: float) -> Expr:
    """Elu with a factor of negative numbers."""
    dtype = node.dtype(x)
    factor, zero, one = number(alpha, dtype), number(0, dtype), number(1, dtype)
    return relay.where(relay.less(x, zero), relay.multiply(factor, relay.subtract(relay.exp(x), one)), x)


#: The factors of Selu without attributes: of negative numbers, and of all.
SELU = (1.67326319217681884765625, 1.05070102214813232421875)


@onnx_operator("Selu", since=6)
def selu(node: Node, x: Expr) -> Expr:
    return selu_of(node, x, node.attr("alpha", SELU[0]), node.attr("gamma", SELU[1]))


def selu_of(node: Node, x: Expr, alpha: float, gamma: float) -> Expr:
    """Selu with its factors of negative numbers and of all."""
    dtype = node.dtype(x)
    factor = number(alpha, dtype)
    negative = relay.subtract(relay.multiply(factor, relay.exp(x)), factor)
    return relay.multiply(number(gamma, dtype), relay.where(relay.greater(x, number(0, dtype)), x, negative))


@onnx_operator("Celu", since=12)
def celu(node: Node, x: Expr) -> Expr:
    dtype = node.dtype(x)
    alpha, zero, one = number(node.attr("alpha", 1.0), dtype), number(0, dtype), number(1, dtype)
    negative = relay.multiply(alpha, relay.subtract(relay.exp(relay.divide(x, alpha)), one))
    return relay.add(relay.maximum(zero, x), relay.minimum(zero, negative))


@onnx_operator("ThresholdedRelu", since=10)
def thresholded_relu(node: Node, x: Expr) -> Expr:
    return thresholded_relu_of(node, x, node.attr("alpha", 1.0))


def thresholded_relu_of(node: Node, x: Expr, alpha: float) -> Expr:
    """The numbers above a threshold, and 0 for all others."""
    dtype = node.dtype(x)
    return relay.where(relay.greater(x, number(alpha, dtype)), x, number(0, dtype))


@onnx_operator("HardSigmoid", since=6)
def hard_sigmoid(node: Node, x: Expr) -> Expr:
    dtype = node.dtype(x)
    line = relay.add(relay.multiply(number(node.attr("alpha", 0.2), dtype), x), number(node.attr("beta", 0.5), dtype))
    return relay.clip(line, 0.0, 1.0)


@onnx_operator("HardSwish", since=14)
def hard_swish(node: Node, x: Expr) -> Expr:
    dtype = node.dtype(x)
    gate = relay.clip(relay.add(relay.multiply(number(1 / 6, dtype), x), number(0.5, dtype)), 0.0, 1.0)
    return relay.multiply(x, gate)


@onnx_operator("Softplus", since=1)
def softplus(node: Node, x: Expr) -> Expr:
    dtype = node.dtype(x)
    zero, one = number(0, dtype), number(1, dtype)
    # the exponential of a number that is not positive has no overflow
    rest = relay.log(relay.add(relay.exp(relay.negative(relay.abs(x))), one))
    return relay.add(relay.maximum(x, zero), rest)


@onnx_operator("Softsign", since=1)
def softsign(node: Node, x: Expr) -> Expr:
    return relay.divide(x, relay.add(relay.abs(x), number(1, node.dtype(x))))


@onnx_operator("Mish", since=18)
def mish(node: Node, x: Expr) -> Expr:
    return relay.multiply(x, relay.tanh(softplus(node, x)))


@onnx_operator("Swish", since=24)
def swish(node: Node, x: Expr) -> Expr:
    alpha = number(node.attr("alpha", 1.0), node.dtype(x))
    return relay.multiply(x, relay.sigmoid(relay.multiply(alpha, x)))


@onnx_operator("Gelu", since=20)
def gelu(node: Node, x: Expr) -> Expr:
    return gelu_of(node, x, is_tanh=node.choice("approximate", {"none": False, "tanh": True}, "none"))


def gelu_of(node: Node, x: Expr, *, is_tanh: bool) -> Expr:
    """Gelu, by the error function or by its approximation with tanh."""
    dtype = node.dtype(x)
    half, one = number(0.5, dtype), number(1, dtype)
    if is_tanh:
        cube = relay.multiply(number(0.044715, dtype), relay.multiply(x, relay.multiply(x, x)))
        inner = relay.tanh(relay.multiply(number(np.sqrt(2 / np.pi), dtype), relay.add(x, cube)))
    else:
        inner = relay.erf(relay.multiply(x, number(np.sqrt(0.5), dtype)))  # a division takes as long as a part of erf
    return relay.multiply(relay.multiply(half, x), relay.add(one, inner))


@onnx_operator("Shrink", since=9)
def shrink(node: Node, x: Expr) -> Expr:
    dtype = node.dtype(x)
    bias, lambd = number(node.attr("bias", 0.0), dtype), node.attr("lambd", 0.5)
    above = relay.greater(x, number(lambd, dtype))
    below = relay.less(x, number(-lambd, dtype))
    return relay.where(below, relay.add(x, bias), relay.where(above, relay.subtract(x, bias), number(0, dtype)))


@onnx_operator("Clip", since=6)
def clip_to_attributes(node: Node, x: Expr) -> Expr:
    low, high = node.attr("min"), node.attr("max")
    dtype = node.dtype(x)
    return _limited(x, None if low is None else number(low, dtype), None if high is None else number(high, dtype))


@onnx_operator("Clip", since=11)
def clip(node: Node, x: Expr, low: Expr | None, high: Expr | None) -> Expr:
    return _limited(x, low, high)


def _limited(x: Expr, low: Expr | None, high: Expr | None) -> Expr:
    x = x if low is None else relay.maximum(x, low)
    return x if high is None else relay.minimum(x, high)


@onnx_operator("PRelu", since=7)
def prelu(node: Node, x: Expr, slope: Expr) -> Expr:
    return relay.where(relay.less(x, number(0, node.dtype(x))), relay.multiply(slope, x), x)


@onnx_operator("PRelu", since=6)
def prelu_by_channel(node: Node, x: Expr, slope: Expr) -> Expr:
    """Version 6: one slope, or one for each channel."""
    channels = node.rank(x) - 2
    return prelu(node, x, slope if node.size(slope, 0) == 1 else relay.expand_dims(slope, 1, max(channels, 0)))


@onnx_operator("Cast", since=6)
def cast(node: Node, x: Expr) -> Expr:
    wanted = dtype_name(node.required("to"), f"the result of {node.label}")
    return cast_to(node, x, wanted)


@onnx_operator("CastLike", since=15)
def cast_like(node: Node, x: Expr, model: Expr) -> Expr:
    return cast_to(node, x, node.dtype(model))


def cast_to(node: Node, x: Expr, dtype: str) -> Expr:
    """The elements in a dtype; of floats as bools, whether they are not 0."""
    have = node.dtype(x)
    if have == dtype:
        return x
    if dtype == "bool" and is_float(have):
        return relay.not_equal(x, number(0, have))
    return relay.cast(x, dtype)


def widened(node: Node, x: Expr) -> Expr:
    """The elements in the dtype in which their sums are computed: halves as float32."""
    return cast_to(node, x, computed_in(node.dtype(x)))


@onnx_operator("BitCast", since=26)
def bit_cast(node: Node, x: Expr) -> Expr:
    """Between dtypes of the same width."""
    dtype = dtype_name(node.required("to"), f"the result of {node.label}")
    have = node.dtype(x)
    if "bool" in (have, dtype):
        return x if have == dtype else relay.cast(x, dtype)
    return x if have == dtype else relay.reinterpret(x, dtype)
