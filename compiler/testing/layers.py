"""Layers of networks: operators whose weights are new variables without a type, called after the layer.

``layout`` is that of the data: channels first (``NCHW``) or channels last (``NHWC``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...shape_funcs.defs.convolution.conv import data_layouts, kernel_layouts
from ...shape_funcs.defs.convolution.conv_transpose import transposed_layouts
from ...shape_funcs.symbolic.dim import IntLike
from ...vm.diagnostics.argument_errors import wrong
from ..builder.build import var
from ..builder.operator_functions import operators
from ..ir.expr import Expr, Function, Var
from ..ir.visitor import free_vars

nn = operators.nn
_FIRST, _LAST = data_layouts(2)


def is_last(layout: str) -> bool:
    """Whether the channels are the last axis.  Raises ArgumentError for an unknown layout."""
    if layout not in (_FIRST, _LAST):
        raise wrong("layout", f"{_FIRST!r} or {_LAST!r}", layout)
    return layout == _LAST


def channel_axis(layout: str) -> int:
    """The axis of the channels."""
    return 3 if is_last(layout) else 1


def data(batch_size: IntLike, shape: Sequence[int], dtype: str, layout: str = _FIRST) -> Var:
    """The input ``data``: a batch of tensors of this shape, an image's with the channels first; in ``layout``."""
    shape = (*shape[1:], shape[0]) if is_last(layout) else tuple(shape)
    return var("data", shape=(batch_size, *shape), dtype=dtype)


def dense(x: Expr, units: int, name: str) -> Expr:
    """``x`` times ``NAME_weight``, plus ``NAME_bias``."""
    return _expr(nn.bias_add(nn.dense(x, var(f"{name}_weight"), units=units), var(f"{name}_bias"), axis=-1))


def conv2d(x: Expr, channels: int, kernel_size: int, name: str, layout: str, **attrs: Any) -> Expr:
    """A convolution with a square window and the weight ``NAME_weight``; ``attrs``: further attributes."""
    kernel = kernel_layouts(2)[is_last(layout)]
    attrs |= {"data_layout": layout, "kernel_layout": kernel}
    return _expr(nn.conv2d(x, var(f"{name}_weight"), channels=channels, kernel_size=(kernel_size,) * 2, **attrs))


def conv2d_transpose(x: Expr, channels: int, kernel_size: int, name: str, layout: str, **attrs: Any) -> Expr:
    """A transposed convolution with a square window and the weight ``NAME_weight``; ``attrs``: further attributes."""
    kernel = transposed_layouts(2)[is_last(layout)]
    attrs |= {"data_layout": layout, "kernel_layout": kernel}
    return _expr(nn.conv2d_transpose(x, var(f"{name}_weight"), channels=channels, kernel_size=(kernel_size,) * 2, **attrs))


def batch_norm(x: Expr, name: str, layout: str, epsilon: float = 1e-5) -> Expr:
    """A batch norm with ``NAME_gamma``, ``NAME_beta``, ``NAME_moving_mean`` and ``NAME_moving_var``."""
    vectors = [var(f"{name}_{vector}") for vector in ("gamma", "beta", "moving_mean", "moving_var")]
    return _expr(nn.batch_norm(x, *vectors, axis=channel_axis(layout), epsilon=epsilon)[0])


def classifier(x: Expr, num_classes: int, layout: str) -> Expr:
    """The probabilities of classes: mean over each channel, dense layer ``fc``, softmax."""
    pooled = nn.batch_flatten(nn.global_avg_pool2d(x, layout=layout))
    return _expr(nn.softmax(dense(pooled, num_classes, "fc")))


def network(result: Expr) -> Function:
    """The function of a network; its parameters are the variables of ``result`` in order of appearance."""
    return Function(tuple(free_vars(result)), result)


def _expr(value: Any) -> Expr:
    assert isinstance(value, Expr)
    return value
