"""Normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.norms import normalised
from ...onnx_frontend.scope import constant
from ..operator_table import aten
from ..torch_node import TorchNode


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
    if training or mean is None or variance is None:
        raise node.error("it is in training mode; programs here are run, not trained", "export the module after .eval()")
    return batch_norm(node, x, scale, bias, mean, variance, momentum, epsilon)[0]


@aten("native_layer_norm")
def layer_norm(
    node: TorchNode, x: Expr, shape: Sequence[int], scale: Expr | None, bias: Expr | None, epsilon: float
) -> list[Any]:
    axes = list(range(node.rank(x) - len(shape), node.rank(x)))
    result, mean, inverse = _normalised(node, x, scale, bias, axes, epsilon)
    return [result, mean, inverse]


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
    if channels is None:
        raise node.error("the number of channels must be known at import")
    like = constant(np.zeros(channels, node.dtype(x)))
    return relay.nn.group_norm(x, _filled(node, scale, like, 1), _filled(node, bias, like, 0), num_groups=groups, epsilon=epsilon)


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
    return [group_norm(node, x, groups, scale, bias, epsilon, False), None, None]


@aten("_native_batch_norm_legit_functional", "_native_batch_norm_legit", "_native_batch_norm_legit.no_stats")
def batch_norm_in_training(node: TorchNode, *others: Any) -> Any:
    raise node.error("it is in training mode; programs here are run, not trained", "export the module after .eval()")
