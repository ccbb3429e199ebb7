"""What a kernel on the processor does for each result of a group."""

from __future__ import annotations

from ..group import Group
from .composition import Nest, nest_of
from .folding import fold_dtype
from .rows import folds, rows


def plan(group: Group, ref: int) -> Nest:
    """The loops that compute one result.  Raises TooComplex."""
    if not folds(group, ref):
        return nest_of(group, ref)
    found = rows(group, ref, fold_dtype)
    return nest_of(group, ref, columns=True) if found.innermost_kept else found


def plans(group: Group) -> list[Nest]:
    """The loops of each result, in order.  Raises TooComplex."""
    return [plan(group, ref) for ref in group.results]
