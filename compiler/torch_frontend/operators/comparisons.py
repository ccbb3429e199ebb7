"""Comparisons, logic and choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..operator_table import aten
from ..torch_node import TorchNode, dtype_name
from ..torch_package import torch_package
from .arithmetic import operand


def common_dtype(node: TorchNode, a: Any, b: Any) -> str:
    """The dtype in which torch compares two operands."""
    torch = torch_package()
    of = [torch.empty((1,) * node.rank(x), dtype=getattr(torch, node.dtype(x))) if isinstance(x, Expr) else x for x in (a, b)]
    return dtype_name(torch.result_type(*of))


def _compared(name: str) -> Callable[..., Any]:
    def convert(node: TorchNode, a: Any, b: Any) -> Any:
        dtype = common_dtype(node, a, b)
        return getattr(relay, name)(operand(node, a, dtype), operand(node, b, dtype))

    return convert


_NAMES = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
for _torch, _relay in _NAMES.items():
    aten(f"{_torch}.Tensor", f"{_torch}.Scalar")(_compared(_relay))


def _of_bools(name: str) -> Callable[..., Any]:
    return lambda node, a, b: getattr(relay, name)(node.cast(a, "bool"), node.cast(b, "bool"))


for _name in ("logical_and", "logical_or", "logical_xor"):
    aten(_name)(_of_bools(_name))


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(node: TorchNode, condition: Expr, a: Any, b: Any) -> Any:
    dtype = node.result_dtype
    return relay.where(node.cast(condition, "bool"), operand(node, a, dtype), operand(node, b, dtype))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(node: TorchNode, x: Expr, mask: Expr, value: Any) -> Any:
    return relay.where(mask, operand(node, value, node.result_dtype), x)
