"""Groups that only move halves, as groups that move words of 16 bits: no element is converted, and no bit changes."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...core.group import Group, Literal
from ...core.op import OpPattern, TypeRelError
from ...core.tensor_types import HALVES, Tensor
from .expression import APPLY, GUARD, LITERAL, LOAD, SELECT, Cell, Cells
from .inlining import nests

#: The dtype of a half as a word.
WORD = "uint16"
#: The function that chooses one of two elements.
_WHERE = "where"


def in_words(group: Group) -> Group:
    """The group with words in the place of halves, if its elements of halves are elements of its inputs; else the group itself.

    Raises TooComplex.
    """
    if not any(t.dtype in HALVES for t in group.params) or any(n.operator.pattern is OpPattern.COMM_REDUCE for n in group.nodes):
        return group
    if any(literal.dtype in HALVES and repr(literal.value) != repr(0.0) for literal in group.literals):
        return group
    if not all(_moves(nest.cells, nest.element) for nest in nests(group)):
        return group

    def word(tensor: Tensor) -> Tensor:
        return Tensor(WORD, tensor.shape) if tensor.dtype in HALVES else tensor

    nodes = tuple(type(n)(n.op, _of_words(n.attrs), n.args, tuple(map(word, n.outputs))) for n in group.nodes)
    made = Group(
        tuple(map(word, group.params)),
        tuple(Literal(WORD, 0) if literal.dtype in HALVES else literal for literal in group.literals),
        nodes,
        group.results,
        group.implementation,
        group.in_place,
        group.workspace,
    )
    return made if _takes_words(made) else group


def _takes_words(group: Group) -> bool:
    """Whether the operators accept the dtypes of their inputs: some of floats only choose among elements and zeros."""
    try:
        nests(group)
    except TypeRelError:
        return False
    return True


def _of_words(attrs: Any) -> Any:
    """The attributes with words where they state halves, as the dtype of a result."""
    stated = {name: WORD for name, value in vars(attrs).items() if isinstance(value, str) and value in HALVES}
    return dataclasses.replace(attrs, **stated) if stated else attrs


def _is_zero(cell: Cell) -> bool:
    """Whether a cell is the number 0, whose bits are those of the word 0."""
    return cell.kind == LITERAL and cell.what == repr(0.0)


def _moves(cells: Cells, element: int) -> bool:
    """Whether halves among the cells are loaded, chosen and 0 only; a result without halves may be computed of other dtypes."""
    chosen, pending = set[int](), [element]
    while pending:
        number = pending.pop()
        chosen.add(number)
        cell = cells[number]
        if cell.kind in (SELECT, GUARD) or (cell.kind == APPLY and cell.what == _WHERE):
            pending += cell.args[1:]
        elif cell.kind != LOAD and cell.dtype in HALVES and not _is_zero(cell):
            return False
    return all(cells[number].dtype not in HALVES for number in cells.reached((element,)) - chosen)
