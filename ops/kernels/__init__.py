"""From a group to the source of its kernel."""

from __future__ import annotations

from ..group import Group
from ..op import OpPattern
from .source import KernelSource


def kernel_source(group: Group) -> KernelSource:
    """The source of the kernel that computes ``group``: equal groups have equal sources.

    A group is one OPAQUE operator or any number of fusable ones; an operator that only changes the shape has no kernel.
    """
    from . import loops, opaque

    patterns = {node.operator.pattern for node in group.nodes}
    assert not patterns & {OpPattern.RESHAPE, OpPattern.MACHINE}, f"{group.name} contains an operator without a kernel"
    if OpPattern.OPAQUE in patterns:
        assert len(group.nodes) == 1, f"{group.name}: an opaque operator is never fused"
        return opaque.source(group)
    return loops.source(group)


def fits(group: Group) -> bool:
    """Is a group of fusable operators simple enough for one kernel?  Else it must be split: ``kernel_source`` refuses it.

    It is not when one element of the result takes very many elements of an inner value, each computed for itself.
    """
    from .composition import TooComplex
    from .plan import plans

    try:
        plans(group)
    except TooComplex:
        return False
    return True
