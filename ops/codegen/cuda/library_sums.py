"""Sums after a product that its library computes while it stores the result: a matrix of the result's shape, a vector by columns.

The group of a product and such sums runs as one call of the library (``Kernel.adds``).  Without an algorithm of the library the
product is stored first, and a generated kernel adds the rest in place.
"""

from __future__ import annotations

from ...core.group import Group, Node
from ...core.group_memo import per_group
from ...core.implementation import GPU
from ...strategy.choice import candidates
from .cuda_program import Sums


@per_group
def sums(group: Group) -> Sums | None:
    """The sums of a group after its product; None if the group is no product with sums that a library may compute."""
    if not group.has_epilogue or len(group.nodes[0].outputs) != 1 or not any(k.adds for k in candidates(group.call_on(GPU))):
        return None
    shape, value = group.nodes[0].outputs[0].shape, len(group.params) + len(group.literals)
    matrix = vector = None
    for node in group.nodes[1:]:
        other = _other(node, value)
        if other is None or other >= len(group.params):
            return None
        of = group.params[other].shape
        if node.op == "add" and of == shape and matrix is None:
            matrix = other
        elif of == shape[-1:] and vector is None and (node.op == "add" or node.attrs.axis in (-1, len(shape) - 1)):
            vector = other
        else:
            return None
        value += 1
    is_whole = group.results == (value,) and all(node.outputs[0] == group.nodes[0].outputs[0] for node in group.nodes)
    return Sums(matrix, vector) if is_whole else None


def _other(node: Node, value: int) -> int | None:
    """The tensor that a node adds to the value; None if the node is no such sum."""
    if node.op == "nn.bias_add":
        return int(node.args[1]) if node.args[0] == value else None
    if node.op != "add" or value not in node.args or node.args[0] == node.args[1]:
        return None
    return int(node.args[1] if node.args[0] == value else node.args[0])
