"""Convolutions, pools and resizes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.products import conv as onnx_conv
from ...onnx_frontend.operators.spatial import pools, resizing, sampling, transposed_convolutions
from ...onnx_frontend.operators.vectors import numbers
from ..operator_table import aten
from ..torch_node import TorchNode


def with_attributes(node: TorchNode, **attributes: Any) -> TorchNode:
    """The node with the attributes of an ONNX operator, for its converter."""
    return dataclasses.replace(node, attributes=attributes, _decoded={})


def _each(values: Sequence[int], count: int) -> list[int]:
    return list(values) * count if len(values) == 1 else list(values)


@aten("convolution")
def convolution(
    node: TorchNode, x: Expr, weight: Expr, bias: Expr | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    spatial = node.rank(weight) - 2
    is_alone = node.rank(x) == spatial + 1
    x = node.bind(relay.expand_dims(x, 0)) if is_alone else x
    pads = _each(padding, spatial)
    given = {"strides": _each(stride, spatial), "pads": pads + pads, "dilations": _each(dilation, spatial), "group": groups}
    if transposed:
        view = with_attributes(node, **given, output_padding=_each(output_padding, spatial))
        result = transposed_convolutions.conv_transpose(view, x, weight, bias)
    else:
        result = onnx_conv(with_attributes(node, **given), x, weight, bias)
    return relay.squeeze(result, [0]) if is_alone else result


@aten("conv1d", "conv2d", "conv3d")
def conv(
    node: TorchNode, x: Expr, weight: Expr, bias: Expr | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    return convolution(node, x, weight, bias, stride, padding, dilation, False, [0], groups)


def _pool_attributes(kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], count: int) -> dict[str, Any]:
    pads = _each(padding, count)
    return {"kernel_shape": _each(kernel, count), "strides": _each(stride or kernel, count), "pads": pads + pads}


@aten("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(
    node: TorchNode, x: Expr, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    ceil_mode: bool,
) -> list[Any]:  # fmt: skip
    count = 2 if "2d" in node.op_type else 3
    is_alone = node.rank(x) == count + 1
    x = node.bind(relay.expand_dims(x, 0)) if is_alone else x
    given = _pool_attributes(kernel, stride, padding, count)
    view = with_attributes(node, **given, dilations=_each(dilation, count), ceil_mode=int(ceil_mode))
    found: Any = pools.max_pool(view, x)
    return [relay.squeeze(found, [0]) if is_alone else found, None]


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    node: TorchNode, x: Expr, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool,
    include_pad: bool, divisor: int | None = None,
) -> Any:  # fmt: skip
    count = int(node.op_type.split("avg_pool")[1][0])
    is_alone = node.rank(x) == count + 1
    x = node.bind(relay.expand_dims(x, 0)) if is_alone else x
    given = _pool_attributes(kernel, stride, padding, count)
    if divisor is not None:
        # sums over all elements of the window, outside of the data 0
        x = _with_margins(node, x, given, ceil_mode)
        given["pads"] = [0] * (2 * count)
    view = with_attributes(node, **given, ceil_mode=int(ceil_mode), count_include_pad=int(include_pad))
    found = pools.average_pool(view, x)
    if divisor is not None:
        found = relay.multiply(found, const(math.prod(given["kernel_shape"]) / divisor, node.dtype(x)))
    return relay.squeeze(found, [0]) if is_alone else found


def _with_margins(node: TorchNode, x: Expr, given: dict[str, Any], ceil_mode: bool) -> Any:
    """The data with the padding of a pool as elements."""
    if ceil_mode:
        raise node.error("a divisor of its own beside ceil_mode=True has no converter")
    widths = [(0, 0), (0, 0), *((p, p) for p in given["pads"][: len(given["pads"]) // 2])]
    return node.bind(relay.nn.pad(x, widths, const(0, node.dtype(x)))) if any(given["pads"]) else x


@aten("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(node: TorchNode, x: Expr, grid: Expr, mode: int, padding: int, aligned: bool) -> Any:
    view = with_attributes(
        node,
        mode=("linear", "nearest", "cubic")[mode],
        padding_mode=("zeros", "border", "reflection")[padding],
        align_corners=int(aligned),
    )
    view.version = 20
    return sampling.grid_sample(view, x, grid)


@aten("adaptive_avg_pool1d")
def adaptive_avg_pool1d(node: TorchNode, x: Expr, size: Sequence[int]) -> Any:
    return relay.nn.adaptive_avg_pool1d(x, output_size=list(size))


@aten("adaptive_avg_pool2d", "_adaptive_avg_pool2d")
def adaptive_avg_pool2d(node: TorchNode, x: Expr, size: Sequence[int]) -> Any:
    if list(size) == [1, 1]:
        return relay.mean(x, axis=[-2, -1], keepdims=True)
    return relay.nn.adaptive_avg_pool2d(x, output_size=list(size))


def _resized(node: TorchNode, x: Expr, size: Any, factors: Any, mode: str, aligned: bool, **more: Any) -> Any:
    kind = "align_corners" if aligned else "asymmetric" if mode == "nearest" else "half_pixel"
    if mode != "nearest" and not aligned:
        kind = "pytorch_half_pixel" if mode == "cubic" else "half_pixel"
    view = with_attributes(node, mode=mode, coordinate_transformation_mode=kind, nearest_mode="floor", **more)
    if size is not None:
        whole = [node.extent(x, 0), node.extent(x, 1), *size]
        vector = node.vector(whole)
        sizes = vector if isinstance(vector, Expr) else numbers(vector)
        return resizing.resize(view, x, None, None, sizes)
    return resizing.resize(view, x, None, const([1.0, 1.0, *map(float, factors)], "float32"), None)


@aten("upsample_bilinear2d.vec")
def bilinear(node: TorchNode, x: Expr, size: Any, aligned: bool, factors: Any) -> Any:
    return _resized(node, x, size, factors, "linear", aligned)


@aten("upsample_bicubic2d.vec")
def bicubic(node: TorchNode, x: Expr, size: Any, aligned: bool, factors: Any) -> Any:
    return _resized(node, x, size, factors, "cubic", aligned, cubic_coeff_a=-0.75)


@aten("upsample_nearest2d.vec", "upsample_nearest1d.vec", "upsample_nearest3d.vec")
def nearest(node: TorchNode, x: Expr, size: Any, factors: Any) -> Any:
    return _resized(node, x, size, factors, "nearest", False)
