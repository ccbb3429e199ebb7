"""Convolutions and matrix products with a constant weight, and constants that vary along the channels only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....ops.core.tensor_types import TensorType
from ....ops.defs.convolution.conv import Conv1dAttrs, Conv2dAttrs, Conv3dAttrs
from ....ops.defs.products.nn import BatchMatmulAttrs, DenseAttrs, MatmulAttrs
from ....shape_funcs.symbolic.dim import const
from ...ir.expr import Call, Constant, Expr

#: The dtypes of weights that are scaled.
DTYPES = ("float32", "float64")


@frozen
class WeightedProduct:
    """A product with a constant weight; ``axis``, ``weight_axis``: the axis of the ``size`` channels in its result and in the
    weight."""

    weight: np.ndarray
    axis: int
    weight_axis: int
    size: int


def _convolution(call: Call, rank: int) -> tuple[int, int]:
    layout = call.attrs.out_layout or call.attrs.data_layout
    return layout.index("C"), call.attrs.kernel_layout.index("O")


#: By the attributes of the operator: the axis of the channels in the result of a given rank, and in the weight.
_AXES: dict[type, Callable[[Call, int], tuple[int, int]]] = {
    Conv1dAttrs: _convolution,
    Conv2dAttrs: _convolution,
    Conv3dAttrs: _convolution,
    DenseAttrs: lambda call, rank: (rank - 1, 0),
    MatmulAttrs: lambda call, rank: (rank - 1, 0 if call.attrs.transpose_b else 1),
    BatchMatmulAttrs: lambda call, rank: (rank - 1, 1 if call.attrs.transpose_b else 2),
}


def product_of(value: Expr) -> WeightedProduct | None:
    """``value`` as a product with a scalable weight."""
    weight = weight_of(value)
    if weight is None or not isinstance(value, Call) or not isinstance(value.ty, TensorType):
        return None
    axis, weight_axis = _AXES[type(value.attrs)](value, value.ty.rank)
    size = const(value.ty.shape[axis])
    return WeightedProduct(weight, axis, weight_axis, size) if size and weight.shape[weight_axis] == size else None


def weight_of(value: Expr) -> np.ndarray | None:
    """The constant weight of a convolution or matrix product in a dtype of ``DTYPES``; None for any other value."""
    if not (isinstance(value, Call) and type(value.attrs) in _AXES and isinstance(value.ty, TensorType)):
        return None
    weight = value.args[1]
    if not isinstance(weight, Constant) or value.ty.dtype not in DTYPES or weight.data.dtype.name != value.ty.dtype:
        return None
    return weight.data


def per_channel(atom: Expr, channels: int, size: int, rank: int) -> np.ndarray | None:
    """A constant as one number for each of ``size`` channels, or one for all; None if it varies along another axis than
    ``channels``, or is no constant."""
    if not isinstance(atom, Constant) or atom.data.ndim > rank:
        return None
    shape = (1,) * (rank - atom.data.ndim) + atom.data.shape
    if any(n != 1 for axis, n in enumerate(shape) if axis != channels) or shape[channels] not in (1, size):
        return None
    return atom.data.astype(np.float64).reshape(-1)


def constant_like(data: np.ndarray, like: Expr) -> Constant:
    """The data as a typed constant at the place of another."""
    data.flags.writeable = False
    return Constant(data, span=like.span, ty=TensorType.of_array(data))
