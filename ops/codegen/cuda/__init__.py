"""Generate the CUDA source of a group: the CUDA C twin of ``ops.codegen``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.implementation import GPU
from ...core.op import OpPattern

if TYPE_CHECKING:
    from ...core.group import Group
    from .cuda_program import CudaSource


def cuda_source(group: Group) -> CudaSource:
    """The CUDA program that computes ``group``: equal groups have equal sources.

    A group is as for ``kernel_source``, or an OPAQUE operator and those before it that compute its elements.
    Raises NoCudaKernel (``opaque_cuda``) for an operator without a CUDA kernel.
    """
    # kernels of OPAQUE operators are imported with the operators' declarations, which groups need
    from . import fused_cuda, opaque_cuda

    patterns = {node.operator.pattern for node in group.nodes}
    assert not patterns & {OpPattern.RESHAPE, OpPattern.MACHINE}, f"{group.name} contains an operator without a kernel"
    if OpPattern.OPAQUE in patterns:
        return opaque_cuda.source(group)
    return fused_cuda.source(group)


def has_kernel(group: Group) -> bool:
    """Whether ``group`` runs on CUDA devices: all groups do, except OPAQUE operators that declare no CUDA kernel."""
    kernel = group.kernel_on(GPU)
    return not group.nodes[0].operator.kernels or (kernel is not None and kernel.cuda is not None)
