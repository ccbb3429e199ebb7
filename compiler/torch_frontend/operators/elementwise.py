"""Functions of one element, activations and casts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ops.core.tensor_types import is_float
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators import elementwise as onnx
from ..operator_table import aten
from ..torch_node import TorchNode, dtype_name

#: Operators that Relay has under another or the same name.  Integers become the float of the result.
_SAME = {
    "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh", "atan": "atan", "atanh": "atanh", "cos": "cos",
    "cosh": "cosh", "erf": "erf", "exp": "exp", "log": "log", "log2": "log2", "log10": "log10", "rsqrt": "rsqrt",
    "sigmoid": "sigmoid", "sin": "sin", "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh", "neg": "negative",
    "relu": "nn.relu",
}  # fmt: skip


def _function(name: str) -> Any:
    function: Any = relay
    for part in name.split("."):
        function = getattr(function, part)
    return function


def _direct(name: str) -> Callable[..., Any]:
    return lambda node, x: _function(name)(node.cast(x, node.result_dtype))


for _torch, _relay in _SAME.items():
    aten(_torch)(_direct(_relay))


def _of_floats(name: str) -> Callable[..., Any]:
    """Functions that are the identity of integers."""
    return lambda node, x: _function(name)(x) if is_float(node.dtype(x)) else x


for _torch in ("ceil", "floor", "trunc"):
    aten(_torch)(_of_floats(_torch))


@aten("sign")
def sign(node: TorchNode, x: Expr) -> Any:
    return x if node.dtype(x) == "bool" else relay.sign(x)


@aten("abs")
def absolute(node: TorchNode, x: Expr) -> Any:
    return x if node.dtype(x) == "bool" else relay.abs(x)


@aten("round")
def round_to_even(node: TorchNode, x: Expr) -> Any:
    return onnx.round_half_to_even(node, x) if is_float(node.dtype(x)) else x


@aten("round.decimals")
def round_decimals(node: TorchNode, x: Expr, decimals: int) -> Any:
    if not is_float(node.dtype(x)) or decimals == 0:
        return round_to_even(node, x)
    factor = const(10.0 ** abs(decimals), node.dtype(x))
    there, back = (relay.multiply, relay.divide) if decimals > 0 else (relay.divide, relay.multiply)
    return back(onnx.round_half_to_even(node, node.bind(there(x, factor))), factor)


@aten("expm1")
def exp_less_one(node: TorchNode, x: Expr) -> Any:
    x, dtype = node.cast(x, node.result_dtype), node.result_dtype
    half, two = const(0.5, dtype), const(2, dtype)
    # by sinh, which is exact near 0
    return relay.multiply(two, relay.multiply(relay.exp(relay.multiply(half, x)), relay.sinh(relay.multiply(half, x))))


@aten("log1p")
def log_of_one_more(node: TorchNode, x: Expr) -> Any:
    dtype = node.result_dtype
    x = node.cast(x, dtype)
    # the rounding of 1 + x is made good by the second term
    whole = node.bind(relay.add(x, const(1, dtype)))
    lost = relay.subtract(x, relay.subtract(whole, const(1, dtype)))
    near = relay.add(relay.log(whole), relay.divide(lost, whole))
    is_inside = relay.logical_and(relay.isfinite(whole), relay.greater(whole, const(0, dtype)))
    return relay.where(is_inside, near, relay.log(whole))


@aten("reciprocal")
def reciprocal(node: TorchNode, x: Expr) -> Any:
    return relay.divide(const(1, node.result_dtype), node.cast(x, node.result_dtype))


@aten("isnan")
def is_nan(node: TorchNode, x: Expr) -> Any:
    return relay.isnan(x) if is_float(node.dtype(x)) else relay.zeros_like(node.cast(x, "bool"))


@aten("isinf")
def is_infinite(node: TorchNode, x: Expr) -> Any:
    return relay.isinf(x) if is_float(node.dtype(x)) else relay.zeros_like(node.cast(x, "bool"))


@aten("logical_not")
def logical_not(node: TorchNode, x: Expr) -> Any:
    return relay.logical_not(node.cast(x, "bool"))


@aten("bitwise_not")
def bitwise_not(node: TorchNode, x: Expr) -> Any:
    return relay.logical_not(x) if node.dtype(x) == "bool" else relay.bitwise_not(x)


# ---- activations ---------------------------------------------------------------------------------------------------------


@aten("gelu")
def gelu(node: TorchNode, x: Expr, approximate: str) -> Any:
    return onnx.gelu_of(node, x, is_tanh=approximate == "tanh")


@aten("silu")
def silu(node: TorchNode, x: Expr) -> Any:
    return relay.multiply(x, relay.sigmoid(x))


@aten("mish")
def mish(node: TorchNode, x: Expr) -> Any:
    return onnx.mish(node, x)


@aten("hardsigmoid")
def hard_sigmoid(node: TorchNode, x: Expr) -> Any:
    dtype = node.dtype(x)
    return relay.clip(relay.add(relay.multiply(const(1 / 6, dtype), x), const(0.5, dtype)), 0.0, 1.0)


@aten("hardswish")
def hard_swish(node: TorchNode, x: Expr) -> Any:
    return relay.multiply(x, hard_sigmoid(node, x))


@aten("hardtanh")
def hard_tanh(node: TorchNode, x: Expr, low: float, high: float) -> Any:
    return relay.clip(x, float(low), float(high))


@aten("relu6")
def relu6(node: TorchNode, x: Expr) -> Any:
    return relay.clip(x, 0.0, 6.0)


@aten("leaky_relu")
def leaky_relu(node: TorchNode, x: Expr, slope: float) -> Any:
    return relay.nn.leaky_relu(x, alpha=float(slope))


@aten("elu")
def elu(node: TorchNode, x: Expr, alpha: float, scale: float, input_scale: float) -> Any:
    dtype = node.dtype(x)
    below = relay.subtract(relay.exp(relay.multiply(x, const(input_scale, dtype))), const(1, dtype))
    whole = relay.where(relay.less(x, const(0, dtype)), relay.multiply(const(alpha, dtype), below), x)
    return whole if scale == 1 else relay.multiply(const(scale, dtype), whole)


@aten("softplus")
def softplus(node: TorchNode, x: Expr, beta: float, threshold: float) -> Any:
    dtype = node.dtype(x)
    scaled = node.bind(relay.multiply(const(beta, dtype), x))
    smooth = relay.divide(onnx.softplus(node, scaled), const(beta, dtype))
    return relay.where(relay.greater(scaled, const(threshold, dtype)), x, smooth)


@aten("_softmax")
def softmax(node: TorchNode, x: Expr, axis: int, to_float: bool) -> Any:
    return relay.nn.softmax(x, axis) if node.rank(x) else relay.ones_like(x)


@aten("_log_softmax")
def log_softmax(node: TorchNode, x: Expr, axis: int, to_float: bool) -> Any:
    return relay.nn.log_softmax(x, axis) if node.rank(x) else relay.zeros_like(x)


# ---- casts ---------------------------------------------------------------------------------------------------------------


@aten("_to_copy")
def to_copy(node: TorchNode, x: Expr, dtype: Any, *others: Any) -> Any:
    return x if dtype is None else node.cast(x, dtype_name(dtype))


@aten("clone", "alias", "detach", "lift_fresh_copy", "contiguous")
def identity(node: TorchNode, x: Expr, *others: Any) -> Any:
    return x


@aten("dropout")
def dropout(node: TorchNode, x: Expr, p: float, train: bool) -> Any:
    if train and p:
        raise node.error("it is in training mode; programs here are run, not trained", "export the module after .eval()")
    return x


@aten("native_dropout")
def dropout_and_mask(node: TorchNode, x: Expr, p: float, train: bool | None) -> list[Any]:
    return [dropout(node, x, p, train is not False), relay.ones_like(node.cast(x, "bool"))]
