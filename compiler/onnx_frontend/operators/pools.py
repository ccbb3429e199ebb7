"""Pools: the largest element, or the mean, of windows or of all spatial axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.core.tensor_types import int_range, is_float
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .windows import padded_for_windows, window_attributes

_SPATIAL = (1, 2, 3)


def _pool(node: Node, x: Expr, name: str, fill: float, **attrs: Any) -> Expr:
    spatial = node.rank(x) - 2
    if spatial not in _SPATIAL:
        raise node.error(f"pools have 1 to {len(_SPATIAL)} spatial axes, not {spatial}")
    window = window_attributes(node, x, [None] * spatial)
    x, padding = padded_for_windows(node, x, window, fill)
    function: Any = getattr(relay.nn, f"{name}_pool{spatial}d")
    sizes = {"pool_size": window.kernel, "strides": window.strides, "dilation": window.dilations, "padding": padding}
    return function(x, **sizes, ceil_mode=bool(node.attr("ceil_mode", 0)), **attrs)


@onnx_operator("MaxPool", since=1)
def max_pool(node: Node, x: Expr) -> Expr:
    """Without the output of indices."""
    dtype = node.dtype(x)
    return _pool(node, x, "max", -np.inf if is_float(dtype) else int_range(dtype)[0])


@onnx_operator("AveragePool", since=1)
def average_pool(node: Node, x: Expr) -> Expr:
    return _pool(node, x, "avg", 0.0, count_include_pad=bool(node.attr("count_include_pad", 0)))


@onnx_operator("GlobalAveragePool", since=1)
def global_average_pool(node: Node, x: Expr) -> Expr:
    return relay.mean(x, axis=list(range(2, node.rank(x))), keepdims=True)


@onnx_operator("GlobalMaxPool", since=1)
def global_max_pool(node: Node, x: Expr) -> Expr:
    return relay.max(x, axis=list(range(2, node.rank(x))), keepdims=True)
