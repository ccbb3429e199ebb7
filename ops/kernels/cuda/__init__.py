"""From a group to what runs it on a CUDA device: the CUDA C twin of ``ops.kernels``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...implementation import CARD
from ...op import OpPattern

if TYPE_CHECKING:
    from ...group import Group
    from .source import CudaSource


def cuda_source(group: Group) -> CudaSource:
    """What computes ``group`` on a CUDA device: equal groups have equal sources.

    A group is as for ``kernel_source``.  Raises NoCudaKernel (``cuda.opaque``) for an operator that does not run there.
    """
    # the kernels of OPAQUE operators are imported with the declarations of these, which groups need
    from . import loops, opaque

    patterns = {node.operator.pattern for node in group.nodes}
    assert not patterns & {OpPattern.RESHAPE, OpPattern.MACHINE}, f"{group.name} contains an operator without a kernel"
    if OpPattern.OPAQUE in patterns:
        assert len(group.nodes) == 1, f"{group.name}: an opaque operator is never fused"
        return opaque.source(group)
    return loops.source(group)


def has_kernel(group: Group) -> bool:
    """Does ``group`` run on CUDA devices?  All but OPAQUE operators that say nothing about them do."""
    kernel = group.kernel_on(CARD)
    return not group.nodes[0].operator.kernels or (kernel is not None and kernel.cuda is not None)
