"""Groups that only move halves, as groups that move words of 16 bits: no element is converted, and no bit changes."""

from __future__ import annotations

from ...core.group import Group, Node
from ...core.op import OpPattern
from ...core.tensor_types import HALVES, Tensor
from .expression import GUARD, LOAD, SELECT, Cells
from .inlining import nests

#: The dtype of a half as a word.
_WORD = "uint16"


def in_words(group: Group) -> Group:
    """The group with words in the place of halves, if its elements of halves are elements of its inputs; else the group itself.

    Raises TooComplex.
    """
    if not any(t.dtype in HALVES for t in group.params) or any(map(_needs_values, group.nodes)):
        return group
    if any(literal.dtype in HALVES for literal in group.literals):  # an operand beside words would be a half
        return group
    if not all(_moves(nest.cells, nest.element) for nest in nests(group)):
        return group

    def word(tensor: Tensor) -> Tensor:
        return Tensor(_WORD, tensor.shape) if tensor.dtype in HALVES else tensor

    nodes = tuple(type(n)(n.op, n.attrs, n.args, tuple(map(word, n.outputs))) for n in group.nodes)
    return Group(
        tuple(map(word, group.params)),
        group.literals,
        nodes,
        group.results,
        group.implementation,
        group.in_place,
        group.workspace,
    )


def _needs_values(node: Node) -> bool:
    """Whether an operator folds elements, or states a dtype of its own, such as a cast."""
    return node.operator.pattern is OpPattern.COMM_REDUCE or not set(HALVES).isdisjoint(map(str, vars(node.attrs).values()))


def _moves(cells: Cells, element: int) -> bool:
    """Whether halves among the cells are loaded and chosen only; a result without halves may be computed of other dtypes."""
    chosen, pending = set[int](), [element]
    while pending:
        number = pending.pop()
        chosen.add(number)
        cell = cells[number]
        if cell.kind in (SELECT, GUARD):
            pending += cell.args[1:]
        elif cell.kind != LOAD and cell.dtype in HALVES:
            return False
    return all(cells[number].dtype not in HALVES for number in cells.reached((element,)) - chosen)
