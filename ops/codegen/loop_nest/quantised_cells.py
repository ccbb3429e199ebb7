"""Elements that are rounded to bytes, at the end of ``qnn.quantize``: their numbers among the cells.

Of the cells of a number those that vary along a run are parts of it, vectors (see ``quantised_run``); the others are scalars.
"""

from __future__ import annotations

from ....declarations.frozen_dataclass import frozen
from ...core.tensor_types import int_range
from .expression import APPLY, AXIS, CAST, LITERAL, LOAD, LOCAL, Cell, Cells
from .quantised_run import larger_part, smaller_part

#: The dtypes of bytes.
BYTES = ("int8", "uint8")


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

    ``rounded``: those that are bytes in the middle of it, with their zero points; ``looked_up``: those that are elements of a
    table, at the place of a part, with the last place; ``steps``: those on the way to these.
    """

    parts: frozenset[Cell]
    rounded: dict[Cell, int]
    looked_up: dict[Cell, int]
    steps: frozenset[Cell]


@frozen
class LookUp:
    """An element of a table: at the int32 ``index``, a cell, limited to 0 to ``last``.

    ``steps``: the cells from the index to the place.
    """

    index: int
    last: int
    steps: frozenset[int]


def quantised_number(cells: Cells, element: int) -> QuantisedNumber | None:
    """The number of an element; None for an element that is no such byte."""
    cell = cells[element]
    if cell.kind != CAST or cell.dtype not in BYTES:
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


def look_up(cells: Cells, element: int) -> LookUp | None:
    """The look-up that an element is; None for another element, and for a table of unknown size."""
    cell = cells[element]
    if cell.kind != LOAD or cell.dtype != "int32":
        return None
    last, limited = _with_integer(cells, cell.args[0], "minimum")
    least, wide = _with_integer(cells, limited, "maximum")
    if last is None or least != 0 or not 0 <= last <= int_range("int32")[1] or cells[wide].kind != CAST:
        return None
    index = cells[wide].args[0]
    if cells[index].dtype != "int32":
        return None
    return LookUp(index, last, frozenset((cell.args[0], limited, wide)))


def _with_integer(cells: Cells, number: int, function: str) -> tuple[int | None, int]:
    """As ``_with_literal``, of int64."""
    cell = cells[number]
    if cell.kind != APPLY or cell.what != function or cell.dtype != "int64":
        return None, number
    return cells.integer(cell.args[1]), cell.args[0]


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
_READ, _COMPUTED = ("float32", "int32", *BYTES), ("float32", "int32")


def parts_of(cells: Cells, number: int, run: int) -> RunParts | None:
    """The cells of a number that are parts of a run, the loop ``run``; None if one of them is no text of vectors."""
    varying, summed = dict[int, bool](), set[int]()
    for at in sorted(cells.reached([number])):
        cell = cells[at]
        if cell.kind == LOCAL or any(a in summed for a in cell.args):
            summed.add(at)
        own = cell.kind == LOCAL or (cell.kind == AXIS and cell.what == run)
        varying[at] = own or any(varying[a] for a in cell.args)
    bytes_between, looked_up = dict[int, QuantisedNumber](), dict[int, LookUp]()
    reached, todo = set[int](), [number]
    while todo:
        at = todo.pop()
        if not varying[at] or at in reached:
            continue
        reached.add(at)
        if found := quantised_number(cells, at):
            bytes_between[at] = found
            todo.append(found.number)
        elif at in summed and (element := look_up(cells, at)):
            looked_up[at] = element
            todo.append(element.index)
        else:
            todo += () if cells[at].kind == LOAD and at not in summed else cells[at].args  # the place of a load is a word
    steps = frozenset[int]().union(*(found.steps for found in bytes_between.values()), *(e.steps for e in looked_up.values()))
    others = reached - bytes_between.keys() - looked_up.keys()
    if reached & steps or not all(_is_part(cells, cells[at], varying) for at in others):
        return None
    rounded = {cells[at]: found.zero_point for at, found in bytes_between.items()}
    last = {cells[at]: element.last for at, element in looked_up.items()}
    return RunParts(frozenset(cells[at] for at in reached), rounded, last, frozenset(cells[at] for at in steps))


def _is_part(cells: Cells, cell: Cell, varying: dict[int, bool]) -> bool:
    """Whether a cell that varies along a run is text of vectors."""
    if cell.kind in (LOAD, LOCAL):
        return cell.dtype in _READ
    if cell.kind == CAST:
        before = cells[cell.args[0]].dtype
        return (cell.dtype == "float32" and before in _READ) or (cell.dtype == "int32" and before in BYTES)
    if cell.kind != APPLY or cell.what not in FUNCTIONS or cell.dtype not in _COMPUTED:
        return False
    if cell.dtype == "int32" and cell.what == "divide":
        return False
    return cell.what not in _BESIDE_SCALARS or (cell.dtype == "float32" and not varying[cell.args[1]])
