"""Operators of two or more tensors that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from ....ops.core.tensor_types import is_float
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .elementwise import number

_SAME = {
    ("Add", 7): "add", ("And", 7): "logical_and", ("BitwiseAnd", 18): "bitwise_and", ("BitwiseOr", 18): "bitwise_or",
    ("BitwiseXor", 18): "bitwise_xor", ("Div", 7): "divide", ("Equal", 7): "equal", ("Greater", 7): "greater",
    ("GreaterOrEqual", 12): "greater_equal", ("Less", 7): "less", ("LessOrEqual", 12): "less_equal", ("Mul", 7): "multiply",
    ("Or", 7): "logical_or", ("Sub", 7): "subtract", ("Xor", 7): "logical_xor",
}  # fmt: skip


def _direct(name: str) -> Callable[[Node, Expr, Expr], Expr]:
    def convert(node: Node, x: Expr, y: Expr) -> Expr:
        return getattr(relay, name)(x, y)

    return convert


for (_name, _since), _relay in _SAME.items():
    onnx_operator(_name, since=_since)(_direct(_relay))


def placed(node: Node, x: Expr, y: Expr) -> Expr:
    """The second operand as version 6 has it: with ``broadcast`` its axes begin at ``axis`` of the first."""
    if not node.attr("broadcast", 0) or not node.has("axis"):
        return y
    axis, missing = node.axis(node.attr("axis"), node.rank(x)), node.rank(x) - node.rank(y)
    return y if axis == missing else relay.expand_dims(y, node.rank(y), missing - axis)


def _older(convert: Callable[[Node, Expr, Expr], Expr]) -> Callable[[Node, Expr, Expr], Expr]:
    def converted(node: Node, x: Expr, y: Expr) -> Expr:
        return convert(node, x, placed(node, x, y))

    return converted


for _name in ("Add", "Div", "Mul", "Sub"):
    onnx_operator(_name, since=6)(_older(_direct(_SAME[_name, 7])))
for _name in ("And", "Equal", "Greater", "Less", "Or", "Xor"):
    onnx_operator(_name, since=1)(_older(_direct(_SAME[_name, 7])))


@onnx_operator("Pow", since=7)
def power(node: Node, x: Expr, y: Expr) -> Expr:
    """The result has the dtype of the base; of integers, the power is computed in float64."""
    dtype = node.dtype(x)
    compute = dtype if is_float(dtype) else "float64"
    result = relay.power(_as(node, x, compute), _as(node, y, compute))
    return result if compute == dtype else relay.cast(result, dtype)


onnx_operator("Pow", since=1)(_older(power))


def _as(node: Node, x: Expr, dtype: str) -> Expr:
    return x if node.dtype(x) == dtype else relay.cast(x, dtype)


@onnx_operator("Mod", since=10)
def modulo(node: Node, x: Expr, y: Expr) -> Expr:
    """`fmod=1` takes the sign of the dividend."""
    return relay.mod(x, y) if node.attr("fmod", 0) else relay.floor_mod(x, y)


@onnx_operator("BitShift", since=11)
def bit_shift(node: Node, x: Expr, y: Expr) -> Expr:
    return relay.left_shift(x, y) if node.required("direction") == "LEFT" else relay.right_shift(x, y)


@onnx_operator("Where", since=9)
def where(node: Node, condition: Expr, x: Expr, y: Expr) -> Expr:
    return relay.where(condition, x, y)


def _folded(name: str) -> Callable[..., Expr]:
    def convert(node: Node, *tensors: Expr) -> Expr:
        return reduce(getattr(relay, name), tensors)

    return convert


for _name, _relay in (("Sum", "add"), ("Max", "maximum"), ("Min", "minimum")):
    onnx_operator(_name, since=6)(_folded(_relay))


@onnx_operator("Mean", since=6)
def mean(node: Node, *tensors: Expr) -> Expr:
    total = reduce(relay.add, tensors)
    return relay.divide(total, number(len(tensors), node.dtype(tensors[0])))
