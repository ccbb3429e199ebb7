"""Constant weights of products of bytes, in the panels that tiles of bytes read.

    let %y = nn.dense(%x, W, out_dtype="int32");    ->    let %y = nn.dense_byte_panels(%x, P, S);
"""

from __future__ import annotations

import numpy as np

from ....ops.core.op import Op
from ....ops.core.tensor_types import TensorType
from ....ops.defs.products.nn import DenseAttrs, MatmulAttrs, are_bytes
from ....shape_funcs.defs.products.nn import BYTE_COLUMNS, BYTE_DEPTH
from ...ir.expr import Call, Constant, Expr


def byte_weight_of(value: Expr) -> np.ndarray | None:
    """The constant weight ``[n, k]`` of a product of bytes whose first matrix is not transposed; None for any other value."""
    if not (isinstance(value, Call) and isinstance(value.op, Op) and isinstance(value.attrs, (DenseAttrs, MatmulAttrs))):
        return None
    data, weight, attrs = value.args[0].ty, value.args[1], value.attrs
    if not (isinstance(weight, Constant) and isinstance(data, TensorType) and weight.data.size):
        return None
    if weight.data.dtype != np.int8 or not are_bytes((data.dtype, "int8"), attrs):
        return None
    return weight.data if isinstance(attrs, DenseAttrs) or attrs.transpose_b else weight.data.T


def in_byte_panels(weight: np.ndarray) -> np.ndarray:
    """The rows of ``weight[n, k]`` in panels ``[panels, steps, BYTE_COLUMNS, BYTE_DEPTH]``, padded with zeros."""
    parts = BYTE_COLUMNS, BYTE_DEPTH
    padded = np.pad(weight, [(0, -size % part) for size, part in zip(weight.shape, parts, strict=True)])
    panels, steps = (size // part for size, part in zip(padded.shape, parts, strict=True))
    return np.ascontiguousarray(padded.reshape(panels, BYTE_COLUMNS, steps, BYTE_DEPTH).transpose(0, 2, 1, 3))


def column_sums(weight: np.ndarray) -> np.ndarray:
    """The sum of each row of ``weight[n, k]``, modulo 2**32."""
    return weight.sum(1, dtype=np.int32)


def turned(weight: np.ndarray) -> np.ndarray:
    """``in_byte_panels`` of ``weight[k, n]``."""
    return in_byte_panels(weight.T)


def turned_sums(weight: np.ndarray) -> np.ndarray:
    """``column_sums`` of ``weight[k, n]``."""
    return column_sums(weight.T)
