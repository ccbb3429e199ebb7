"""Tensors that are made of numbers and sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.core.tensor_types import is_float
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..operator_table import aten
from ..torch_node import TorchNode
from .arithmetic import operand


@aten("full")
def full(node: TorchNode, size: Sequence[Any], value: Any, *others: Any) -> Any:
    dtype = node.result_dtype
    return relay.full(operand(node, value, dtype), node.vector(size), dtype)


@aten("zeros", "empty.memory_format", "empty_strided", "empty_permuted")
def zeros(node: TorchNode, size: Sequence[Any], *others: Any) -> Any:
    """Elements that torch leaves without a value are 0."""
    return full(node, size, 0)


@aten("ones")
def ones(node: TorchNode, size: Sequence[Any], *others: Any) -> Any:
    return full(node, size, 1)


@aten("full_like")
def full_like(node: TorchNode, x: Expr, value: Any, *others: Any) -> Any:
    return relay.full_like(node.cast(x, node.result_dtype), operand(node, value, node.result_dtype))


@aten("zeros_like", "empty_like")
def zeros_like(node: TorchNode, x: Expr, *others: Any) -> Any:
    return relay.zeros_like(node.cast(x, node.result_dtype))


@aten("ones_like")
def ones_like(node: TorchNode, x: Expr, *others: Any) -> Any:
    return relay.ones_like(node.cast(x, node.result_dtype))


@aten("new_zeros", "new_empty", "new_empty_strided")
def new_zeros(node: TorchNode, x: Expr, size: Sequence[Any], *others: Any) -> Any:
    return full(node, size, 0)


@aten("new_ones")
def new_ones(node: TorchNode, x: Expr, size: Sequence[Any], *others: Any) -> Any:
    return full(node, size, 1)


@aten("new_full")
def new_full(node: TorchNode, x: Expr, size: Sequence[Any], value: Any, *others: Any) -> Any:
    return full(node, size, value)


@aten("scalar_tensor")
def scalar_tensor(node: TorchNode, value: Any, *others: Any) -> Any:
    return operand(node, value, node.result_dtype)


@aten("arange.start_step")
def arange_by_step(node: TorchNode, start: Any, end: Any, step: Any, *others: Any) -> Any:
    dtype = node.result_dtype
    if not any(isinstance(n, Expr) for n in (start, end, step)):
        # torch computes the length in float64, and integers of integers
        length = math.ceil((end - start) / step)
        start, step = (start, step) if is_float(dtype) else (int(start), int(step))
        return const(start + np.arange(length) * step, dtype)
    return relay.arange(*(operand(node, n, dtype) for n in (start, end, step)), dtype=dtype)


@aten("arange.start")
def arange_from(node: TorchNode, start: Any, end: Any, *others: Any) -> Any:
    return arange_by_step(node, start, end, 1)


@aten("arange")
def arange(node: TorchNode, end: Any, *others: Any) -> Any:
    return arange_by_step(node, 0, end, 1)


@aten("eye")
def eye(node: TorchNode, n: Any, *others: Any) -> Any:
    return eye_of(node, n, n)


@aten("eye.m")
def eye_of(node: TorchNode, rows: Any, columns: Any, *others: Any) -> Any:
    zero, one = const(0, "int64"), const(1, "int64")
    at = [relay.arange(zero, operand(node, n, "int64"), one, dtype="int64") for n in (rows, columns)]
    return relay.cast(relay.equal(relay.expand_dims(at[0], 1), relay.expand_dims(at[1], 0)), node.result_dtype)
