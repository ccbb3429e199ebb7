"""Densely connected networks of images (Huang et al., 2017): each layer reads the results of all layers of its stage."""

from __future__ import annotations

from ...shape_funcs.symbolic.dim import IntLike
from ...vm.diagnostics.argument_errors import wrong
from ..builder.operator_functions import operators
from ..ir.expr import Expr, Function
from .layers import batch_norm, channel_axis, classifier, conv2d, data, network, nn
from .workload import Workload, create_workload

#: The channels of the first convolution, the channels that a layer adds, and the layers of each stage, by the number of layers.
SIZES = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def activated(x: Expr, name: str, layout: str) -> Expr:
    """Batch norm and relu."""
    active: Expr = nn.relu(batch_norm(x, name, layout))
    return active


def dense_layer(x: Expr, growth: int, name: str, layout: str) -> Expr:
    """``x`` and ``growth`` further channels, by a bottleneck of four times as many."""
    y = conv2d(activated(x, f"{name}_bn1", layout), 4 * growth, 1, f"{name}_conv1", layout)
    y = conv2d(activated(y, f"{name}_bn2", layout), growth, 3, f"{name}_conv2", layout, padding=1)
    joined: Expr = operators.concatenate([x, y], axis=channel_axis(layout))
    return joined


def get_net(
    batch_size: IntLike, num_classes: int = 1000, densenet_size: int = 121, image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32", layout: str = "NCHW", width: int | None = None,
) -> Function:  # fmt: skip
    """The probabilities of classes for ``data``, a batch of images: ``(batch_size, num_classes)``.

    ``densenet_size``: a key of ``SIZES``; ``image_shape``: channels, height, width; ``width``: the channels of the first layer,
    of which each layer adds a half.  Raises ArgumentError.
    """
    if densenet_size not in SIZES:
        raise wrong("densenet: densenet_size", ", ".join(map(str, SIZES)), densenet_size)
    channels, growth, stages = SIZES[densenet_size]
    if width is not None:
        channels, growth = width, width // 2
    x = conv2d(data(batch_size, image_shape, dtype, layout), channels, 7, "conv1", layout, strides=2, padding=3)
    x = nn.max_pool2d(activated(x, "bn1", layout), pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    for stage, layers in enumerate(stages, 1):
        if stage > 1:
            channels //= 2
            x = conv2d(activated(x, f"transition{stage - 1}_bn", layout), channels, 1, f"transition{stage - 1}_conv", layout)
            x = nn.avg_pool2d(x, pool_size=(2, 2), strides=(2, 2), layout=layout)
        for layer in range(1, layers + 1):
            x = dense_layer(x, growth, f"stage{stage}_layer{layer}", layout)
        channels += layers * growth
    return network(classifier(activated(x, "bn2", layout), num_classes, layout))


def get_workload(
    densenet_size: int = 121, classes: int = 1000, batch_size: IntLike = 4, image_shape: tuple[int, int, int] = (3, 224, 224),
    dtype: str = "float32",
) -> Workload:  # fmt: skip
    """The network's module and its parameters."""
    return create_workload(get_net(batch_size, classes, densenet_size, image_shape, dtype))
