"""A small network for tests: a dense layer with fixed shapes, a reshape, a convolution and a split."""

from __future__ import annotations

from ..builder.operator_functions import operators
from ..ir.expr import Function
from .layers import conv2d, data, dense, network, nn
from .workload import Workload, create_workload


def get_net(input_shape: tuple[int, int, int, int] = (1, 3, 24, 12), dtype: str = "float32") -> Function:
    """A tuple of two images for ``data``, a batch of images with three channels, batch first."""
    batch, channels, height, width = input_shape
    x = data(batch, input_shape[1:], dtype)
    rows = dense(operators.reshape(x, [-1, width]), width, "dense")
    image = operators.reshape(nn.relu(rows), [batch, channels, height, width])
    y = conv2d(image, 2 * channels, 3, "conv", "NCHW", padding=1)
    return network(operators.split(nn.relu(y), 2, axis=1).tuple_value)


def get_workload(input_shape: tuple[int, int, int, int] = (1, 3, 24, 12), dtype: str = "float32") -> Workload:
    """The network's module and its parameters."""
    return create_workload(get_net(input_shape, dtype))
