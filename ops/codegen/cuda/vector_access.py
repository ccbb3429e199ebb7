"""Vectorised access: contiguous neighbouring elements are loaded and stored by one access."""

from __future__ import annotations

from collections.abc import Sequence

from ....declarations.frozen_dataclass import frozen
from ...core.group import Group
from ...core.tensor_types import ITEMSIZE
from ..loop_nest.expression import APPLY, AXIS, GUARD, LITERAL, LOAD, Cell
from ..loop_nest.inlining import Nest
from ..loop_nest.linear_index import Lowered, Table
from ..loop_nest.statements import always_evaluated
from .cuda_text import PACK, PICK

#: Bytes per access.
ACCESS = 16
#: The largest number of cells of an element that is unrolled.
MAX_CELLS = 250


@frozen
class Packed:
    """An element as a function of two loops: a loop now counts packs, and one more, inside all, counts the elements of a pack.

    ``first``: the elements of a pack; ``width`` of them.
    """

    table: Table
    element: int
    width: int

    @property
    def loads(self) -> list[Cell]:
        """The loads of packs."""
        return [cell for cell in self.table.table if cell.kind == PACK]

    @property
    def is_plain(self) -> bool:
        """Whether the addresses of all packs are known without a read of memory."""
        return all(self.table.movable[a] for cell in self.loads for a in cell.args)


def packed(lowered: Lowered, stored: str | None = None, width: int = 0, axis: int | None = None) -> Packed | None:
    """``lowered`` in packs along loop ``axis``, whose extent must be a multiple of the width; None if not profitable.

    ``stored``: the dtype in which packs of results are stored, if they are.  ``width``: the elements of a pack, whatever the
    profit; 0 for as many as the accesses hold.  ``axis``: the innermost loop if None.
    """
    depth = len(lowered.extents)
    if depth == 0 or len(lowered.table) > MAX_CELLS:
        return None
    axis = depth - 1 if axis is None else axis
    always_loaded = _always_loaded(lowered.table, lowered.element, axis)
    loads = [lowered.table[n] for n in always_loaded if lowered.table[n].kind == LOAD]
    sizes = [ITEMSIZE[d] for d in (*(x.dtype for x in loads), *([stored] if stored else []))]
    if not sizes and not width:
        return None
    table = Table(lowered.table.scalars)
    vectorizer = _Vectorizer(lowered.table, table, axis, depth, always_loaded)
    for number in range(len(lowered.table)):
        vectorizer.put(number)
    if not stored and not width and not any(cell.kind == PACK for cell in table.table):
        return None
    return Packed(table, vectorizer.new[lowered.element], width or max(4, ACCESS // max(sizes)))


def whole_rows(group: Group, nest: Nest, axis: int) -> bool:
    """Whether the last index of every operand that varies along loop ``axis`` is that loop's, on an axis of the loop's extent.

    Then packs along the loop are contiguous, and aligned where the extent is a multiple of their width and operands are aligned.
    """
    cells = nest.cells
    loads = [c for c in cells.table if c.kind == LOAD and axis in cells.axes(c.args)]
    return all(
        cells[c.args[-1]].kind == AXIS
        and axis not in cells.axes(c.args[:-1])
        and group.params[c.what].shape[-1] == nest.dims[axis]
        for c in loads
    )


def are_one_axis(group: Group, nest: Nest, loops: Sequence[int]) -> bool:
    """Whether ``loops`` are the last indices of each operand that varies along them, and of nothing else, over whole axes.

    Then the index of the last of these loops may be that of all of them together, and the others 0.
    """
    cells = nest.cells.table
    indices = {n for n, c in enumerate(cells) if c.kind == AXIS and c.what in loops}
    for cell in cells:
        if not indices & set(cell.args):
            continue
        if cell.kind != LOAD or not indices.isdisjoint(cell.args[: -len(loops)]):
            return False
        last, dims = cell.args[-len(loops) :], group.params[cell.what].shape[-len(loops) :]
        if [cells[a].what if a in indices else None for a in last] != list(loops):
            return False
        if dims != tuple(nest.dims[k] for k in loops):
            return False
    return True


def _always_loaded(table: Table, element: int, axis: int) -> set[int]:
    """The cells that are evaluated for all elements of a pack if for one; failures aside, those evaluated for every element."""
    found, stack, done = set[int](), [element], set[int]()
    while stack:
        root = stack.pop()
        done.add(root)
        found |= always_evaluated(table, root)
        for number in sorted(found):
            cell = table[number]
            if cell.kind == GUARD and cell.args[1] not in done and axis not in table.axes(cell.args[:1]):
                done.add(cell.args[1])
                stack.append(cell.args[1])
    return found


class _Vectorizer:
    """Copies cells into ``table``, with each cell's value at the first element of a pack and, if constant, its stride from one
    element to the next."""

    def __init__(self, old: Table, table: Table, axis: int, within: int, always_loaded: set[int]) -> None:
        self.old, self.table, self.axis, self.always_loaded = old, table, axis, always_loaded
        self.within = Cell(AXIS, "int64", (), within)  # the number of an element in its pack
        self.new: list[int] = []
        self.first: list[int] = []
        self.stride: list[int | None] = []

    def put(self, number: int) -> None:
        """Copy the next cell."""
        cell, table = self.old[number], self.table
        stride = self._stride(cell)
        self.stride.append(stride)
        if cell.kind == AXIS and cell.what == self.axis:
            within = table.put(self.within)
            self.first.append(table.put(cell))
            self.new.append(table.apply("add", self.first[-1], within))
            return
        self.first.append(table.put(cell.with_args(tuple(self.first[a] for a in cell.args))))
        if stride is not None and table.integer(stride) == 0:
            self.new.append(self.first[-1])
            return
        step = self.stride[cell.args[0]] if cell.kind == LOAD else None
        if step is None or number not in self.always_loaded:
            self.new.append(table.put(cell.with_args(tuple(self.new[a] for a in cell.args))))
            return
        pack = table.put(Cell(PACK, cell.dtype, (self.first[cell.args[0]], step), cell.what))
        within = table.put(self.within)
        self.new.append(table.put(Cell(PICK, cell.dtype, (pack, within))))

    def _stride(self, cell: Cell) -> int | None:
        """The stride of ``cell`` from one element to the next as a cell; None if it is not constant."""
        table = self.table
        if cell.kind == AXIS:
            return table.literal(int(cell.what == self.axis))
        if cell.kind == LITERAL:
            return table.literal(0)
        steps = [self.stride[a] for a in cell.args]
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
