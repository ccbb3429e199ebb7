"""Elements that are rounded to bytes, at the end of ``qnn.quantize``: their numbers among the cells.

Of the cells of a number those that vary along a run are parts of it, vectors (see ``quantised_run``); the others are scalars.
"""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ...core.tensor_types import int_range
from .expression import APPLY, AXIS, CAST, LITERAL, LOAD, LOCAL, Cell, Cells
from .quantised_run import larger_part, smaller_part

#: The dtypes of bytes.
_BYTES = ("int8", "uint8")


@frozen
class QuantisedNumber:
    """A byte: the float32 ``number``, a cell, rounded, halves to the even one, plus ``zero_point``, limited to its range.

    ``steps``: the cells from the number to the byte.
    """

    number: int
    zero_point: int
    steps: frozenset[int]


@frozen
class RunParts:
    """The cells of a number that are parts of a run: ``parts``.

    ``rounded``: those that are bytes in the middle of it, with their zero points; ``steps``: those on the way to these.
    """

    parts: frozenset[Cell]
    rounded: dict[Cell, int]
    steps: frozenset[Cell]


def quantised_number(cells: Cells, element: int) -> QuantisedNumber | None:
    """The number of an element; None for an element that is no such byte."""
    cell = cells[element]
    if cell.kind != CAST or cell.dtype not in _BYTES:
        return None
    low, high = int_range(cell.dtype)
    most, limited = _with_literal(cells, cells[cell.args[0]], "minimum")
    least, moved = _with_literal(cells, cells[limited], "maximum")
    if most != high or least is None or int(least) != low or least > low:
        return None
    zero_point, rounded = _with_literal(cells, cells[moved], "add")
    if zero_point is None:
        zero_point, rounded = 0.0, moved
    whole = cells[rounded]
    if whole.kind != APPLY or whole.what != "round" or whole.dtype != "float32":
        return None
    if not zero_point.is_integer() or not low <= zero_point <= high:
        return None
    steps = frozenset((cell.args[0], limited, moved, rounded))
    return QuantisedNumber(whole.args[0], int(zero_point), steps)


def _with_literal(cells: Cells, cell: Cell, function: str) -> tuple[float | None, int]:
    """The literal that is the second argument of a function of float32, and the first argument; None for another cell."""
    if cell.kind != APPLY or cell.what != function or cell.dtype != "float32" or cells[cell.args[1]].kind != LITERAL:
        return None, 0
    return float(cells[cell.args[1]].what), cell.args[0]


#: The functions of parts that take a scalar beside them, and all functions of parts, as text.
_BESIDE_SCALARS = {"maximum": larger_part.__name__, "minimum": smaller_part.__name__}
FUNCTIONS = {
    **{
        name: f"({{0}} {operator} {{1}})"
        for name, operator in zip(("add", "subtract", "multiply", "divide"), "+-*/", strict=True)
    },
    **{name: f"{function}({{0}}, {{1}})" for name, function in _BESIDE_SCALARS.items()},
}
#: The dtypes of elements that parts are read from, and of those that functions take.
_READ, _COMPUTED = ("float32", "int32", *_BYTES), ("float32", "int32")


def parts_of(cells: Cells, number: int, run: int) -> RunParts | None:
    """The cells of a number that are parts of a run, the loop ``run``; None if one of them is no text of vectors."""
    varying = dict[int, bool]()
    for at in sorted(cells.reached([number])):
        cell = cells[at]
        own = cell.kind == LOCAL or (cell.kind == AXIS and cell.what == run)
        varying[at] = own or any(varying[a] for a in cell.args)
    reached, bytes_between, todo = set[int](), dict[int, QuantisedNumber](), [number]
    while todo:
        at = todo.pop()
        if not varying[at] or at in reached:
            continue
        reached.add(at)
        found = quantised_number(cells, at)
        if found:
            bytes_between[at] = found
            todo.append(found.number)
        else:
            todo += () if cells[at].kind == LOAD else cells[at].args  # the place of a load is a word
    steps = frozenset(step for found in bytes_between.values() for step in found.steps)
    if reached & steps or not all(at in bytes_between or _is_part(cells, cells[at], varying) for at in reached):
        return None
    rounded = {cells[at]: found.zero_point for at, found in bytes_between.items()}
    return RunParts(frozenset(cells[at] for at in reached), rounded, frozenset(cells[at] for at in steps))


def _is_part(cells: Cells, cell: Cell, varying: dict[int, bool]) -> bool:
    """Whether a cell that varies along a run is text of vectors."""
    if cell.kind in (LOAD, LOCAL):
        return cell.dtype in _READ
    if cell.kind == CAST:
        before = cells[cell.args[0]].dtype
        return (cell.dtype == "float32" and before in _READ) or (cell.dtype == "int32" and before in _BYTES)
    if cell.kind != APPLY or cell.what not in FUNCTIONS or cell.dtype not in _COMPUTED:
        return False
    if cell.dtype == "int32" and cell.what == "divide":
        return False
    return cell.what not in _BESIDE_SCALARS or (cell.dtype == "float32" and not varying[cell.args[1]])
