"""``relay.data_dep_optimization.bsr_dense``: a function and its weights, with sparse weights of ``nn.dense``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.expr import Call, Function
from .sparse_parameters import with_sparse_parameters
from .sparse_weights import dense_to_sparse


def convert(
    func: Function, params: Mapping[str, Any], blocksize: Sequence[int], sparsity_threshold: float
) -> tuple[Function, dict[str, np.ndarray]]:
    """The function after ``DenseToSparse``, and the weights ``params`` by name, a sparse ``w`` as ``w.data``, ``w.indices``,
    ``w.indptr``.

    A weight is sparse if it consists of blocks of ``blocksize`` and its share of zeros is at least ``sparsity_threshold``.
    Raises ArgumentError.
    """

    def matrix_of(call: Call, weight: np.ndarray) -> np.ndarray | None:
        return weight if weight.ndim == 2 else None

    blocks = (blocksize, sparsity_threshold)
    return with_sparse_parameters("bsr_dense.convert", func, params, blocks, "nn.dense", matrix_of, dense_to_sparse)
