"""SqueezeNet (Iandola et al., 2016): images through modules that narrow the channels, then widen them by two windows."""

from __future__ import annotations

from ...shape_funcs.symbolic.dim import IntLike
from ...vm.diagnostics.argument_errors import wrong
from ..builder.build import var
from ..builder.operator_functions import operators
from ..ir.expr import Expr, Function
from .layers import channel_axis, conv2d, data, network, nn
from .workload import Workload, create_workload

#: By version: channels and window of the first convolution, and the modules before which there is a pool, from 0.
VERSIONS = {"1.0": (96, 7, (0, 3, 7)), "1.1": (64, 3, (0, 2, 4))}
#: The channels of each module: narrow, and of each wide window.
MODULES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))


def convolution(x: Expr, channels: int, window: int, name: str, layout: str, stride: int = 1, padding: int = 0) -> Expr:
    """A convolution with a bias, then relu."""
    y = conv2d(x, channels, window, name, layout, strides=stride, padding=padding)
    active: Expr = nn.relu(nn.bias_add(y, var(f"{name}_bias"), axis=channel_axis(layout)))
    return active


def fire(x: Expr, narrow: int, wide: int, name: str, layout: str) -> Expr:
    """A module: ``narrow`` channels, then ``wide`` of each of two windows."""
    x = convolution(x, narrow, 1, f"{name}_squeeze", layout)
    parts = [convolution(x, wide, window, f"{name}_expand{window}", layout, padding=window // 2) for window in (1, 3)]
    joined: Expr = operators.concatenate(parts, axis=channel_axis(layout))
    return joined


def get_net(
    batch_size: IntLike, num_classes: int = 1000, version: str = "1.0", image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32", layout: str = "NCHW",
) -> Function:  # fmt: skip
    """The probabilities of classes for ``data``, a batch of images: ``(batch_size, num_classes)``.

    ``image_shape``: channels, height, width.  Raises ArgumentError for a version that is no key of ``VERSIONS``.
    """
    if version not in VERSIONS:
        raise wrong("squeezenet: version", ", ".join(VERSIONS), version)
    channels, window, pools = VERSIONS[version]
    x = convolution(data(batch_size, image_shape, dtype, layout), channels, window, "conv1", layout, stride=2)
    for k, (narrow, wide) in enumerate(MODULES):
        if k in pools:
            x = nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), layout=layout)
        x = fire(x, narrow, wide, f"fire{k + 2}", layout)
    x = convolution(x, num_classes, 1, "conv10", layout)
    return network(nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(x, layout=layout))))


def get_workload(
    batch_size: IntLike = 1, num_classes: int = 1000, version: str = "1.0",
    image_shape: tuple[int, int, int] = (3, 224, 224), dtype: str = "float32", layout: str = "NCHW",
) -> Workload:  # fmt: skip
    """The network's module and its parameters."""
    return create_workload(get_net(batch_size, num_classes, version, image_shape, dtype, layout))
