"""A perceptron with two hidden layers."""

from __future__ import annotations

from ...shape_funcs.symbolic.dim import IntLike
from ..ir.expr import Function
from .layers import data, dense, network, nn
from .workload import Workload, create_workload


def get_net(
    batch_size: IntLike = 1, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> Function:
    """The probabilities of classes for ``data``, a batch of images: ``(batch_size, num_classes)``."""
    x = nn.batch_flatten(data(batch_size, image_shape, dtype))
    x = nn.relu(dense(x, 128, "fc1"))
    x = nn.relu(dense(x, 64, "fc2"))
    return network(nn.softmax(dense(x, num_classes, "fc3")))


def get_workload(
    batch_size: IntLike = 1, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32"
) -> Workload:
    """The network's module and its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
