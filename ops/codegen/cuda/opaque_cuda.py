"""The CUDA program of a group of one OPAQUE operator."""

from __future__ import annotations

from ...core.group import Group
from ...strategy.implementation import GPU
from ..cpu.opaque_kernel import operands, sole_operator
from .cuda_program import CudaSource, OpaqueCall, Operand


class NoCudaKernel(Exception):
    """An operator that does not run on CUDA devices; the message is one line that names the operator."""


def source(group: Group) -> CudaSource:
    """The CUDA program of a group of one OPAQUE node whose results are all its outputs.

    Raises NoCudaKernel, and ValueError for any other group.
    """
    operator, kernel = sole_operator(group), group.kernel_on(GPU)
    if kernel is None or kernel.cuda is None:
        raise NoCudaKernel(f"the operator {operator.name} has no kernel for CUDA devices")
    node, tensors = group.nodes[0], [Operand(place, t.dtype, t.shape, value) for place, t, value in operands(group)]
    split = len(tensors) - len(node.outputs)
    counts = len(group.params) + len(node.outputs) if group.counts else None
    found: CudaSource = kernel.cuda(OpaqueCall(operator.name, node.attrs, tuple(tensors[:split]), tuple(tensors[split:]), counts))
    return found
