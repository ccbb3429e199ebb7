"""Transposed convolutions."""

from __future__ import annotations

from typing import Any

from .....shape_funcs.symbolic.int_operations import INT64_MAX
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..vectors import numbers
from ..windows import Window, window_attributes

_FUNCTIONS = {1: "conv1d_transpose", 2: "conv2d_transpose", 3: "conv3d_transpose"}


@onnx_operator("ConvTranspose", since=1)
def conv_transpose(node: Node, x: Expr, weight: Expr, bias: Expr | None) -> Expr:
    spatial = node.rank(x) - 2
    if spatial not in _FUNCTIONS:
        raise node.error(f"convolutions have 1 to {len(_FUNCTIONS)} spatial axes, not {spatial}")
    window = window_attributes(node, x, weight, strided=False)
    extra = node.attr("output_padding", [0] * spatial)
    function: Any = getattr(relay.nn, _FUNCTIONS[spatial])
    sizes = {"strides": window.strides, "dilation": window.dilations, "groups": node.attr("group", 1)}
    if node.has("output_shape"):
        wanted = numbers(node.attr("output_shape")[-spatial:])
        result = function(x, weight, **sizes, padding=[0] * (2 * spatial), output_padding=0)
        result = _with_shape(node, result, wanted, window, extra)
    elif window.auto and window.weight is not None:
        size = relay.strided_slice(relay.shape_of(x, dtype="int64"), [2], [2 + spatial])
        wanted = relay.multiply(size, numbers(window.strides))
        result = function(x, weight, **sizes, padding=[0] * (2 * spatial), output_padding=0)
        result = _with_shape(node, result, wanted, window, extra)
    else:
        begin, end = _cropped(window, extra)
        # the end of the result may be padded by more than a step
        result = function(x, weight, **sizes, padding=[0] * (2 * spatial), output_padding=0)
        result = _fitted(node, result, begin, [e - o for e, o in zip(end, extra, strict=True)])
    return result if bias is None else relay.nn.bias_add(result, bias, axis=1)


def _cropped(window: Window, extra: list[int]) -> tuple[list[int], list[int]]:
    """The number of elements that are cut from the begin and the end of each axis."""
    if not window.auto:
        return list(window.begin), list(window.end)
    # the result has ``stride`` times the size of the data
    totals = [e + o - s for e, o, s in zip(window.extents, extra, window.strides, strict=True)]
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return (small, large) if window.auto == "SAME_UPPER" else (large, small)


def _fitted(node: Node, x: Expr, begin: list[int], end: list[int]) -> Expr:
    """The data without elements at the begin and the end of its spatial axes, or, for negative numbers, with zeros there."""
    cut = [-n if n > 0 else INT64_MAX for n in end]
    if any(n > 0 for n in (*begin, *end)):
        count = len(begin)
        x = relay.strided_slice(x, [max(n, 0) for n in begin], cut, [1] * count, list(range(2, 2 + count)))
    if any(n < 0 for n in (*begin, *end)):
        pairs = [(0, 0), (0, 0), *((max(-b, 0), max(-e, 0)) for b, e in zip(begin, end, strict=True))]
        x = relay.nn.pad(x, pairs, const(0, node.dtype(x)))
    return x


def _with_shape(node: Node, x: Expr, wanted: Expr, window: Window, extra: list[int]) -> Expr:
    """The whole result cut, or padded with zeros, to a shape: evenly, the odd element at the begin, for SAME_UPPER at the end."""
    spatial = len(window.strides)
    wanted = node.bind(wanted)
    size = relay.strided_slice(relay.shape_of(x, dtype="int64"), [2], [2 + spatial])
    surplus = relay.subtract(relay.add(size, numbers(extra)), wanted)
    half = relay.floor_divide(surplus, numbers([2] * spatial))
    begin = relay.subtract(surplus, half) if window.auto != "SAME_UPPER" else half
    zero = numbers([0] * spatial)
    begin = node.bind(begin)
    before = node.bind(relay.maximum(relay.negative(begin), zero))
    after = relay.maximum(relay.subtract(wanted, relay.subtract(size, begin)), zero)
    width = relay.concatenate([relay.reshape(numbers([0] * 4), [2, 2]), relay.stack([before, after], 1)], 0)
    padded = relay.dyn.nn.pad(x, width, const(0, node.dtype(x)))
    start = relay.maximum(begin, zero)
    whole = numbers([INT64_MAX] * 2)
    end = relay.concatenate([whole, relay.add(start, wanted)], 0)
    cut = relay.dyn.strided_slice(padded, relay.concatenate([numbers([0, 0]), start], 0), end, numbers([1] * (2 + spatial)))
    shape = relay.strided_slice(relay.shape_of(x, dtype="int64"), [0], [2])
    return relay.reshape(cut, relay.concatenate([shape, wanted], 0), allowzero=True)
