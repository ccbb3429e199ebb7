"""``relay.data_dep_optimization.bsr_conv2d``: a function and its weights, with sparse weights of ``nn.conv2d``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....vm.diagnostics.argument_errors import a_count
from ...ir.expr import Call, Function, IRModule
from .sparse_parameters import with_sparse_parameters
from .sparse_weights import Sizes, checked_layout, conv2d_to_sparse, is_plain_kernel, weight_matrix


def convert(
    func: Function, params: Mapping[str, Any], blocksize: Sequence[int], sparsity_threshold: float, layout: str = "NHWC",
    kernel_size: int = 1,
) -> tuple[Function, dict[str, np.ndarray]]:  # fmt: skip
    """The function after ``Conv2dToSparse``, and the weights ``params`` by name, a sparse ``w`` as ``w.data``, ``w.indices``,
    ``w.indptr``.

    A weight, as a matrix with a row for each output channel, is sparse if it consists of blocks of ``blocksize`` and its share of
    zeros is at least ``sparsity_threshold``.  Raises ArgumentError.
    """
    who = "bsr_conv2d.convert"
    of, size = checked_layout(layout, who), a_count(kernel_size, f"{who}: the kernel_size", least=1)

    def run(mod: IRModule, sizes: Mapping[str, Sizes]) -> IRModule:
        return conv2d_to_sparse(mod, sizes, of, size)

    def matrix_of(call: Call, weight: np.ndarray) -> np.ndarray | None:
        plain = weight.ndim == 4 and is_plain_kernel(call.attrs.kernel_layout)
        return weight_matrix(weight, call.attrs.kernel_layout) if plain else None

    blocks = (blocksize, sparsity_threshold)
    return with_sparse_parameters(who, func, params, blocks, "nn.conv2d", matrix_of, run)
