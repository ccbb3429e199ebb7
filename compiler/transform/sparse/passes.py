"""The passes that make weights sparse, as classes: ``relay.transform.Conv2dToSparse2("NHWC", 3, (16, 1), 0.8)(mod)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....vm.diagnostics.argument_errors import a_count
from ..module_pass import ModulePass, Pass
from ..pass_context import PassInfo
from .block_matrix import checked_blocksize, checked_threshold
from .sparse_weights import checked_layout, checked_weights, conv2d_to_sparse, conv2d_to_sparse_constants, dense_to_sparse


def _dense_to_sparse(weight_name: Sequence[str], weight_shape: Sequence[Sequence[int]]) -> Pass:
    """Each ``nn.dense`` with a parameter ``w`` of these names as ``nn.sparse_dense`` of ``w.data``, ``w.indices``, ``w.indptr``.

    ``weight_shape``: per name the 5 sizes of these tensors.  ``relay.data_dep_optimization.bsr_dense`` finds names and sizes.
    """
    weights = checked_weights(weight_name, weight_shape, "DenseToSparse")
    return ModulePass(lambda mod, context: dense_to_sparse(mod, weights), PassInfo(0, "DenseToSparse", ()))


def _conv2d_to_sparse(weight_name: Sequence[str], weight_shape: Sequence[Sequence[int]], layout: str, kernel_size: int) -> Pass:
    """Each ``nn.conv2d`` with a parameter ``w`` of these names as ``nn.sparse_conv2d``, with a sparse weight as parameters.

    ``weight_shape``: per name the 5 sizes of ``w.data``, ``w.indices`` and ``w.indptr``.  Only convolutions of this layout, NHWC
    or NCHW, with a square window of ``kernel_size``, that keep the picture's size.
    """
    weights = checked_weights(weight_name, weight_shape, "Conv2dToSparse")
    of, size = checked_layout(layout, "Conv2dToSparse"), a_count(kernel_size, "Conv2dToSparse: the kernel_size", least=1)
    return ModulePass(lambda mod, context: conv2d_to_sparse(mod, weights, of, size), PassInfo(0, "Conv2dToSparse", ()))


def _conv2d_to_sparse_2(layout: str, kernel_size: int, blocksize: Sequence[int], sparsity_threshold: float) -> Pass:
    """Each ``nn.conv2d`` with a constant weight, enough of which is zero, as ``nn.sparse_conv2d``.

    ``blocksize``: output channels and elements of the window in a block, which must divide the weight.  ``sparsity_threshold``:
    the least share of zeros, from 0 to 1.  Only convolutions of this layout, NHWC or NCHW, with a square window of
    ``kernel_size``, that keep the picture's size.
    """
    who = "Conv2dToSparse2"
    of, size = checked_layout(layout, who), a_count(kernel_size, f"{who}: the kernel_size", least=1)
    block, share = checked_blocksize(blocksize, who), checked_threshold(sparsity_threshold, who)
    return ModulePass(lambda mod, context: conv2d_to_sparse_constants(mod, of, size, block, share), PassInfo(0, who, ()))


#: The classes by Relay's names.
SPARSE_PASSES: dict[str, Callable[..., Any]] = {
    "Conv2dToSparse": _conv2d_to_sparse,
    "Conv2dToSparse2": _conv2d_to_sparse_2,
    "DenseToSparse": _dense_to_sparse,
}
