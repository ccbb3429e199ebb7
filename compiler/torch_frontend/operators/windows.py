"""Convolutions, pools and resizes."""

from __future__ import annotations

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
from ..torch_node import TorchNode, with_attributes
from .padding import padded


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
    if any(node.number(p) is None for p in pads):
        x, pads = node.bind(padded(node, x, [p for p in reversed(pads) for _ in range(2)], 0, "constant")), [0] * spatial
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
    view.outputs = ["values", "positions"]
    values, at = map(node.bind, pools.max_pool(view, x))
    # positions within an image, not within all data
    area = relay.prod(relay.strided_slice(relay.shape_of(x, dtype="int64"), [2], [2 + count]))
    at = relay.floor_mod(at, area)
    return [relay.squeeze(r, [0]) if is_alone else r for r in (values, at)]


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    node: TorchNode, x: Expr, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil_mode: bool,
    include_pad: bool, divisor: int | None = None,
) -> Any:  # fmt: skip
    count = int(node.op_type.split("avg_pool")[1][0])
    is_alone = node.rank(x) == count + 1
    x = node.bind(relay.expand_dims(x, 0)) if is_alone else x
    given = _pool_attributes(kernel, stride, padding, count)
    view = with_attributes(node, **given, ceil_mode=int(ceil_mode), count_include_pad=int(include_pad))
    found: Any = pools.average_pool(view, x)
    if divisor is not None:
        factor = const(math.prod(given["kernel_shape"]) / divisor, node.dtype(x))
        found = relay.multiply(_mean_with_zeros(node, x, given, node.bind(found), ceil_mode), factor)
    return relay.squeeze(found, [0]) if is_alone else found


def _mean_with_zeros(node: TorchNode, x: Expr, given: dict[str, Any], like: Expr, ceil_mode: bool) -> Any:
    """The means of windows whose elements outside of the data are zeros, as many as in ``like``."""
    spatial, beyond = len(given["kernel_shape"]), [s - 1 if ceil_mode else 0 for s in given["strides"]]
    widths = [(0, 0), (0, 0), *((p, p + more) for p, more in zip(given["pads"][:spatial], beyond, strict=True))]
    x = node.bind(relay.nn.pad(x, widths, const(0, node.dtype(x)))) if any(map(any, widths)) else x
    found = pools.average_pool(with_attributes(node, **{**given, "pads": [0] * (2 * spatial)}), x)
    return relay.slice_like(found, like, axes=list(range(2, 2 + spatial))) if ceil_mode else found


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


@aten("adaptive_avg_pool1d", "adaptive_avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool3d")
def adaptive_avg_pool(node: TorchNode, x: Expr, size: Sequence[Any]) -> Any:
    count, numbers = len(size), [node.number(n) for n in size]
    if all(n == 1 for n in numbers):
        return relay.mean(x, axis=list(range(-count, 0)), keepdims=True)
    if None in numbers:
        raise node.error("the sizes of the result must be known at import")
    is_alone = node.rank(x) == count + 1
    function = getattr(relay.nn, f"adaptive_avg_pool{count}d")
    found = function(relay.expand_dims(x, 0) if is_alone else x, output_size=numbers)
    return relay.squeeze(found, [0]) if is_alone else found


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
