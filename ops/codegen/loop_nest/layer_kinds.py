"""Kinds of layers: groups that differ in scales and zero points have the same loops, and are analysed once."""

from __future__ import annotations

from dataclasses import replace

from ...core.group import Group, Literal
from ...core.group_memo import per_group
from .expression import OF_LITERALS

#: The dtypes of scales and zero points; the numbers that stand for them count up from this one.
_SCALES, _FIRST = ("float32", "int8", "uint8", "int32"), 11


@per_group
def of_its_kind(group: Group) -> Group:
    """The group with other numbers as literals: layers with scales and zero points of their own are analysed once.

    The numbers of a literal decide how it is written, but not which loops compute it.  They stay where a shape or an index may
    depend on them, and beside operators of which some literals make another function.
    """
    numbers = tuple(replace(x, value=type(x.value)(_FIRST + k)) if _is_scale(x) else x for k, x in enumerate(group.literals))
    if numbers == group.literals or any(node.op in OF_LITERALS or any(node.operator.data_dependent) for node in group.nodes):
        return group
    return replace(group, literals=numbers)


def _is_scale(literal: Literal) -> bool:
    """Whether a literal may be the scale or the zero point of a layer, and not 0."""
    return literal.dtype in _SCALES and literal.value != 0
