"""Elementwise operators after a product that a kernel for few rows computes of each element that it has stored.

The group of a product and such operators is one primitive (``Kernel.follows``).  At other sizes a generated kernel computes them
in place after the library's product, as it would if they were a primitive of their own.
"""

from __future__ import annotations

from dataclasses import replace

from ...core.group import Group
from ...core.group_memo import per_group
from ...core.implementation import GPU
from ...core.op import OpPattern
from ...strategy.choice import candidates
from ..cpu.epilogue import elementwise
from ..loop_nest.expression import LOAD
from ..loop_nest.inlining import TooComplex, nest_of
from ..loop_nest.linear_index import is_elementwise
from .library_sums import sums


def in_place(group: Group) -> Group:
    """The operators after the product as a group of their own, over the product: its last parameter."""
    return replace(elementwise(group), in_place=((len(group.params), 0),))


def runs_whole(group: Group) -> bool:
    """Whether a product and the operators after it are one primitive on GPUs: sums of a library, or operators as here."""
    return sums(group) is not None or fits(group)


@per_group
def fits(group: Group) -> bool:
    """Whether the group is a product and operators that read each of its elements for the same element of the result."""
    node, *others = group.nodes
    if not group.has_epilogue or len(node.outputs) != 1 or not any(k.follows for k in candidates(group.call_on(GPU))):
        return False
    if any(len(n.outputs) != 1 or n.operator.kernels or n.operator.pattern > OpPattern.INJECTIVE for n in others):
        return False
    values = group.values()
    if group.results != (len(values) - 1,) or values[-1] != node.outputs[0]:
        return False
    try:
        nest = nest_of(after := in_place(group), after.results[0])
    except TooComplex:
        return False
    product = len(group.params)
    return all(is_elementwise(nest, cell) for cell in nest.cells.table if cell.kind == LOAD and cell.what == product)
