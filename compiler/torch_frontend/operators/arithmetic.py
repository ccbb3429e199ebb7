"""Arithmetic of two operands, with torch's promotion: operands are cast to the dtype of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ops.core.tensor_types import int_range, is_float
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..operator_table import aten
from ..torch_node import TorchNode


def operand(node: TorchNode, x: Any, dtype: str) -> Any:
    """A tensor or a number in a dtype."""
    return node.cast(x, dtype) if isinstance(x, Expr) else const(x, dtype)


def _scaled(node: TorchNode, x: Any, alpha: Any, dtype: str) -> Any:
    x = operand(node, x, dtype)
    return x if not isinstance(alpha, Expr) and alpha == 1 else relay.multiply(operand(node, alpha, dtype), x)


@aten("add.Tensor", "add.Scalar")
def add(node: TorchNode, a: Any, b: Any, alpha: Any) -> Any:
    dtype = node.result_dtype
    return relay.logical_or(a, b) if dtype == "bool" else relay.add(operand(node, a, dtype), _scaled(node, b, alpha, dtype))


@aten("sub.Tensor", "sub.Scalar")
def subtract(node: TorchNode, a: Any, b: Any, alpha: Any) -> Any:
    return relay.subtract(operand(node, a, node.result_dtype), _scaled(node, b, alpha, node.result_dtype))


@aten("rsub.Tensor", "rsub.Scalar")
def subtract_from(node: TorchNode, a: Any, b: Any, alpha: Any) -> Any:
    return relay.subtract(operand(node, b, node.result_dtype), _scaled(node, a, alpha, node.result_dtype))


@aten("mul.Tensor", "mul.Scalar")
def multiply(node: TorchNode, a: Any, b: Any) -> Any:
    dtype = node.result_dtype
    a, b = operand(node, a, dtype), operand(node, b, dtype)
    return relay.logical_and(a, b) if dtype == "bool" else relay.multiply(a, b)


@aten("div.Tensor", "div.Scalar")
def divide(node: TorchNode, a: Any, b: Any) -> Any:
    return relay.divide(operand(node, a, node.result_dtype), operand(node, b, node.result_dtype))


@aten("div.Tensor_mode", "div.Scalar_mode")
def divide_rounded(node: TorchNode, a: Any, b: Any, mode: str | None) -> Any:
    dtype = node.result_dtype
    a, b = operand(node, a, dtype), operand(node, b, dtype)
    if mode == "floor":
        return relay.floor_divide(a, b)
    if mode == "trunc":
        return relay.trunc(relay.divide(a, b)) if is_float(dtype) else relay.trunc_divide(a, b)
    return relay.divide(a, b)


@aten("floor_divide", "floor_divide.Scalar")
def floor_divide(node: TorchNode, a: Any, b: Any) -> Any:
    return divide_rounded(node, a, b, "floor")


def _of_two(name: str) -> Callable[..., Any]:
    def convert(node: TorchNode, a: Any, b: Any) -> Any:
        dtype = node.result_dtype
        return getattr(relay, name)(operand(node, a, dtype), operand(node, b, dtype))

    return convert


_SAME = {
    "remainder.Tensor": "floor_mod", "remainder.Scalar": "floor_mod",
    "fmod.Tensor": "trunc_mod", "fmod.Scalar": "trunc_mod",
    "bitwise_left_shift.Tensor": "left_shift", "bitwise_right_shift.Tensor": "right_shift",
}  # fmt: skip
for _torch, _relay in _SAME.items():
    aten(_torch)(_of_two(_relay))


def _extreme(name: str, of_bools: str) -> Callable[..., Any]:
    def convert(node: TorchNode, a: Any, b: Any) -> Any:
        dtype = node.result_dtype
        return getattr(relay, of_bools if dtype == "bool" else name)(operand(node, a, dtype), operand(node, b, dtype))

    return convert


aten("maximum")(_extreme("maximum", "logical_or"))
aten("minimum")(_extreme("minimum", "logical_and"))


def _of_bits(name: str) -> Callable[..., Any]:
    def convert(node: TorchNode, a: Any, b: Any) -> Any:
        dtype = node.result_dtype
        kind = "logical" if dtype == "bool" else "bitwise"
        return getattr(relay, f"{kind}_{name}")(operand(node, a, dtype), operand(node, b, dtype))

    return convert


for _name in ("and", "or", "xor"):
    aten(f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar", f"__{_name}__.Tensor", f"__{_name}__.Scalar")(_of_bits(_name))


@aten("pow.Tensor_Scalar")
def power_of_number(node: TorchNode, x: Expr, exponent: Any) -> Any:
    dtype = node.result_dtype
    x = node.cast(x, dtype)
    if exponent == 2:
        return relay.multiply(x, x)
    if exponent == 0.5:
        return relay.sqrt(x)
    return power(node, x, exponent)


@aten("pow.Tensor_Tensor", "pow.Scalar")
def power(node: TorchNode, x: Any, exponent: Any) -> Any:
    dtype = node.result_dtype
    x, exponent = operand(node, x, dtype), operand(node, exponent, dtype)
    return relay.power(x, exponent) if is_float(dtype) else _power_of_integers(node, node.bind(x), node.bind(exponent), dtype)


def _power_of_integers(node: TorchNode, x: Expr, exponent: Expr, dtype: str) -> Any:
    """By squares, one for each bit of the exponent; of a negative exponent as torch has it: 0, but for 1 and -1."""
    zero, one, minus = (const(k, dtype) for k in (0, 1, -1))
    odd = node.bind(relay.not_equal(relay.bitwise_and(exponent, one), zero))
    value = node.constant(exponent)
    largest = int(value.max(initial=0)) if value is not None else int_range(dtype)[1]
    total: Expr = one
    square, rest = x, exponent
    for bit in range(largest.bit_length()):
        square = node.bind(relay.multiply(square, square)) if bit else x
        rest = node.bind(relay.right_shift(exponent, const(bit, dtype)))
        factor = relay.where(relay.not_equal(relay.bitwise_and(rest, one), zero), square, one)
        total = node.bind(relay.multiply(total, factor))
    inverse = relay.where(relay.equal(x, one), one, relay.where(relay.equal(x, minus), relay.where(odd, minus, one), zero))
    return relay.where(relay.less(exponent, zero), inverse, node.bind(total))


@aten("clamp")
def clamp(node: TorchNode, x: Expr, low: Any, high: Any) -> Any:
    dtype = node.result_dtype
    x = node.cast(x, dtype)
    x = x if low is None else relay.maximum(x, operand(node, low, dtype))
    return x if high is None else relay.minimum(x, operand(node, high, dtype))


@aten("clamp.Tensor")
def clamp_to_tensors(node: TorchNode, x: Expr, low: Any, high: Any) -> Any:
    return clamp(node, x, low, high)


@aten("clamp_min")
def clamp_min(node: TorchNode, x: Expr, low: Any) -> Any:
    return clamp(node, x, low, None)


@aten("clamp_max")
def clamp_max(node: TorchNode, x: Expr, high: Any) -> Any:
    return clamp(node, x, None, high)


@aten("atan2")
def atan2(node: TorchNode, y: Expr, x: Expr) -> Any:
    dtype = node.result_dtype
    y, x = node.cast(y, dtype), node.cast(x, dtype)
    zero, pi = const(0, dtype), const(3.141592653589793, dtype)
    angle = relay.atan(relay.divide(y, x))
    shifted = relay.where(relay.less(y, zero), relay.subtract(angle, pi), relay.add(angle, pi))
    on_axis = relay.where(relay.equal(y, zero), zero, relay.multiply(relay.sign(y), const(1.5707963267948966, dtype)))
    return relay.where(relay.greater(x, zero), angle, relay.where(relay.less(x, zero), shifted, on_axis))
