"""Sums and products of all elements up to each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .run_time_axes import along_axis


def _cumulative(name: str) -> Callable[[Node, Expr, Expr], Expr]:
    def convert(node: Node, x: Expr, axis: Expr) -> Expr:
        """`axis` is known at import or at run time."""
        exclusive, function = bool(node.attr("exclusive", 0)), _function(name)
        dtype, x = node.dtype(x), node.bind(x)

        def along(inner: Node, k: int) -> Expr:
            if not node.attr("reverse", 0):
                return function(x, axis=k, dtype=dtype, exclusive=exclusive)
            return relay.reverse(function(relay.reverse(x, k), axis=k, dtype=dtype, exclusive=exclusive), k)

        return along_axis(node, axis, node.rank(x), along)

    return convert


def _function(name: str) -> Any:
    return getattr(relay, name)


onnx_operator("CumSum", since=11)(_cumulative("cumsum"))
onnx_operator("CumProd", since=26)(_cumulative("cumprod"))
