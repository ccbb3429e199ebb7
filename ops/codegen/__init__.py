"""Generate the source of a group's kernel."""

from __future__ import annotations

from ..core.group import Group
from ..core.implementation import GPU, HOST
from ..core.op import OpPattern
from .cpu.kernel_source import KernelSource


def kernel_source(group: Group) -> KernelSource:
    """The source of the kernel that computes ``group``: equal groups have equal sources.

    A group is any number of fusable operators, or an OPAQUE one and fusable ones that its kernel applies to its result (see
    ``cpu.epilogue``); an operator that only changes the shape has no kernel.
    """
    from .cpu import fused_kernel, opaque_kernel

    patterns = {node.operator.pattern for node in group.nodes}
    assert not patterns & {OpPattern.RESHAPE, OpPattern.MACHINE}, f"{group.name} contains an operator without a kernel"
    if OpPattern.OPAQUE in patterns:
        return opaque_kernel.source(group)
    return fused_kernel.source(group)


def fits(group: Group, machine: str = HOST) -> bool:
    """Whether a group is simple enough for one kernel of ``machine``; ``kernel_source`` rejects any other group.

    A group of fusable operators is too complex if one result element needs very many elements of an inner value, each computed
    separately.  Operators after an OPAQUE one must be an epilogue that its kernels apply while the result is cached; on GPUs,
    sums that a library computes, or elementwise operators that a kernel for few rows computes.  Operators before an OPAQUE one
    must be elements that its kernel for GPUs computes itself.
    """
    from .cpu import epilogue
    from .cpu.loop_plan import plans
    from .cuda import following
    from .loop_nest import element_inputs
    from .loop_nest.inlining import TooComplex

    if group.has_prologue:
        return machine == GPU and element_inputs.fits(group)
    if group.has_epilogue and machine == GPU:
        return following.runs_whole(group)
    if group.has_epilogue:
        return epilogue.fits(group) and epilogue.pays(group)
    try:
        plans(group)
    except TooComplex:
        return False
    return True
