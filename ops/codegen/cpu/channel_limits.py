"""An epilogue that multiplies and shifts each channel and limits the sums: arguments of the kernel, which then stores results.

A pass of its own over results, even over results in the first cache, takes longer than a few instructions more before a vector of
sums is stored.  A body that takes ``factor`` and ``addend`` stores ``min(max(sum * factor[channel] + addend[channel], lowest),
highest)`` if ``is_limited`` is true, and does not call ``finish`` for these results.  ``is_scaled`` and ``is_shifted`` tell
whether there is a factor and an addend; otherwise the array is not read.  A body without ``factor`` stores sums with an addend
and bounds alone.  Unless sums are limited, the bounds are infinite, and nothing is read.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...core.group import Group
from ...core.group_memo import per_group
from ..loop_nest.expression import APPLY, AXIS, LITERAL, LOAD, Cell
from ..loop_nest.linear_index import Lowered, Table
from .epilogue import changes_dtype, lowered

#: The parameters of a body that stores limited results; a body without the first one stores them where sums have no factor.
FACTOR, ADDEND = "factor", "addend"
#: The dtypes whose sums are limited in vector registers.
_DTYPES = ("float32", "float64")


@frozen
class Limits:
    """The epilogue: the parameters of the group with a factor and with an addend for each channel, or None; the bounds."""

    factor: int | None
    addend: int | None
    low: float = -math.inf
    high: float = math.inf


def arguments(group: Group, taken: Collection[str], other: str) -> tuple[list[str], list[str], dict[str, Any]]:
    """For a body that takes the parameters ``taken``: statements that define FACTOR and ADDEND, these of them, and constants.

    ``other``: an array of the dtype of the sums, for parameters that are not read.
    """
    limits = limits_of(group) if group.has_epilogue else None
    if limits is not None and FACTOR not in taken and (limits.factor is not None or limits.addend is None):
        limits = None
    given = {FACTOR: limits.factor if limits else None, ADDEND: limits.addend if limits else None}
    lines = [f"{name} = {_array(group, param, other)}" for name, param in given.items() if name in taken]
    constants = {"lowest": limits.low if limits else -math.inf, "highest": limits.high if limits else math.inf}
    flags = {"is_limited": limits is not None, "is_scaled": given[FACTOR] is not None, "is_shifted": given[ADDEND] is not None}
    return lines, [name for name in given if name in taken], {**constants, **flags}


def _array(group: Group, param: int | None, other: str) -> str:
    """The text of the array of a parameter; ``other`` for None."""
    if param is None:
        return other
    tensor, given = f"tensor(load_i64(argv + {8 * param}))", group.params[param]
    size = " * ".join(f"{tensor}.shape[{axis}]" for axis in range(len(given.shape)))
    return f"array_{given.dtype}({tensor}.data, {size})"


@per_group
def limits_of(group: Group) -> Limits | None:
    """The limits that are the whole epilogue of ``group``; None for any other epilogue, such as one that changes the dtype."""
    if changes_dtype(group):
        return None
    loops = lowered(group)
    number, high = _bound(loops.table, loops.element, "minimum", math.inf)
    number, low = _bound(loops.table, number, "maximum", -math.inf)
    if loops.table[number].dtype not in _DTYPES or math.isnan(low) or math.isnan(high):
        return None
    number, addend = _channel_operand(loops, number, "add", group)
    number, factor = _channel_operand(loops, number, "multiply", group)
    cell = loops.table[number]
    return Limits(factor, addend, low, high) if cell.kind == LOAD and cell.what == len(group.params) else None


def _channel_operand(loops: Lowered, number: int, function: str, group: Group) -> tuple[int, int | None]:
    """The operand of ``function`` that is no parameter by channels, and the other one; ``number`` and None for any other cell."""
    cell = loops.table[number]
    if cell.kind == APPLY and cell.what == function:
        for own, other in (cell.args, cell.args[::-1]):
            if _is_by_channel(loops, loops.table[other], len(group.params)):
                return own, loops.table[other].what
    return number, None


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
