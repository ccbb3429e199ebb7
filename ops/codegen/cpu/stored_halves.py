"""Float32s that a kernel rounds to bfloat16 by fewer instructions, because more is known of them.

A float32 is a bfloat16 already where a function selects among such numbers, or makes an integer of one.  A NaN of numbers of
bfloat16 has no bits that a bfloat16 lacks: an operation on floats gives the NaN that it was given, or one of no other bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...core.group import Group
from ...core.tensor_types import EXACT, SHORT_NANS, Tensor, is_float
from ..loop_nest.expression import APPLY, CAST, GUARD, LITERAL, LOAD, SELECT, Cell, Cells
from ..loop_nest.scalar_functions import SCALAR_FUNCTIONS
from .loop_plan import plan, rounded_by_store

_HALF = "bfloat16"
#: Integers of which every number is a bfloat16, and the dtypes that have all numbers of bfloat16.
_FEW, _WIDER = ("int8", "uint8"), ("float32", "float64")


def stored_halves(group: Group) -> Mapping[int, str]:
    """The end of the name of the array of each result of which something is known, by its position."""
    found, are_short = {}, has_short_nans(group.params)
    for number, ref in enumerate(group.results):
        if group.values()[ref].dtype == _HALF:
            nest = rounded_by_store(plan(group, ref))
            known = EXACT if not nest.reduces and is_exact(nest.cells, nest.element) else SHORT_NANS if are_short else ""
            found[len(group.params) + number] = f"_{known}" if known else ""
    return found


def has_short_nans(operands: Sequence[Tensor]) -> bool:
    """Whether no float is wider than a bfloat16."""
    return all(t.dtype == _HALF for t in operands if is_float(t.dtype))


def stored_sums(operands: Sequence[Tensor], result: Tensor) -> str:
    """The end of the name of an array of sums of products of the operands, on which operators of the operands follow."""
    return f"_{SHORT_NANS}" if result.dtype == _HALF and has_short_nans(operands) else ""


def is_exact(cells: Cells, number: int) -> bool:
    """Whether a cell is a bfloat16, whatever the inputs are."""
    pending, seen = [number], set[int]()
    while pending:
        number = pending.pop()
        cell = cells[number]
        if number in seen or cell.dtype == "bool" or _is_given(cell):
            continue
        seen.add(number)
        if cell.kind in (SELECT, GUARD) or (cell.kind == CAST and cell.dtype in _WIDER):
            pending += cell.args
        elif cell.kind == APPLY and is_float(cell.dtype) and SCALAR_FUNCTIONS[cell.what].exact:
            pending += _rounded_away(cells, cell) or cell.args
        else:
            return False
    return True


def _is_given(cell: Cell) -> bool:
    """Whether a cell is a bfloat16 by itself."""
    if cell.kind == LITERAL:
        return is_float(cell.dtype) and int(np.float32(float(cell.what)).view(np.uint32)) & 0xFFFF == 0
    return (cell.kind in (LOAD, CAST) and cell.dtype == _HALF) or (cell.kind == LOAD and cell.dtype in _FEW)


def _rounded_away(cells: Cells, cell: Cell) -> tuple[int, ...]:
    """The number that ``cell`` rounds to the nearest integer, halves away from 0; none for another function."""
    (whole,) = cell.args if cell.what == "trunc" else (0,)
    return cells[whole].args if cells[whole].what == "away_by_almost_half" else ()
