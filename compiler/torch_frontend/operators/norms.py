"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.norms import normalised
from ...onnx_frontend.operators.vectors import numbers
from ...onnx_frontend.scope import constant
from ..operator_table import aten
from ..torch_node import TorchNode, dtype_name


def _filled(node: TorchNode, given: Expr | None, like: Expr, value: int) -> Any:
    (size,) = node.sizes(like)
    return given if given is not None else constant(np.full(size or 0, value, node.dtype(like)))


@aten("_native_batch_norm_legit_no_training")
def batch_norm(
    node: TorchNode, x: Expr, scale: Expr | None, bias: Expr | None, mean: Expr, variance: Expr, momentum: float, epsilon: float
) -> list[Any]:
    scale, bias = _filled(node, scale, mean, 1), _filled(node, bias, mean, 0)
    dtype = node.dtype(x)
    parts = [node.cast(p, dtype) for p in (scale, bias, mean, variance)]
    return [relay.nn.batch_norm(x, *parts, epsilon=epsilon)[0], None, None]


@aten("batch_norm")
def batch_norm_of_module(
    node: TorchNode, x: Expr, scale: Expr | None, bias: Expr | None, mean: Expr | None, variance: Expr | None, training: bool,
    momentum: float, epsilon: float, fast: bool,
) -> Any:  # fmt: skip
    if mean is None or variance is None:
        return batch_norm_by_statistics(node, x, scale, bias, True, momentum, epsilon)[0]
    if training:
        raise node.error("it is in training mode; programs here are run, not trained", "export the module after .eval()")
    return batch_norm(node, x, scale, bias, mean, variance, momentum, epsilon)[0]


@aten("native_layer_norm")
def layer_norm(
    node: TorchNode, x: Expr, shape: Sequence[int], scale: Expr | None, bias: Expr | None, epsilon: float
) -> list[Any]:
    axes = list(range(node.rank(x) - len(shape), node.rank(x)))
    result, *statistics = _normalised(node, x, scale, bias, axes, epsilon)
    return [result, *_as_declared(node, statistics)]


def _as_declared(node: TorchNode, statistics: Sequence[Any]) -> list[Any]:
    """The mean and the inverse of the deviation in the dtypes of the second and the third result, if there are any."""
    metas = node.meta[1:3] if isinstance(node.meta, (list, tuple)) else ()
    return [node.cast(node.bind(s), dtype_name(meta.dtype)) for s, meta in zip(statistics, metas, strict=False)]


@aten("layer_norm")
def layer_norm_of_module(
    node: TorchNode, x: Expr, shape: Sequence[int], scale: Expr | None, bias: Expr | None, epsilon: float, fast: bool
) -> Any:
    return layer_norm(node, x, shape, scale, bias, epsilon)[0]


def _normalised(node: TorchNode, x: Expr, scale: Expr | None, bias: Expr | None, axes: list[int], epsilon: float) -> list[Any]:
    one = const(1, node.dtype(x))
    return normalised(node, x, one if scale is None else scale, bias, axes, epsilon)


@aten("group_norm")
def group_norm(node: TorchNode, x: Expr, groups: int, scale: Expr | None, bias: Expr | None, epsilon: float, fast: bool) -> Any:
    channels = node.sizes(x)[1]
    if channels is None or node.rank(x) == 2:
        return _group_norm_of_parts(node, x, groups, scale, bias, epsilon)
    like = constant(np.zeros(channels, node.dtype(x)))
    return relay.nn.group_norm(x, _filled(node, scale, like, 1), _filled(node, bias, like, 0), num_groups=groups, epsilon=epsilon)


def _parts(node: TorchNode, x: Expr, groups: int) -> Expr:
    """The elements of each group of channels, ``[batch, groups, elements]``."""
    batch = relay.strided_slice(relay.shape_of(x, dtype="int64"), [0], [1])
    rest = relay.strided_slice(relay.shape_of(x, dtype="int64"), [1], [INT64_MAX])
    elements = relay.floor_divide(relay.prod(rest), const(groups, "int64"))
    shape = relay.concatenate([batch, numbers([groups]), relay.reshape(elements, [1])], 0)
    return node.bind(relay.reshape(x, node.bind(shape), allowzero=True))


def _group_norm_of_parts(node: TorchNode, x: Expr, groups: int, scale: Expr | None, bias: Expr | None, epsilon: float) -> Any:
    """For any number of channels."""
    result = relay.reshape_like(_normalised(node, _parts(node, x, groups), None, None, [2], epsilon)[0], x)
    along = [-1, *[1] * (node.rank(x) - 2)]
    result = result if scale is None else relay.multiply(result, relay.reshape(scale, along))
    return result if bias is None else relay.add(result, relay.reshape(bias, along))


@aten("instance_norm")
def instance_norm(
    node: TorchNode,
    x: Expr,
    scale: Expr | None,
    bias: Expr | None,
    mean: Expr | None,
    variance: Expr | None,
    by_data: bool,
    momentum: float,
    epsilon: float,
    fast: bool,
) -> Any:
    """By the mean and the variance of each channel of each item, or by those that the module keeps."""
    if not by_data and mean is not None and variance is not None:
        return batch_norm(node, x, scale, bias, mean, variance, momentum, epsilon)[0]
    if mean is not None:
        raise node.error("it is in training mode; programs here are run, not trained", "export the module after .eval()")
    channels = node.sizes(x)[1]
    if channels is None:
        raise node.error("the number of channels is open", "export the module with a fixed number of channels")
    return group_norm(node, x, channels, scale, bias, epsilon, fast)


@aten("native_group_norm")
def native_group_norm(
    node: TorchNode,
    x: Expr,
    scale: Expr | None,
    bias: Expr | None,
    batch: Any,
    channels: Any,
    area: Any,
    groups: int,
    epsilon: float,
) -> list[Any]:
    _, mean, inverse = _normalised(node, _parts(node, x, groups), None, None, [2], epsilon)
    statistics = _as_declared(node, [relay.squeeze(s, [2]) for s in (mean, inverse)])
    return [group_norm(node, x, groups, scale, bias, epsilon, False), *statistics]


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_by_statistics(
    node: TorchNode, x: Expr, scale: Expr | None, bias: Expr | None, training: bool, momentum: float, epsilon: float
) -> list[Any]:
    """By the mean and the variance of the data, of a module that keeps none."""
    rank = node.rank(x)
    axes = [0, *range(2, rank)]
    along = [-1, *[1] * (rank - 2)]
    parts = [None if p is None else node.bind(relay.reshape(p, along)) for p in (scale, bias)]
    result, *statistics = _normalised(node, x, parts[0], parts[1], axes, epsilon)
    return [result, *_as_declared(node, [relay.reshape(s, [-1]) for s in statistics])]


@aten("_native_batch_norm_legit_functional", "_native_batch_norm_legit")
def batch_norm_in_training(node: TorchNode, *others: Any) -> Any:
    raise node.error("it is in training mode; programs here are run, not trained", "export the module after .eval()")
