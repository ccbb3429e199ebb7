"""Operators before an OPAQUE one whose kernel computes the elements of its inputs itself, as in ``argwhere(x > 0)``.

The kernel reads the operands of those operators; their results are never stored (see ``Kernel.elements``).
"""

from __future__ import annotations

from dataclasses import replace

from ....shape_funcs.symbolic.dim import UNKNOWNS, postorder
from ...core.group import Group
from ...core.implementation import GPU
from ...core.op import OpPattern
from .inlining import Nest, TooComplex, nest_of


def before(group: Group) -> Group:
    """The operators before the last as a group without results."""
    return replace(group, nodes=group.nodes[:-1], results=())


def nests(group: Group) -> dict[int, Nest]:
    """The nest of each computed input of the last operator, by its ref.  Raises TooComplex."""
    first = len(group.params) + len(group.literals)
    return {ref: nest_of(before(group), ref) for ref in refs(group) if ref >= first}


def refs(group: Group) -> list[int]:
    """The refs of the last operator's inputs, tuples flattened."""
    return [r for arg in group.nodes[-1].args for r in (arg if isinstance(arg, tuple) else (arg,))]


def fits(group: Group) -> bool:
    """Whether the only kernel for GPUs of the last operator computes its inputs by the operators before it."""
    node, values = group.nodes[-1], group.values()
    kernels, first = node.operator.kernels_on(GPU), len(group.params) + len(group.literals)
    if len(kernels) != 1 or any(isinstance(arg, tuple) for arg in node.args):
        return False
    if group.results != tuple(range(len(values) - len(node.outputs), len(values))):
        return False
    if any(n.operator.pattern > OpPattern.INJECTIVE or len(n.outputs) != 1 for n in group.nodes[:-1]):
        return False
    if not all(k in kernels[0].elements for k, ref in enumerate(node.args) if ref >= first):
        return False
    if not _are_known_at_launch(group):
        return False
    try:
        return bool(nests(group))
    except TooComplex:
        return False


def _are_known_at_launch(group: Group) -> bool:
    """Whether the sizes of the last operator's inputs follow from the sizes of the group's tensors.

    A launch depends on these sizes, and the host that launches has no elements: the length of ``arange(0, n, 1)`` is known
    only from a tensor that has it.
    """
    values = group.values()
    known = {d for t in (*group.params, *(values[r] for r in group.results)) for d in t.shape}
    sizes = [d for ref in refs(group) for d in values[ref].shape]
    return all(d in known or d.op not in UNKNOWNS for d in postorder(sizes, stop=known))
