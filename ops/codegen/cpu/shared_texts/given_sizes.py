"""Sizes in the texts of generated loop nests that a table may give: kernels that differ in known sizes only are compiled once.

    for i1 in range(56):                            for i1 in range(given_size(0, COUNT)):
        v2 = (i1 * 5376)                                v2 = (i1 * given_size(1, COUNT))
        for i2 in range(96):              ->            for i2 in range(given_size(2, COUNT)):
            x0[uint64(v2 + i2)] = v1                        x0[uint64(v2 + i2)] = v1

The nest keeps the form that was chosen for known sizes.  A size stays in the text where LLVM makes other code of its value: the
bounds of short loops, which are unrolled, and of rows of functions, whose constants would be loaded again in each row; factors in
innermost loops, which are strides of vectors; divisors, but for those of the position of a part; and the number of terms of a sum
in any order, which decides the order.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .....declarations.frozen_dataclass import frozen
from ....native.front_end.nests import has_loops, is_short, statements_of
from ..reduce_inner import calls_interleaved

#: The least size, and the largest number of iterations of an innermost loop that stays; of one that calls a function of many
#: operations.
_LEAST, _SMALL, _SMALL_OF_FUNCTIONS = 2, 32, 256
#: The end of the names of sums in any order.
_ANY_ORDER = "_in_any_order("
#: Arguments of Python's functions that may be sizes, by their positions; those of native functions are of type ``Size``.
_OF_SIZES = {
    **dict.fromkeys(("range", "filled_range", "rest_range"), (0, 1)),
    **dict.fromkeys(("short_range", "sum_range", "filled_short_range", "filled_sum_range"), ()),
    "min": (1,),
    "max": (),
    "float64": (0,),
}
_RUN, _SHORT_LOOPS = "_run", ("short_range", "filled_short_range")
_ARRAY, _LENGTH = "array_", (1,)
#: The number of iterations that threads divide.
_DIVIDED = "pieces"
#: The position of a part of a result, which is divided once for the part.
_OF_PARTS = ("at", "lead")
#: The number of texts that are remembered: layers that differ in literals have one text by now.
_KEPT = 256
#: Nodes that contain no others, most of a text.
_LEAVES = ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop
#: Keyword arguments of convolutions, which are tuples: 1 and 0 stay.
_GEOMETRY = ("stride", "before", "dilation")


@functools.lru_cache(maxsize=_KEPT)
def without_sizes(text: str, bodies: tuple[Callable[..., Any], ...], first: int, most: int) -> tuple[str, tuple[int, ...]]:
    """The text with its sizes replaced by ``given_size(number, COUNT)``, and the sizes; numbers count up from ``first``.

    A text with more than ``most`` sizes keeps them all.  ``bodies``: the functions that it calls.
    """
    lines = text.split("\n")
    parts = [(begin, _found("\n".join(lines[begin:end]), _ANY_ORDER in text, bodies)) for begin, end in _functions(lines)]
    found = [(begin + line, *rest) for begin, sizes in reversed(parts) for line, *rest in sizes]
    if not 0 < len(found) <= most:
        return text, ()
    for k, (line, column, end, _) in enumerate(found):
        own, number = lines[line], first + len(found) - 1 - k
        lines[line] = f"{own[:column]}given_size({number}, COUNT){own[end:]}"
    return "\n".join(lines), tuple(value for *_, value in reversed(found))


def _functions(lines: Sequence[str]) -> list[tuple[int, int]]:
    """The first line and the end of each function of a text, which begins with a decorator if it has one."""
    heads = [n for n, line in enumerate(lines) if line.startswith(("@", "def "))]
    firsts = [0, *(n for n in heads if n and not lines[n - 1].startswith("@"))]
    return list(zip(firsts, [*firsts[1:], len(lines)], strict=True))


@functools.lru_cache(maxsize=_KEPT)
def _found(text: str, sums: bool, bodies: tuple[Callable[..., Any], ...]) -> list[tuple[int, int, int, int]]:
    """The sizes of a function's text, the last first: the line, the columns of the begin and the end, the value.

    Kernels share functions, such as the epilogues of layers.
    """
    sizes = _Sizes(text.split("\n"), sums, {body.__name__: sizes_of(body) for body in bodies})
    for function in ast.parse(text).body:
        has_nest = any(isinstance(node, ast.For) for node in statements_of(function))
        # a text without a nest calls a function written by hand, and has sizes of its elements
        sizes.search(function, _Place(_LEAST if has_nest else _SMALL + 1))
    found = {(n.lineno - 1, n.col_offset, n.end_col_offset or 0, _value(n)) for n in sizes.found}
    return sorted(found, reverse=True)


@frozen
class _Place:
    """The place of a node: the least size there, whether it is in an innermost loop, and the most iterations that this keeps."""

    least: int
    is_innermost: bool = False
    kept: int = _SMALL


class _Sizes:
    """The search for sizes.

    ``lines``: the lines of the text.  ``sums``: whether it has sums in any order, whose number of terms stays.  ``bodies``: the
    positions of sizes among the arguments of functions that the text calls.
    """

    def __init__(self, lines: Sequence[str], sums: bool, bodies: dict[str, tuple[int, ...]]) -> None:
        self.lines, self.sums, self.bodies = lines, sums, bodies
        self.found: list[ast.Constant] = []

    def search(self, node: ast.AST, place: _Place) -> None:
        """Find the sizes of a statement or expression."""
        if isinstance(node, ast.For):
            if is_short(node) or _has_short_runs(node):
                return
            is_innermost = not has_loops(node)
            calls_functions = is_innermost and calls_interleaved(self.lines[node.lineno - 1 : node.end_lineno])
            place = _Place(place.least, is_innermost, _SMALL_OF_FUNCTIONS if calls_functions else _SMALL)
        elif isinstance(node, ast.Call):
            inside = self._of_call(node, place)
            if inside is None:
                return
            place = inside
        elif isinstance(node, ast.BinOp):
            self._take(self._operands(node, place), place.least)
            if _divides(node) and isinstance(node.left, ast.Name) and node.left.id in _OF_PARTS:
                self._take([node.right], place.least)
        elif isinstance(node, ast.Compare):
            self._take((node.left, *node.comparators), place.least)
        elif isinstance(node, ast.Assign) and _name_of(node.targets[0]) == _DIVIDED:
            self._take([node.value], place.least)
        elif isinstance(node, ast.IfExp):
            self._take((node.body, node.orelse), place.least)
        for child in (node.left,) if isinstance(node, ast.BinOp) and _divides(node) else ast.iter_child_nodes(node):
            if not isinstance(child, _LEAVES):
                self.search(child, place)

    def _of_call(self, node: ast.Call, place: _Place) -> _Place | None:
        """Find the sizes among the arguments of a call; the place of what they contain, None for a function without sizes."""
        positions = self._positions(node)
        if positions is None:
            return None
        if not (self.sums and (place.is_innermost or _name(node) == "float64")):
            arguments = (node.args[k] for k in positions if k < len(node.args))
            self._take(arguments, max(place.least, place.kept + 1) if place.is_innermost else place.least)
        for keyword in node.keywords:
            if keyword.arg in _GEOMETRY and isinstance(keyword.value, ast.Tuple):
                self._take(keyword.value.elts, _LEAST)
        # a function that is written by hand has loops of its own
        return _Place(place.least, place.is_innermost and _name(node) not in self.bodies, place.kept)

    def _positions(self, node: ast.Call) -> tuple[int, ...] | None:
        """The positions of the arguments of a call that may be sizes; None for a function that takes no sizes."""
        name = _name(node)
        if name.startswith(_ARRAY):  # a sum is the place of a shape, whose length is a rank
            return () if isinstance(node.args[0], ast.BinOp) and isinstance(node.args[1], ast.Constant) else _LENGTH
        return () if _has_geometry(node) else _OF_SIZES.get(name, self.bodies.get(name) or None)

    def _operands(self, node: ast.BinOp, place: _Place) -> tuple[ast.expr, ...]:
        """The operands that may be sizes."""
        if isinstance(node.op, ast.Mult):
            # a quotient is a number rounded to a multiple
            is_rounded = isinstance(node.left, ast.BinOp) and _divides(node.left)
            return () if place.is_innermost or is_rounded else (node.left, node.right)
        if self.sums:
            return ()
        if isinstance(node.op, ast.Sub):
            return (node.left, node.right)
        return (node.left,) if isinstance(node.op, ast.Add) else ()

    def _take(self, nodes: Iterable[ast.AST], least: int) -> None:
        """Add those that are integers of at least ``least``."""
        self.found += [n for n in nodes if isinstance(n, ast.Constant) and type(n.value) is int and n.value >= least]


def sizes_of(function: Callable[..., Any]) -> tuple[int, ...]:
    """The positions of the parameters of a function that are of type ``Size``."""
    return tuple(n for n, kind in enumerate(function.__annotations__.values()) if kind == "Size")


def _has_geometry(node: ast.Call) -> bool:
    """Whether a call passes the strides of a convolution, itself or in a record."""
    return any(k.arg in _GEOMETRY or (isinstance(k.value, ast.Call) and _has_geometry(k.value)) for k in node.keywords)


def _has_short_runs(node: ast.For) -> bool:
    """Whether a loop is over the runs of a row that has few elements."""
    is_of_runs = isinstance(node.target, ast.Name) and node.target.id.endswith(_RUN)
    return is_of_runs and any(isinstance(each, ast.Name) and each.id in _SHORT_LOOPS for each in ast.walk(node))


def _name(node: ast.Call) -> str:
    """The name of a function that is called; "" of another expression."""
    return _name_of(node.func)


def _name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _divides(node: ast.BinOp) -> bool:
    return isinstance(node.op, (ast.FloorDiv, ast.Mod))


def _value(node: ast.Constant) -> int:
    assert isinstance(node.value, int)
    return node.value
