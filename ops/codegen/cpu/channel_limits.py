"""An epilogue that adds a number to each channel and limits the sums: arguments of the kernel, which then stores results.

A pass of its own over results, even over results in the first cache, takes longer than two or three instructions more before a
vector of sums is stored.  A body that takes ``addend`` stores ``min(max(sum + addend[channel], lowest), highest)`` if
``is_limited``, a constant, is true, and does not call ``finish`` for these results.  Otherwise the bounds are infinite, and
``addend`` is not read.
"""

from __future__ import annotations

import math
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...core.group import Group
from ...core.group_memo import per_group
from ..loop_nest.expression import APPLY, AXIS, LITERAL, LOAD, Cell
from ..loop_nest.linear_index import Lowered, Table
from .epilogue import changes_dtype, lowered

#: The parameter of a body that stores limited results.
ADDEND = "addend"
#: The dtypes whose sums are limited in vector registers.
_DTYPES = ("float32", "float64")


@frozen
class Limits:
    """The epilogue: ``param``, the parameter of the group with an addend for each channel, and the bounds of the results."""

    param: int
    low: float = -math.inf
    high: float = math.inf


def arguments(group: Group, other: str) -> tuple[list[str], dict[str, Any]]:
    """Statements that define ADDEND, and the constants of a body that takes it; ``other``: an array of the dtype of the sums."""
    limits = limits_of(group) if group.has_epilogue else None
    if limits is None:
        return [f"{ADDEND} = {other}"], {"lowest": -math.inf, "highest": math.inf, "is_limited": False}
    tensor, given = f"tensor(load_i64(argv + {8 * limits.param}))", group.params[limits.param]
    size = " * ".join(f"{tensor}.shape[{axis}]" for axis in range(len(given.shape)))
    constants = {"lowest": limits.low, "highest": limits.high, "is_limited": True}
    return [f"{ADDEND} = array_{given.dtype}({tensor}.data, {size})"], constants


@per_group
def limits_of(group: Group) -> Limits | None:
    """The limits that are the whole epilogue of ``group``; None for any other epilogue, such as one that changes the dtype."""
    if changes_dtype(group):
        return None
    loops = lowered(group)
    number, high = _bound(loops.table, loops.element, "minimum", math.inf)
    number, low = _bound(loops.table, number, "maximum", -math.inf)
    total = loops.table[number]
    if total.kind != APPLY or total.what != "add" or total.dtype not in _DTYPES or math.isnan(low) or math.isnan(high):
        return None
    for own, other in (total.args, total.args[::-1]):
        cell = loops.table[own]
        if cell.kind == LOAD and cell.what == len(group.params) and _is_by_channel(loops, loops.table[other], len(group.params)):
            return Limits(loops.table[other].what, low, high)
    return None


def _bound(table: Table, number: int, function: str, without: float) -> tuple[int, float]:
    """The cell that ``function`` limits by a literal, and the literal; ``number`` and ``without`` for any other cell."""
    cell = table[number]
    if cell.kind == APPLY and cell.what == function:
        for limited, bound in (cell.args, cell.args[::-1]):
            if table[bound].kind == LITERAL and table[limited].kind != LITERAL:
                return limited, float(table[bound].what)
    return number, without


def _is_by_channel(loops: Lowered, cell: Cell, params: int) -> bool:
    """Whether a cell is an element of a parameter for each index of the last axis before the runs."""
    if cell.kind != LOAD or cell.what >= params or len(loops.extents) < 2:
        return False
    at = loops.table[cell.args[0]]
    return at.kind == AXIS and at.what == len(loops.extents) - 2
