"""The network of a deep Q-learner (Mnih et al., 2015): the value of each choice of a player after the last frames of a game."""

from __future__ import annotations

from ...shape_funcs.symbolic.dim import IntLike
from ..builder.build import var
from ..ir.expr import Expr, Function
from .layers import channel_axis, conv2d, data, dense, network, nn
from .workload import Workload, create_workload

#: The channels, the window and the stride of each convolution.
CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))


def get_net(
    batch_size: IntLike, num_actions: int = 18, image_shape: tuple[int, int, int] = (4, 84, 84), dtype: str = "float32",
    layout: str = "NCHW",
) -> Function:  # fmt: skip
    """The values of choices for ``data``, a batch of images: ``(batch_size, num_actions)``.

    ``image_shape``: frames, height, width.
    """
    x: Expr = data(batch_size, image_shape, dtype, layout)
    for k, (channels, window, stride) in enumerate(CONVOLUTIONS, 1):
        x = conv2d(x, channels, window, f"conv{k}", layout, strides=stride)
        x = nn.relu(nn.bias_add(x, var(f"conv{k}_bias"), axis=channel_axis(layout)))
    x = nn.relu(dense(nn.batch_flatten(x), 512, "dense1"))
    return network(dense(x, num_actions, "dense2"))


def get_workload(
    batch_size: IntLike, num_actions: int = 18, image_shape: tuple[int, int, int] = (4, 84, 84), dtype: str = "float32",
    layout: str = "NCHW",
) -> Workload:  # fmt: skip
    """The network's module and its parameters."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
