"""Choose the loop nest of each result of a group for the CPU."""

from __future__ import annotations

from ...core.group import Group
from ..loop_nest.inlining import Nest, nest_of
from ..loop_nest.reduction import fold_dtype
from ..loop_nest.row_passes import folds, rows


def plan(group: Group, ref: int) -> Nest:
    """The loop nest that computes one result.  Raises TooComplex."""
    if not folds(group, ref):
        return nest_of(group, ref)
    found = rows(group, ref, fold_dtype)
    if not found.folds:  # of the reductions only the sizes are read
        return nest_of(group, ref)
    return nest_of(group, ref, columns=True) if found.innermost_kept else found


def plans(group: Group) -> list[Nest]:
    """The loop nest of each result, in order.  Raises TooComplex."""
    return [plan(group, ref) for ref in group.results]
