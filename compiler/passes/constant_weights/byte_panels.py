"""Constant weights of products of bytes, in the panels that tiles of bytes read.

let %y = nn.dense(%x, W, out_dtype="int32");    ->    let %y = nn.dense_byte_panels(%x, P, S);
"""

from __future__ import annotations

import numpy as np

from ....ops.core.tensor_types import TensorType
from ....ops.defs.products.byte_terms import are_bytes
from ....ops.defs.products.nn import DenseAttrs, MatmulAttrs
from ....shape_funcs.defs.products.nn import BYTE_COLUMNS, BYTE_DEPTH
from ...ir.expr import Call, Constant
from .cache_lines import in_lines


def has_byte_weight(value: Call) -> bool:
    """Whether a call is a product of bytes as int32 with a constant weight of signed bytes."""
    if not isinstance(value.attrs, (DenseAttrs, MatmulAttrs)):
        return False
    data, weight = value.args[0].ty, value.args[1]
    if not (isinstance(weight, Constant) and isinstance(data, TensorType) and weight.data.size):
        return False
    return weight.data.dtype == np.int8 and are_bytes((data.dtype, "int8"), value.attrs)


def in_byte_panels(weight: np.ndarray) -> np.ndarray:
    """The rows of ``weight[n, k]`` in panels ``[panels, steps, BYTE_COLUMNS, BYTE_DEPTH]``, padded with zeros."""
    (rows, columns), parts = weight.shape, (BYTE_COLUMNS, BYTE_DEPTH)
    panels, steps = (-(-size // part) for size, part in zip(weight.shape, parts, strict=True))

    def fill(packed: np.ndarray) -> None:
        padded = np.zeros((panels * BYTE_COLUMNS, steps * BYTE_DEPTH), np.int8)
        padded[:rows, :columns] = weight
        packed[:] = padded.reshape(panels, BYTE_COLUMNS, steps, BYTE_DEPTH).transpose(0, 2, 1, 3)

    return in_lines((panels, steps, BYTE_COLUMNS, BYTE_DEPTH), weight.dtype, fill)


def sums_of_rows(weight: np.ndarray) -> np.ndarray:
    """The sum of each row of ``weight[n, k]``, modulo 2**32."""
    sums: np.ndarray = weight.sum(1, dtype=np.int32)
    return sums


def columns_in_byte_panels(weight: np.ndarray) -> np.ndarray:
    """``in_byte_panels`` of ``weight[k, n]``."""
    return in_byte_panels(weight.T)


def sums_of_columns(weight: np.ndarray) -> np.ndarray:
    """``sums_of_rows`` of ``weight[k, n]``."""
    return sums_of_rows(weight.T)
