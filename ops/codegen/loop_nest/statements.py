"""Write cells as statements with loop-invariant code motion: outside all loops, and inside all branches, that allow it."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from .expression import AXIS, GUARD, LITERAL, LOCAL, SELECT, SIZE, Cell
from .expression_text import Language, Python
from .linear_index import Table


@dataclass
class Branch:
    """A branch of a select (without ``parent``: the statements outside all branches), with the names of its cells."""

    parent: Branch | None = None
    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    depth: int = 0  # of a branch: the deepest region whose names it uses


def always_evaluated(table: Table, root: int) -> set[int]:
    """All cells that are evaluated whenever ``root`` is evaluated."""
    return _always_evaluated(table, root, {})


def _always_evaluated(table: Table, root: int, done: dict[int, set[int]]) -> set[int]:
    if root not in done:
        done[root] = _reached(table, root, lambda number: False, done)
    return done[root]


def _reached(table: Table, root: int, known: Callable[[int], bool], done: dict[int, set[int]]) -> set[int]:
    """The cells, except ``known`` ones, that are evaluated whenever ``root`` is.  ``done``: a cache."""
    found: set[int] = set()
    stack = [root]
    while stack:
        number = stack.pop()
        if number in found or known(number):
            continue
        found.add(number)
        cell = table[number]
        if cell.kind == SELECT and not table.movable[number]:
            # exactly one branch is evaluated: a cell that both branches need is always evaluated
            stack.append(cell.args[0])
            stack += _always_evaluated(table, cell.args[1], done) & _always_evaluated(table, cell.args[2], done)
        elif cell.kind == GUARD:
            stack.append(cell.args[0])
        else:
            stack += cell.args
    return found


class Writer:
    """Writes cells into ``regions``: number 0 precedes the loops, number k is in the k-th loop.

    ``hoisted``: whether a statement that may fail is outside the innermost loop; then no loop may be empty.
    """

    def __init__(self, table: Table, depth: int, context: KernelContext) -> None:
        self.table, self.context, self.language = table, context, context.language
        self.regions: list[list[str]] = [[] for _ in range(depth + 1)]
        self.top = Branch()
        self.region: dict[int, int] = {}  # the region of each named cell of the top scope
        self.hoisted = False
        self._always_of: dict[int, set[int]] = {}

    def value(self, root: int, scope: Branch | None = None, floor: int = 0) -> str:
        """The text of a cell, after all cells it needs are written.  ``floor``: the region of a guard that must come first."""
        scope = scope or self.top
        for number in sorted(self._needed(root, scope)):
            self._write(number, scope, floor)
        return self._name(root, scope)

    # ---- needed cells ----------------------------------------------------------------------------------------------------

    def _needed(self, root: int, scope: Branch) -> set[int]:
        """The cells without a name yet that are evaluated whenever ``root`` is."""
        return _reached(self.table, root, lambda number: self._find(number, scope) is not None, self._always_of)

    def _find(self, number: int, scope: Branch) -> str | None:
        inner: Branch | None = scope
        while inner is not None:
            if number in inner.names:
                return inner.names[number]
            inner = inner.parent
        return None

    def _name(self, number: int, scope: Branch) -> str:
        found = self._find(number, scope)
        assert found is not None
        inner = scope
        while inner.parent is not None:
            inner.depth = max(inner.depth, self.region.get(number, 0))
            inner = inner.parent
        return found

    # ---- writing ---------------------------------------------------------------------------------------------------------

    def _write(self, number: int, scope: Branch, floor: int) -> None:
        cell = self.table[number]
        if self._find(number, scope) is not None:
            return
        if cell.kind in (LITERAL, AXIS, SIZE, LOCAL):
            self.top.names[number] = self._leaf(cell)
            self.region[number] = self.table.level[number]
        elif cell.kind == GUARD:
            self._guard(number, scope, floor)
        elif cell.kind == SELECT and not self.table.movable[number]:
            self._choice(number, scope, floor)
        else:
            name = self.context.fresh()
            movable = self.table.movable[number]
            at = self.top if movable else scope
            # a movable cell needs no guard
            region = self._region(number, 0 if movable else floor)
            args = [self._name(a, at) for a in cell.args]
            text = self.language.expression(cell, args, self.table, self.context.array)
            self._place(self.language.let(name, cell, text), at, region, movable)
            at.names[number], self.region[number] = name, region

    def _leaf(self, cell: Cell) -> str:
        if cell.kind == LITERAL:
            return self.language.constant(cell)
        if cell.kind == AXIS:
            return f"i{cell.what}"
        return str(cell.what) if cell.kind == LOCAL else self.context.size(cell.what)

    def _guard(self, number: int, scope: Branch, floor: int) -> None:
        condition, value = self.table[number].args
        text = self._name(condition, scope)
        floor = max(floor, self._region(condition, 0), self.region.get(condition, 0))
        self._place(self.language.guard(text, self.table[number].what), scope, floor)
        scope.names[number] = self.value(value, scope, floor)
        self.region[number] = max(floor, self.region.get(value, 0))

    def _choice(self, number: int, scope: Branch, floor: int) -> None:
        cell = self.table[number]
        condition, name = self._name(cell.args[0], scope), self.context.fresh()
        sides, region = [], self._region(number, floor)
        for side in cell.args[1:]:
            branch = Branch(scope)
            value = self.value(side, branch, floor)
            sides.append((branch.lines, value))
            region = max(region, branch.depth)
        lines = self.language.choice(name, cell.dtype, condition, *sides)
        self._place(lines, scope, region)
        scope.names[number], self.region[number] = name, region

    def _region(self, number: int, floor: int) -> int:
        """The outermost loop region in which a cell can be computed, at ``floor`` or deeper."""
        return max(floor, self.table.level[number], *(self.region.get(a, 0) for a in self.table[number].args), 0)

    def _place(self, lines: list[str], scope: Branch, region: int, movable: bool = False) -> None:
        """Append lines to the region, or to the branch."""
        if scope.parent is not None:
            scope.lines += lines
            return
        self.regions[region] += lines
        self.hoisted |= region + 1 < len(self.regions) and not movable


class KernelContext:
    """The context of a whole kernel: names, sizes and arrays.  ``size`` and ``array`` give the name of a local."""

    def __init__(self, size: Callable[..., str], array: Callable[[int], str], language: Language | None = None) -> None:
        self.size, self.array, self.language = size, array, language or Python()
        self.partitioned = False  # whether the outer loops are partitioned between threads
        self._numbers = itertools.count(1)

    def fresh(self) -> str:
        """A new name."""
        return f"v{next(self._numbers)}"

    def with_language(self, language: Language) -> KernelContext:
        """The same kernel, with the same names, in another language."""
        other = copy.copy(self)
        other.language = language
        return other
