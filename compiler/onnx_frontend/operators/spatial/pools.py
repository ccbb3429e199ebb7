"""Pools: the largest element, or the mean, of windows or of all spatial axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....ops.core.tensor_types import int_range, is_float
from .....shape_funcs.symbolic.int_operations import INT64_MAX
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..elementwise import cast_to, number, widened
from ..vectors import numbers, sizes_or_expr
from ..windows import Window, padded_for_windows, window_attributes
from .pool_positions import largest_positions

_SPATIAL = (1, 2, 3)


def _pool(node: Node, x: Expr, name: str, fill: float, **attrs: Any) -> Expr:
    window = _window(node, x)
    spatial = len(window.kernel)
    function: Any = getattr(relay.nn, f"{name}_pool{spatial}d")
    if name == "avg" and not attrs.get("count_include_pad") and (window.auto or _may_miss_data(node, x, window)):
        return _mean_of_data(node, x)
    x, padding = padded_for_windows(node, x, window, fill)
    sizes = {"pool_size": window.kernel, "strides": window.strides, "dilation": window.dilations, "padding": padding}
    if not node.attr("ceil_mode", 0):
        return function(x, **sizes, **attrs)
    if attrs.get("count_include_pad"):
        # elements beyond the padding are not counted, those of the padding are
        x = relay.nn.pad(x, [(0, 0), (0, 0), *zip(padding[:spatial], padding[spatial:], strict=True)], const(0, node.dtype(x)))
        sizes, attrs = {**sizes, "padding": [0] * (2 * spatial)}, {}
        rest = [0] * (2 * spatial)
    else:
        rest = padding
    return _windows_on_data(node, x, function(x, **sizes, ceil_mode=True, **attrs), window, padding, rest)


def _may_miss_data(node: Node, x: Expr, window: Window) -> bool:
    """Whether a window may have padding only: then its mean is no number."""
    beyond = [s - 1 if node.attr("ceil_mode", 0) else 0 for s in window.strides]
    return any(
        max(begin, end + over, 0 if size else begin + end + over) >= extent
        for begin, end, over, size, extent in zip(
            window.begin, window.end, beyond, node.sizes(x)[2:], window.extents, strict=True
        )
    )


def _mean_of_data(node: Node, x: Expr) -> Expr:
    """The means without the padding, which is counted at run time: means with zeros over means of ones with zeros."""
    rank, dtype = node.rank(x), node.dtype(x)
    size = relay.strided_slice(relay.shape_of(x, dtype="int64"), [2], [rank])
    ones = node.bind(relay.full(number(1, dtype), relay.concatenate([numbers([1, 1]), size], 0), dtype))
    return relay.divide(*(_pool(node, data, "avg", 0.0, count_include_pad=True) for data in (x, ones)))


def _windows_on_data(node: Node, x: Expr, result: Expr, window: Window, padding: list[int], rest: list[int]) -> Expr:
    """The result without windows that begin after the data.

    ``padding``: of the whole data; ``rest``: the part of it that the data does not include.
    """
    spatial = len(window.kernel)
    ends = padding[spatial:]
    if all(e + s <= n for e, s, n in zip(ends, window.strides, window.extents, strict=True)):
        return result  # no window begins there
    size = relay.strided_slice(relay.shape_of(x, dtype="int64"), [2], [2 + spatial])
    included = [p - r for p, r in zip(padding, rest, strict=True)]
    reach = relay.add(size, numbers([r - e for r, e in zip(rest[:spatial], included[spatial:], strict=True)]))
    strides = numbers(window.strides)
    count = relay.floor_divide(relay.add(reach, numbers([s - 1 for s in window.strides])), strides)
    known = sizes_or_expr(node, node.bind(count))
    if isinstance(known, list):
        return relay.strided_slice(result, [0] * spatial, known, [1] * spatial, list(range(2, 2 + spatial)))
    end = relay.concatenate([numbers([INT64_MAX] * 2), known], 0)
    return relay.dyn.strided_slice(result, numbers([0] * (2 + spatial)), end, numbers([1] * (2 + spatial)))


def _window(node: Node, x: Expr) -> Window:
    spatial = node.rank(x) - 2
    if spatial not in _SPATIAL:
        raise node.error(f"pools have 1 to {len(_SPATIAL)} spatial axes, not {spatial}")
    return window_attributes(node, x)


@onnx_operator("MaxPool", since=1)
def max_pool(node: Node, x: Expr) -> Expr | list[Expr]:
    dtype = node.dtype(x)
    fill = -np.inf if is_float(dtype) else int_range(dtype)[0]
    values = _pool(node, x, "max", fill)
    if len(node.outputs) < 2 or not node.outputs[1]:
        return values
    return [values, largest_positions(node, x, values, _window(node, x), fill)]


@onnx_operator("AveragePool", since=1)
def average_pool(node: Node, x: Expr) -> Expr:
    return _pool(node, x, "avg", 0.0, count_include_pad=bool(node.attr("count_include_pad", 0)))


@onnx_operator("LpPool", since=2)
def lp_pool(node: Node, x: Expr) -> Expr:
    """The padding counts as zeros."""
    dtype, x = node.dtype(x), widened(node, x)
    window, p = _window(node, x), node.attr("p", 2)
    mean = _pool(node, _power(node, relay.abs(x), p), "avg", 0.0, count_include_pad=True)
    total = relay.multiply(mean, number(float(np.prod(window.kernel)), node.dtype(x)))
    return cast_to(node, _power(node, total, 1 / p), dtype)


@onnx_operator("GlobalLpPool", since=2)
def global_lp_pool(node: Node, x: Expr) -> Expr:
    dtype, x = node.dtype(x), widened(node, x)
    p = node.attr("p", 2)
    total = relay.sum(_power(node, relay.abs(x), p), axis=list(range(2, node.rank(x))), keepdims=True)
    return cast_to(node, _power(node, total, 1 / p), dtype)


def _power(node: Node, x: Expr, p: float) -> Expr:
    if p == 2:
        return relay.multiply(x, x)
    return x if p == 1 else relay.power(x, number(p, node.dtype(x)))


@onnx_operator("GlobalAveragePool", since=1)
def global_average_pool(node: Node, x: Expr) -> Expr:
    return relay.mean(x, axis=list(range(2, node.rank(x))), keepdims=True)


@onnx_operator("GlobalMaxPool", since=1)
def global_max_pool(node: Node, x: Expr) -> Expr:
    return relay.max(x, axis=list(range(2, node.rank(x))), keepdims=True)
