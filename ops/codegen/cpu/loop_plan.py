"""Choose the loop nest of each result of a group for the CPU."""

from __future__ import annotations

from dataclasses import replace

from ...core.group import Group
from ...core.group_memo import per_group
from ...core.tensor_types import HALVES, computed_in
from ..loop_nest.expression import APPLY, CAST, LOAD, SELECT
from ..loop_nest.inlining import Nest, nest_of
from ..loop_nest.reduction import fold_dtype
from ..loop_nest.row_passes import Rows, folds, rows


def plan(group: Group, ref: int) -> Nest:
    """The loop nest that computes one result.  Raises TooComplex."""
    return plans(group)[group.results.index(ref)]


def plans(group: Group) -> tuple[Nest, ...]:
    """The loop nest of each result, in order.  Raises TooComplex."""
    return _plans(replace(group, implementation="", in_place=(), workspace=False))  # these decide no loop


@per_group
def _plans(group: Group) -> tuple[Nest, ...]:
    return tuple(_plan(group, ref) for ref in group.results)


def _plan(group: Group, ref: int) -> Nest:
    if not folds(group, ref):
        return nest_of(group, ref)
    found = rows(group, ref, fold_dtype)
    if not found.folds:  # of the reductions only the sizes are read
        return nest_of(group, ref)
    return nest_of(group, ref, columns=True) if found.innermost_kept else found


def rounded_by_store(nest: Nest) -> Nest:
    """The nest without a last cast of a float32 to a half: the store of a half rounds, and would round again."""
    last = nest.cells[nest.element]
    is_folded = nest.reduces and not isinstance(nest, Rows)
    if is_folded or last.kind != CAST or last.dtype not in HALVES:
        return nest
    computed = nest.cells[last.args[0]]
    if computed.kind not in (APPLY, CAST, LOAD, SELECT) or computed_in(computed.dtype) != "float32" or computed.dtype in HALVES:
        return nest
    return replace(nest, element=last.args[0])
