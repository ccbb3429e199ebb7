"""Several neighbouring elements at once: what lies side by side in memory is read by one access."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ty import ITEMSIZE
from ..addresses import Lowered, Table
from ..expression import APPLY, AXIS, GUARD, LITERAL, LOAD, Cell
from ..writer import always
from .language import PACK, PICK

#: Bytes of one access.
ACCESS = 16
#: A longer element is not written out several times.
MAX_CELLS = 250


@dataclass(frozen=True)
class Packed:
    """An element as a function of two loops: the innermost one now counts packs' first elements, one more counts in a pack.

    ``first``: the elements of a pack; ``width`` of them.
    """

    table: Table
    element: int
    width: int


def packed(lowered: Lowered, stored: str | None = None) -> Packed | None:
    """``lowered`` in packs along its innermost loop, whose extent must be a multiple of the width; None where that is no use.

    ``stored``: the dtype in which packs of results are stored, if they are.
    """
    depth = len(lowered.extents)
    if depth == 0 or len(lowered.table) > MAX_CELLS:
        return None
    certain = _certain(lowered.table, lowered.element, depth - 1)
    loads = [lowered.table[n] for n in certain if lowered.table[n].kind == LOAD]
    sizes = [ITEMSIZE[d] for d in (*(x.dtype for x in loads), *([stored] if stored else []))]
    if not sizes:
        return None
    table = Table(lowered.table.scalars)
    pass_ = _Pass(lowered.table, table, depth - 1, certain)
    for number in range(len(lowered.table)):
        pass_.put(number)
    if not stored and not any(cell.kind == PACK for cell in table.table):
        return None
    return Packed(table, pass_.new[lowered.element], max(4, ACCESS // max(sizes)))


def _certain(table: Table, element: int, axis: int) -> set[int]:
    """The cells that are evaluated for all elements of a pack, if they are for one; but for failures, that is for every one."""
    found, stack, done = set[int](), [element], set[int]()
    while stack:
        root = stack.pop()
        done.add(root)
        found |= always(table, root)
        for number in sorted(found):
            cell = table[number]
            if cell.kind == GUARD and cell.args[1] not in done and not _depends(table, cell.args[0], axis):
                done.add(cell.args[1])
                stack.append(cell.args[1])
    return found


def _depends(table: Table, root: int, axis: int) -> bool:
    """Is the value of a cell another at another index of the loop ``axis``?"""
    stack, seen = [root], set[int]()
    while stack:
        number = stack.pop()
        if number not in seen:
            seen.add(number)
            if table[number].kind == AXIS and table[number].what == axis:
                return True
            stack += table[number].args
    return False


class _Pass:
    """Copies cells into ``table``; of each it knows what it is at the first element of a pack, and how far it is from there
    to the next element, where that is the same everywhere."""

    def __init__(self, old: Table, table: Table, axis: int, certain: set[int]) -> None:
        self.old, self.table, self.axis, self.certain = old, table, axis, certain
        self.new: list[int] = []
        self.first: list[int] = []
        self.distance: list[int | None] = []

    def put(self, number: int) -> None:
        """Copy the next cell."""
        cell, table = self.old[number], self.table
        distance = self._distance(cell)
        self.distance.append(distance)
        if cell.kind == AXIS and cell.what == self.axis:
            within = table.put(Cell(AXIS, "int64", (), self.axis + 1))
            self.first.append(table.put(cell))
            self.new.append(table.apply("add", self.first[-1], within))
            return
        self.first.append(table.put(replace(cell, args=tuple(self.first[a] for a in cell.args))))
        if distance is not None and table.integer(distance) == 0:
            self.new.append(self.first[-1])
            return
        step = self.distance[cell.args[0]] if cell.kind == LOAD else None
        if step is None or number not in self.certain:
            self.new.append(table.put(replace(cell, args=tuple(self.new[a] for a in cell.args))))
            return
        pack = table.put(Cell(PACK, cell.dtype, (self.first[cell.args[0]], step), cell.what))
        within = table.put(Cell(AXIS, "int64", (), self.axis + 1))
        self.new.append(table.put(Cell(PICK, cell.dtype, (pack, within))))

    def _distance(self, cell: Cell) -> int | None:
        """A cell: by how much this one grows from one element to the next."""
        table = self.table
        if cell.kind == AXIS:
            return table.literal(int(cell.what == self.axis))
        if cell.kind == LITERAL:
            return table.literal(0)
        steps = [self.distance[a] for a in cell.args]
        if all(s is not None and table.integer(s) == 0 for s in steps):
            return table.literal(0)
        if None in steps or cell.kind != APPLY or cell.dtype != "int64" or len(steps) != 2:
            return None
        a, b = (s for s in steps if s is not None)
        if cell.what in ("add", "subtract"):
            return table.apply(cell.what, a, b)
        if cell.what == "multiply" and 0 in (table.integer(a), table.integer(b)):
            other = self.first[cell.args[0 if table.integer(a) == 0 else 1]]
            return table.apply("multiply", b if table.integer(a) == 0 else a, other)
        return None
