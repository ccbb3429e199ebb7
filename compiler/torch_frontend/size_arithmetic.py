"""Arithmetic on sizes: Python's functions on numbers and on int64 expressions."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from ..builder.build import const
from ..builder.operator_functions import operators as relay
from ..ir.expr import Expr
from .torch_node import TorchNode
from .torch_package import torch_package


def _expr(node: TorchNode, x: Any, dtype: str) -> Expr:
    return node.cast(x, dtype) if isinstance(x, Expr) else const(x, dtype)


def _is_float(node: TorchNode, x: Any) -> bool:
    return node.dtype(x) == "float64" if isinstance(x, Expr) else isinstance(x, float)


def _of_two(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def convert(node: TorchNode, a: Any, b: Any) -> Any:
        if not isinstance(a, Expr) and not isinstance(b, Expr):
            return function(a, b)
        is_float = name == "divide" or _is_float(node, a) or _is_float(node, b)
        dtype = "float64" if is_float else "int64"
        return getattr(relay, name)(_expr(node, a, dtype), _expr(node, b, dtype))

    return convert


def _of_bools(name: str) -> Callable[..., Any]:
    def convert(node: TorchNode, a: Any, b: Any) -> Any:
        return getattr(relay, name)(_expr(node, a, "bool"), _expr(node, b, "bool"))

    return convert


def _rounded(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def convert(node: TorchNode, x: Any) -> Any:
        if not isinstance(x, Expr):
            return function(x)
        return relay.cast(getattr(relay, name)(x), "int64") if node.dtype(x) == "float64" else x

    return convert


def _cast(function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
    return lambda node, x: node.cast(x, dtype) if isinstance(x, Expr) else function(x)


def _negative(node: TorchNode, x: Any) -> Any:
    return relay.negative(x) if isinstance(x, Expr) else -x


@functools.cache
def on_sizes() -> dict[Any, Callable[..., Any]]:
    """The converter of each function that a graph applies to sizes."""
    torch = torch_package()
    return {
        operator.add: _of_two(operator.add, "add"),
        operator.sub: _of_two(operator.sub, "subtract"),
        operator.mul: _of_two(operator.mul, "multiply"),
        operator.floordiv: _of_two(operator.floordiv, "floor_divide"),
        operator.mod: _of_two(operator.mod, "floor_mod"),
        operator.truediv: _of_two(operator.truediv, "divide"),
        operator.pow: _of_two(operator.pow, "power"),
        operator.neg: _negative,
        operator.eq: _of_two(operator.eq, "equal"),
        operator.ne: _of_two(operator.ne, "not_equal"),
        operator.lt: _of_two(operator.lt, "less"),
        operator.le: _of_two(operator.le, "less_equal"),
        operator.gt: _of_two(operator.gt, "greater"),
        operator.ge: _of_two(operator.ge, "greater_equal"),
        operator.and_: _of_bools("logical_and"),
        operator.or_: _of_bools("logical_or"),
        torch.sym_max: _of_two(max, "maximum"),
        torch.sym_min: _of_two(min, "minimum"),
        torch.sym_float: _cast(float, "float64"),
        torch.sym_int: _rounded(int, "trunc"),
        math.ceil: _rounded(math.ceil, "ceil"),
        math.floor: _rounded(math.floor, "floor"),
        math.trunc: _rounded(math.trunc, "trunc"),
    }
