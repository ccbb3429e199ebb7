"""Residual networks of images, with the norm before each convolution."""

from __future__ import annotations

from ...shape_funcs.symbolic.dim import IntLike
from ...vm.diagnostics.argument_errors import wrong
from ..ir.expr import Expr, Function
from .layers import batch_norm, classifier, conv2d, data, network, nn
from .workload import Workload, create_workload

#: The number of units in each of the four stages, by the number of layers; from 50 on, units have a bottleneck.
UNITS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
#: Images of at most this height keep their size in the first layer.
_SMALL = 32


def residual_unit(x: Expr, filters: int, stride: int, same: bool, name: str, bottleneck: bool, layout: str) -> Expr:
    """``x`` plus its convolutions; ``same``: whether ``x`` has the shape of the result, otherwise it is projected to it."""
    active = nn.relu(batch_norm(x, f"{name}_bn1", layout))
    # (channels, window, stride) of each convolution
    plan = [(filters // 4, 1, 1), (filters // 4, 3, stride), (filters, 1, 1)] if bottleneck else []
    y = active
    for k, (channels, window, step) in enumerate(plan or [(filters, 3, stride), (filters, 3, 1)], 1):
        if k > 1:
            y = nn.relu(batch_norm(y, f"{name}_bn{k}", layout))
        y = conv2d(y, channels, window, f"{name}_conv{k}", layout, strides=step, padding=window // 2)
    shortcut = x if same else conv2d(active, filters, 1, f"{name}_sc", layout, strides=stride)
    total: Expr = y + shortcut
    return total


def get_net(
    batch_size: IntLike, num_classes: int, num_layers: int = 50, image_shape: tuple[int, int, int] = (3, 224, 224),
    layout: str = "NCHW", dtype: str = "float32", width: int = 64,
) -> Function:  # fmt: skip
    """The probabilities of classes for ``data``, a batch of images: ``(batch_size, num_classes)``.

    ``num_layers``: a key of ``UNITS``; ``image_shape``: channels, height, width; ``width``: the number of filters of the first
    layer.  Raises ArgumentError.
    """
    if num_layers not in UNITS:
        raise wrong("resnet: num_layers", ", ".join(map(str, UNITS)), num_layers)
    bottleneck = num_layers >= 50
    x: Expr = data(batch_size, image_shape, dtype, layout)
    x = batch_norm(x, "bn_data", layout)
    if image_shape[1] <= _SMALL:
        x = conv2d(x, width, 3, "conv0", layout, padding=1)
    else:
        x = nn.relu(batch_norm(conv2d(x, width, 7, "conv0", layout, strides=2, padding=3), "bn0", layout))
        x = nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    for stage, units in enumerate(UNITS[num_layers]):
        filters = width * 2**stage * (4 if bottleneck else 1)
        for unit in range(units):
            same = unit > 0 or (stage == 0 and not bottleneck)
            stride = 2 if stage > 0 and unit == 0 else 1
            x = residual_unit(x, filters, stride, same, f"stage{stage + 1}_unit{unit + 1}", bottleneck, layout)
    x = nn.relu(batch_norm(x, "bn1", layout))
    return network(classifier(x, num_classes, layout))


def get_workload(
    batch_size: IntLike = 1, num_classes: int = 1000, num_layers: int = 18,
    image_shape: tuple[int, int, int] = (3, 224, 224), layout: str = "NCHW", dtype: str = "float32", width: int = 64,
) -> Workload:  # fmt: skip
    """The network's module and its parameters."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, width))
