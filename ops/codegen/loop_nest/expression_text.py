"""Cells as text of a programming language.  Placement of the text is left to ``statements.Writer``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ...core.tensor_types import is_float, is_integer
from .expression import APPLY, CAST, LITERAL, LOAD, SELECT, Cell, Cells
from .scalar_functions import SCALAR_FUNCTIONS, cast_text, literal_text

#: The statements of a branch, and the text of its value.
Side = tuple[list[str], str]


class Language(ABC):
    """The statements and expressions of one language, as text."""

    @abstractmethod
    def let(self, name: str, cell: Cell, text: str) -> list[str]:
        """A new local ``name`` for the value ``text`` of ``cell``."""

    @abstractmethod
    def choice(self, name: str, dtype: str, condition: str, then: Side, otherwise: Side) -> list[str]:
        """A new local that holds the value of one of two branches; only the chosen branch runs."""

    @abstractmethod
    def guard(self, condition: str, status: int) -> list[str]:
        """Return ``status`` unless ``condition`` holds."""

    @abstractmethod
    def literal(self, value: float | int | bool, dtype: str) -> str:
        """A constant."""

    @abstractmethod
    def load(self, array: str, offset: str) -> str:
        """An element of an array."""

    @abstractmethod
    def cast(self, value: str, source: str, result: str) -> str:
        """A value of dtype ``source`` as ``result``."""

    @abstractmethod
    def apply(self, function: str, args: list[str], argument: str, result: str) -> str:
        """A scalar function of arguments of the dtype ``argument``."""

    @abstractmethod
    def select(self, condition: str, then: str, otherwise: str) -> str:
        """A select of two values that are already computed."""

    @abstractmethod
    def size(self, operation: str, args: Sequence[str]) -> str:
        """An operation of dims (see ``shape_funcs.symbolic.dim``) on int64 values; a float64 bit pattern becomes the float64."""

    def constant(self, cell: Cell) -> str:
        """The text of a literal cell."""
        value = cell.what == "True" if cell.dtype == "bool" else float(cell.what) if "float" in cell.dtype else int(cell.what)
        return self.literal(value, cell.dtype)

    def expression(self, cell: Cell, args: list[str], cells: Cells, array: Callable[[int], str]) -> str:
        """The text of a cell whose arguments are ``args``; ``array`` gives the name of a parameter's elements."""
        if cell.kind == LOAD:
            return self.load(array(cell.what), args[0])
        if cell.kind == CAST:
            return self.cast(args[0], cells[cell.args[0]].dtype, cell.dtype)
        if cell.kind == SELECT:
            return self.select(*args)
        assert cell.kind == APPLY, cell
        return self.apply(cell.what, args, cells[cell.args[0]].dtype, cell.dtype)


def is_limited(cells: Cells, number: int) -> bool:
    """Whether a cell is a float that literals limit to the range of int32, or NaN."""
    bounds: dict[str, float] = {}
    while is_float(cells[number].dtype) and cells[number].kind == APPLY and cells[number].what in ("minimum", "maximum"):
        function, (first, second) = cells[number].what, cells[number].args
        if cells[second].kind != LITERAL:
            break
        bounds.setdefault(function, float(cells[second].what))
        number = first
    return bounds.get("maximum", -math.inf) >= -(2.0**31) and bounds.get("minimum", math.inf) <= _MOST_WHOLE


#: The functions that LLVM computes in float16, one by one, where it finds a float16 in front of them and one after them.
_SHRUNK = ("round", "trunc")


def _is_of_float16(cells: Cells, number: int) -> bool:
    """Whether a cell is a float16, or a float32 that was one."""
    cell = cells[number]
    return cell.dtype == "float16" or (cell.kind == CAST and cell.dtype == "float32" and cells[cell.args[0]].dtype == "float16")


class Python(Language):
    """Python in the subset of native functions.  ``leave``: statements that precede a return."""

    def __init__(self, leave: Sequence[str] = ()) -> None:
        self.leave = tuple(leave)

    def let(self, name: str, cell: Cell, text: str) -> list[str]:
        return [f"{name} = {text}"]

    def choice(self, name: str, dtype: str, condition: str, then: Side, otherwise: Side) -> list[str]:
        lines = []
        for head, (inside, value) in ((f"if {condition}:", then), ("else:", otherwise)):
            lines += [head, *indented(inside), f"    {name} = {value}"]
        return lines

    def guard(self, condition: str, status: int) -> list[str]:
        return [f"if not {condition}:", *indented([*self.leave, f"return {status}"])]

    def literal(self, value: float | int | bool, dtype: str) -> str:
        return literal_text(value, dtype)

    def load(self, array: str, offset: str) -> str:
        return element_of(array, offset)

    def cast(self, value: str, source: str, result: str) -> str:
        return cast_text(value, source, result)

    def apply(self, function: str, args: list[str], argument: str, result: str) -> str:
        return SCALAR_FUNCTIONS[function].python(args, argument, result)

    def select(self, condition: str, then: str, otherwise: str) -> str:
        return f"({then} if {condition} else {otherwise})"

    def expression(self, cell: Cell, args: list[str], cells: Cells, array: Callable[[int], str]) -> str:
        if cell.kind == CAST and is_integer(cell.dtype) and is_limited(cells, cell.args[0]):
            # a vector of int32 is converted by one instruction, one of int64 by several
            return self.cast(f"int32({args[0]})", "int32", cell.dtype)
        if cell.kind == APPLY and cell.what in _SHRUNK and _is_of_float16(cells, cell.args[0]):
            return super().expression(cell, [f"settled({args[0]})"], cells, array)
        return super().expression(cell, args, cells, array)

    def size(self, operation: str, args: Sequence[str]) -> str:
        return _PYTHON_SIZES[operation].format(*args)


#: The largest float32 in the range of int32.
_MOST_WHOLE = 2.0**31 - 2.0**7
#: The operations of dims, as text (see ``shape_funcs.symbolic.int_operations.SCALAR``).
_PYTHON_SIZES = {
    "mul": "{0} * {1}",
    "floordiv": "({0} // {1} if {1} != 0 else 0)",
    "mod": "({0} % {1} if {1} != 0 else 0)",
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "eq": "(1 if {0} == {1} else 0)",
    "lt": "(1 if {0} < {1} else 0)",
    "where": "({1} if {0} != 0 else {2})",
    "arange_length": "max(0, int64(math.ceil(({1} - {0}) / {2})))",
    "scaled": "(int64(math.floor({0} * {1})) if {1} > 0.0 else 0)",
}


def indented(lines: list[str], by: int = 1) -> list[str]:
    """The lines, ``by`` levels deeper."""
    return ["    " * by + line for line in lines]


def loops_around(
    regions: list[list[str]], extents: list[str], innermost: list[str], first: int = 0, ranges: str = "range"
) -> list[str]:
    """Python loops around ``innermost``; ``regions[k]`` is in the k-th loop.  The loop variables count from ``first`` on.

    ``ranges``: the function whose result the innermost loop iterates over.
    """
    lines = innermost
    for k in reversed(range(len(extents))):
        inside = regions[k + 1] if k + 1 < len(regions) else []
        called = ranges if k == len(extents) - 1 else "range"
        lines = [f"for i{first + k} in {called}({extents[k]}):", *indented([*inside, *lines])]
    return [*(regions[0] if regions else []), *lines]


def zero_if_empty(extents: list[str]) -> list[str]:
    """The extents of nested loops; the outermost extent becomes 0 if an inner loop is empty: an empty tensor may have an axis
    of 2**60."""
    inner = " and ".join(f"{e} > 0" for e in extents[1:] if not e.isdigit() or int(e) == 0)
    return [f"({extents[0]} if {inner} else 0)", *extents[1:]] if inner else extents


def unless_empty(extents: list[str], lines: list[str]) -> list[str]:
    """Python statements that run only if no loop is empty."""
    return [f"if {' and '.join(f'{e} > 0' for e in extents)}:", *indented(lines)] if extents else lines


def element_of(array: str, offset: str) -> str:
    """An element of an array in Python: the index is unsigned, because a negative index counts from the end."""
    return f"{array}[{offset if offset.isdigit() else f'uint64({offset})'}]"
