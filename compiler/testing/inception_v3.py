"""Inception-v3 (Szegedy et al., 2015): images through modules of parallel convolutions whose channels are joined."""

from __future__ import annotations

from collections.abc import Sequence

from ...shape_funcs.symbolic.dim import IntLike
from ..builder.build import var
from ..builder.operator_functions import operators
from ..ir.expr import Expr, Function
from .layers import batch_norm, classifier, data, network, nn
from .workload import Workload, create_workload

#: A convolution: channels, window by height and width, padding by height and width, stride.
Step = tuple[int, tuple[int, int], tuple[int, int], int]
_LAYOUT = "NCHW"


def wide(channels: int, height: int, width: int, stride: int = 1, same: bool = True) -> Step:
    """A convolution; ``same``: whether it is padded to keep the size of the image."""
    return channels, (height, width), (height // 2, width // 2) if same else (0, 0), stride


def convolved(x: Expr, steps: Sequence[Step], name: str) -> Expr:
    """Convolutions in a row, each with batch norm and relu."""
    for k, (channels, window, padding, stride) in enumerate(steps):
        part = f"{name}_{k}"
        y = nn.conv2d(x, var(f"{part}_weight"), channels=channels, kernel_size=window, padding=padding, strides=(stride, stride))
        x = nn.relu(batch_norm(y, f"{part}_bn", _LAYOUT, epsilon=1e-3))
    return x


def pooled(x: Expr, kind: str) -> Expr:
    """The mean or largest element of 3 x 3 elements; the largest with a stride of 2."""
    if kind == "avg":
        mean: Expr = nn.avg_pool2d(x, pool_size=(3, 3), padding=(1, 1))
        return mean
    largest: Expr = nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2))
    return largest


def joined(parts: Sequence[Expr]) -> Expr:
    """Branches, channel after channel."""
    together: Expr = operators.concatenate(list(parts), axis=1)
    return together


def module(x: Expr, branches: Sequence[Sequence[Step]], pool: str, projection: Sequence[Step], name: str) -> Expr:
    """Branches of convolutions beside a pool, which ``projection`` may follow."""
    parts = [convolved(x, branch, f"{name}_branch{k}") for k, branch in enumerate(branches)]
    return joined([*parts, convolved(pooled(x, pool), projection, f"{name}_pool")])


def split_module(x: Expr, name: str) -> Expr:
    """The last kind of module, whose branches end in two windows each."""
    halves = [wide(384, 1, 3), wide(384, 3, 1)]
    parts = [convolved(x, [wide(320, 1, 1)], f"{name}_branch0")]
    for k, steps in enumerate(([wide(384, 1, 1)], [wide(448, 1, 1), wide(384, 3, 3)]), 1):
        y = convolved(x, steps, f"{name}_branch{k}")
        parts += [convolved(y, [half], f"{name}_branch{k}_half{h}") for h, half in enumerate(halves)]
    return joined([*parts, convolved(pooled(x, "avg"), [wide(192, 1, 1)], f"{name}_pool")])


def _long(channels: int, last: int) -> list[list[Step]]:
    """Branches with windows of 7 elements along one axis."""
    row, column = (1, 7), (7, 1)
    return [
        [wide(192, 1, 1)],
        [wide(channels, 1, 1), wide(channels, *row), wide(last, *column)],
        [wide(channels, 1, 1), wide(channels, *column), wide(channels, *row), wide(channels, *column), wide(last, *row)],
    ]


def get_net(
    batch_size: IntLike, num_classes: int = 1000, image_shape: tuple[int, int, int] = (3, 299, 299), dtype: str = "float32"
) -> Function:
    """The probabilities of classes for ``data``, a batch of images: ``(batch_size, num_classes)``.

    ``image_shape``: channels, height, width.
    """
    x: Expr = data(batch_size, image_shape, dtype)
    x = convolved(x, [wide(32, 3, 3, 2, same=False), wide(32, 3, 3, same=False), wide(64, 3, 3)], "stem0")
    x = convolved(pooled(x, "max"), [wide(80, 1, 1), wide(192, 3, 3, same=False)], "stem1")
    x = pooled(x, "max")
    for k, channels in enumerate((32, 64, 64)):
        branches = [[wide(64, 1, 1)], [wide(48, 1, 1), wide(64, 5, 5)], [wide(64, 1, 1), wide(96, 3, 3), wide(96, 3, 3)]]
        x = module(x, branches, "avg", [wide(channels, 1, 1)], f"square{k}")
    smaller = [[wide(384, 3, 3, 2, same=False)], [wide(64, 1, 1), wide(96, 3, 3), wide(96, 3, 3, 2, same=False)]]
    x = module(x, smaller, "max", [], "smaller0")
    for k, channels in enumerate((128, 160, 160, 192)):
        x = module(x, _long(channels, 192), "avg", [wide(192, 1, 1)], f"long{k}")
    smaller = [
        [wide(192, 1, 1), wide(320, 3, 3, 2, same=False)],
        [wide(192, 1, 1), wide(192, 1, 7), wide(192, 7, 1), wide(192, 3, 3, 2, same=False)],
    ]
    x = module(x, smaller, "max", [], "smaller1")
    for k in range(2):
        x = split_module(x, f"split{k}")
    return network(classifier(x, num_classes, _LAYOUT))


def get_workload(
    batch_size: IntLike = 1, num_classes: int = 1000, image_shape: tuple[int, int, int] = (3, 299, 299), dtype: str = "float32"
) -> Workload:
    """The network's module and its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
