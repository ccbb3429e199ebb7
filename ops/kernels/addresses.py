"""From elements at many indices to elements at one offset; and when one flat loop does for all axes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ...shape_funcs.dims import Dim, const
from ..group import Group
from .composition import Nest
from .expression import APPLY, AXIS, CAST, LITERAL, LOAD, SELECT, SIZE, Cell, Cells
from .functions import SCALAR_FUNCTIONS


class Table(Cells):
    """Cells whose loads have one argument, the offset; with the depth at which each can be computed, and whether anywhere.

    ``level[n]``: how many loops are around cell ``n`` at least.  ``movable[n]``: it may also be computed where nobody asks
    for it: it reads no memory that may not be there, divides nothing and has no guard.  ``scalars``: the parameters of
    rank 0, which always have their one element.
    """

    def __init__(self, scalars: Collection[int] = ()) -> None:
        super().__init__()
        self.scalars = scalars
        self.level: list[int] = []
        self.movable: list[bool] = []

    def put(self, cell: Cell) -> int:
        number = super().put(cell)
        if number == len(self.level):
            made = self[number]
            own = made.what + 1 if made.kind == AXIS else 0
            self.level.append(max([own, *(self.level[a] for a in made.args)]))
            self.movable.append(self._is_total(made) and all(self.movable[a] for a in made.args))
        return number

    def _is_total(self, cell: Cell) -> bool:
        if cell.kind == APPLY:
            return SCALAR_FUNCTIONS[cell.what].total
        return cell.kind in (LITERAL, AXIS, SIZE, CAST, SELECT) or (cell.kind == LOAD and cell.what in self.scalars)

    def offset(self, indices: tuple[int, ...], dims: tuple[Dim, ...]) -> int:
        """The row-major offset.  What changes in outer loops is added first, so that it is computed there."""
        terms, stride = [], self.literal(1)
        for i, d in reversed(list(zip(indices, dims, strict=True))):
            terms.append(self.apply("multiply", i, stride))
            stride = self.apply("multiply", stride, self.size(d))
        total = self.literal(0)
        for term in sorted(terms, key=lambda t: self.level[t]):
            total = self.apply("add", total, term)
        return total


@dataclass(frozen=True)
class Lowered:
    """A loop nest ready to be written: ``extents`` of its loops, what to fold or store, and where (``offset``).

    It computes the right thing when all pairs of ``equal`` sizes are equal.
    """

    nest: Nest
    table: Table
    extents: tuple[Dim, ...]
    folded: int
    element: int
    offset: int
    equal: tuple[tuple[Dim, Dim], ...] = ()


def _scalars(group: Group) -> set[int]:
    return {k for k, t in enumerate(group.params) if not t.shape}


def general(group: Group, nest: Nest) -> Lowered:
    """One loop per axis."""
    table, new = Table(_scalars(group)), list[int]()
    for cell in nest.cells.table:
        args = tuple(new[a] for a in cell.args)
        if cell.kind == LOAD:
            args = (table.offset(args, group.params[cell.what].shape),)
        new.append(table.put(replace(cell, args=args)))
    at = tuple(table.literal(0) if n is None else table.put(Cell(AXIS, "int64", (), n)) for n in nest.store)
    offset = table.offset(at, group.values()[nest.result].shape)
    return Lowered(nest, table, nest.dims, nest.folded, new[nest.element], offset)


def flat(group: Group, nest: Nest) -> Lowered | None:
    """A single loop over all elements; None when the elements do not lie in the same order everywhere."""
    if len(nest.dims) == 0 or nest.folded not in (0, len(nest.dims)):
        return None
    found = _flat_loads(group, nest)
    if found is None:
        return None
    loads, equal = found
    if len(nest.dims) == 1 and not equal:
        return None  # the general nest is that loop
    table, new = Table(_scalars(group)), list[int]()
    loop = table.put(Cell(AXIS, "int64", (), 0))
    for number, cell in enumerate(nest.cells.table):
        args = tuple(new[a] for a in cell.args)
        if cell.kind == LOAD:
            args = (loop if number in loads else table.offset(args, group.params[cell.what].shape),)
        new.append(table.put(replace(cell, args=args)))
    total = nest.dims[0]
    for d in nest.dims[1:]:
        total = total * d
    store = table.literal(0) if nest.folded else loop
    return Lowered(nest, table, (total,), min(nest.folded, 1), new[nest.element], store, tuple(equal))


def _flat_loads(group: Group, nest: Nest) -> tuple[set[int], list[tuple[Dim, Dim]]] | None:
    """The loads that walk through memory as the loops do, and the pairs of sizes that must be equal for that."""
    loads: set[int] = set()
    equal: dict[tuple[Dim, Dim], None] = {}
    seen, stack = set(), [nest.element]
    while stack:
        number = stack.pop()
        if number in seen:
            continue
        seen.add(number)
        cell = nest.cells[number]
        if cell.kind == AXIS:
            return None
        pairs = _in_step(group, nest, cell) if cell.kind == LOAD else None
        if pairs is None:
            stack += cell.args
        else:
            loads.add(number)
            equal.update(dict.fromkeys(pairs))
    return loads, list(equal)


def _in_step(group: Group, nest: Nest, load: Cell) -> list[tuple[Dim, Dim]] | None:
    """The sizes that must be equal for ``load`` to be at the loops' own index; None when it is elsewhere."""
    shape = group.params[load.what].shape
    if len(shape) != len(nest.dims):
        return None
    pairs = []
    for loop, (number, own, extent) in enumerate(zip(load.args, shape, nest.dims, strict=True)):
        index = nest.cells[number]
        if index.kind == APPLY and index.what == "multiply":
            # what broadcasting makes of a size that may be 1
            index = nest.cells[index.args[0]]
            if own is extent or not _is_stretch(nest.cells, nest.cells[number].args[1], own):
                return None
            pairs.append((own, extent))
        elif own is not extent and not (const(own) is not None and const(own) == const(extent)):
            pairs.append((own, extent))
        if not (index.kind == AXIS and index.what == loop):
            return None
    return pairs


def _is_stretch(cells: Cells, number: int, size: Dim) -> bool:
    """Is this cell ``int64(size != 1)``?"""
    cell = cells[number]
    if cell.kind != CAST or cells[cell.args[0]].what != "not_equal":
        return False
    first = cells[cells[cell.args[0]].args[0]]
    return first.kind == SIZE and first.what is size
