"""A generator of images from random vectors: transposed convolutions that double the size."""

from __future__ import annotations

from ...shape_funcs.symbolic.dim import IntLike
from ...vm.diagnostics.argument_errors import wrong
from ..builder.operator_functions import operators
from ..ir.expr import Expr, Function
from .layers import batch_norm, conv2d_transpose, data, dense, is_last, network, nn
from .workload import Workload, create_workload

#: Factors of the numbers of channels between the layers; each layer doubles the size of the image.
_FACTORS = (8, 4, 2, 1)


def doubled(x: Expr, channels: int, name: str, layout: str) -> Expr:
    """``x`` at twice its height and width."""
    return conv2d_transpose(x, channels, 4, name, layout, strides=2, padding=1)


def get_net(
    batch_size: IntLike, random_len: int = 100, oshape: tuple[int, int, int] = (3, 64, 64), ngf: int = 128,
    layout: str = "NCHW", dtype: str = "float32",
) -> Function:  # fmt: skip
    """Images for ``data``, a batch of vectors of ``random_len`` elements: ``(batch_size, *oshape)`` in ``layout``.

    ``oshape``: channels, height, width of the images, both sizes multiples of 16; ``ngf``: the least number of channels between
    layers.  Raises ArgumentError.
    """
    channels, height, width = oshape
    if height % 16 or width % 16 or not height or not width:
        raise wrong("dcgan: the height and the width in oshape", "multiples of 16", oshape)
    first = (height // 16, width // 16)
    filters = ngf * _FACTORS[0]
    shape = (-1, *first, filters) if is_last(layout) else (-1, filters, *first)
    x = dense(data(batch_size, (random_len,), dtype), filters * first[0] * first[1], "g1")
    x = nn.relu(batch_norm(operators.reshape(x, newshape=shape), "gbn1", layout))
    for k, factor in enumerate(_FACTORS[1:], 2):
        x = nn.relu(batch_norm(doubled(x, ngf * factor, f"g{k}", layout), f"gbn{k}", layout))
    return network(operators.tanh(doubled(x, channels, "g5", layout)))


def get_workload(
    batch_size: IntLike, oshape: tuple[int, int, int] = (3, 64, 64), ngf: int = 128, random_len: int = 100,
    layout: str = "NCHW", dtype: str = "float32",
) -> Workload:  # fmt: skip
    """The network's module and its parameters."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, layout, dtype))
