"""A network of images of separable convolutions: each channel by itself, then all channels at each point."""

from __future__ import annotations

from ...shape_funcs.symbolic.dim import IntLike
from ..ir.expr import Expr, Function
from .layers import batch_norm, classifier, conv2d, data, network, nn
from .workload import Workload, create_workload

#: The output channels and the stride of each separable convolution.
BLOCKS = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2),
    (1024, 1),
)  # fmt: skip


def conv_block(x: Expr, channels: int, window: int, name: str, layout: str, stride: int = 1, groups: int = 1) -> Expr:
    """Convolution, batch norm, relu; a stride of 1 keeps the size of the image."""
    y = conv2d(x, channels, window, f"{name}_conv", layout, strides=stride, padding=window // 2, groups=groups)
    normalised: Expr = nn.relu(batch_norm(y, f"{name}_bn", layout))
    return normalised


def get_net(
    batch_size: IntLike, num_classes: int = 1000, image_shape: tuple[int, int, int] = (3, 224, 224), dtype: str = "float32",
    layout: str = "NCHW", alpha: float = 1.0,
) -> Function:  # fmt: skip
    """The probabilities of classes for ``data``, a batch of images: ``(batch_size, num_classes)``.

    ``image_shape``: channels, height, width; ``alpha``: factor of all numbers of channels.
    """
    channels = int(32 * alpha)
    x = conv_block(data(batch_size, image_shape, dtype, layout), channels, 3, "block1", layout, stride=2)
    for k, (outputs, stride) in enumerate(BLOCKS, 2):
        x = conv_block(x, channels, 3, f"block{k}_depthwise", layout, stride=stride, groups=channels)
        channels = int(outputs * alpha)
        x = conv_block(x, channels, 1, f"block{k}_pointwise", layout)
    return network(classifier(x, num_classes, layout))


def get_workload(
    batch_size: IntLike = 1, num_classes: int = 1000, image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32", layout: str = "NCHW", alpha: float = 1.0,
) -> Workload:  # fmt: skip
    """The network's module and its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype, layout, alpha))
