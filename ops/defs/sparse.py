"""Sparse tensors as three dense ones: the indices of the values, the values, the sizes."""

from __future__ import annotations

from typing import Any

from ..core.dtype_rules import INTEGERS, NUMBERS, require, require_same
from ..core.legalize import indices
from ..core.op import Op, OpPattern
from ..kernels.sparse_rows import cpu as bodies
from ..kernels.sparse_rows import cuda as cuda
from ..strategy.implementation import Kernel, Scratch

_NAME = "sparse_fill_empty_rows"
_INPUTS = ("sparse_indices", "sparse_values", "dense_shape", "default_value")


def _rule(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, ...]:
    require(_NAME, dtypes[0], INTEGERS, 0, _INPUTS[0])
    require(_NAME, dtypes[2], NUMBERS, 2, _INPUTS[2])
    return "int64", require_same(_NAME, dtypes, (1, 3), _INPUTS), "int64"


Op(
    name=_NAME,
    doc="The values of a sparse matrix in the order of their rows, with `default_value` at the begin of each row that has none: "
    "their indices, the values, and per row 1 if it had none: "
    "`sparse_fill_empty_rows([[0, 1], [2, 0]], [4, 5], [3, 2], 9) = ([[0, 1], [1, 0], [2, 0]], [4, 9, 5], [0, 1, 0])`; a row "
    "out of range is an error.",
    inputs=_INPUTS,
    pattern=OpPattern.OPAQUE,
    dtype=_rule,
    kernels=(
        Kernel(
            "fill_empty_rows",
            bodies.fill_empty_rows,
            attrs=lambda attrs: {},
            views=("dims", "flat", "skip", "flat", "flat", "flat", "flat"),
            scratch=(Scratch("int64", length=lambda call: call.outputs[2].shape[0]),),
            cuda=cuda.fill_empty_rows,
            refuses=True,
        ),
    ),
    legalization=indices(0, 2),
)
