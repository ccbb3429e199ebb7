"""Innermost loops that only move elements: runs of an operand, contiguous there and in the result.

``native.jit.non_temporal`` moves a run: of a result too large for the caches, whole cache lines are not read before they are
written.
"""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ...core.group import Group
from ..loop_nest.expression import APPLY, AXIS, LOAD
from ..loop_nest.linear_index import Lowered, Table


@frozen
class MovedRun:
    """Element ``i`` of the run, an index of the innermost loop, is moved from ``source + i`` of a parameter to ``target + i``.

    ``source`` and ``target`` are cells, which do not vary along the run.
    """

    param: int
    source: int
    target: int


def moved_run(group: Group, lowered: Lowered) -> MovedRun | None:
    """The run that the innermost loop of a nest moves; None if the loop computes, converts, or reads or writes otherwise."""
    table, cell = lowered.table, lowered.table[lowered.element]
    stored = group.values()[lowered.nest.result]
    if cell.kind != LOAD or lowered.folded or not lowered.extents or group.params[cell.what].dtype != stored.dtype:
        return None
    innermost = len(lowered.extents) - 1
    source, target = (base_of(table, offset, innermost) for offset in (cell.args[0], lowered.offset))
    return None if source is None or target is None else MovedRun(cell.what, source, target)


def base_of(table: Table, offset: int, loop: int) -> int | None:
    """The cell of an offset without the index of the innermost loop, which it contains once, as a term; None if it does not."""
    cell = table[offset]
    if cell.kind == AXIS:
        return table.literal(0) if cell.what == loop else None
    if cell.kind != APPLY or cell.what not in ("add", "subtract"):
        return None
    varying = [k for k, number in enumerate(cell.args) if table.level[number] == loop + 1]
    if len(varying) != 1 or (cell.what == "subtract" and varying != [0]):
        return None
    inner = base_of(table, cell.args[varying[0]], loop)
    if inner is None:
        return None
    return table.apply(cell.what, *(inner if k == varying[0] else number for k, number in enumerate(cell.args)))
