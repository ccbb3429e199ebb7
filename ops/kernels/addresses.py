"""From elements at many indices to elements at one offset; and when one flat loop does for all axes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ...shape_funcs.dims import Dim, const
from ..group import Group
from .composition import Nest
from .expression import APPLY, AXIS, CAST, LITERAL, LOAD, LOCAL, SELECT, SIZE, Cell, Cells
from .functions import SCALAR_FUNCTIONS


class Table(Cells):
    """Cells whose loads have one argument, the offset; with the depth at which each can be computed, and whether anywhere.

    ``level[n]``: how many loops are around cell ``n`` at least.  ``movable[n]``: it may also be computed where nobody asks
    for it: it reads no memory that may not be there, divides nothing and has no guard.  ``scalars``: the parameters of
    rank 0, which always have their one element.  ``local_level``: the number of loops around what locals stand for.
    """

    def __init__(self, scalars: Collection[int] = (), local_level: int = 0) -> None:
        super().__init__()
        self.scalars, self.local_level = scalars, local_level
        self.level: list[int] = []
        self.movable: list[bool] = []

    def put(self, cell: Cell) -> int:
        number = super().put(cell)
        if number == len(self.level):
            made = self[number]
            own = made.what + 1 if made.kind == AXIS else self.local_level if made.kind == LOCAL else 0
            self.level.append(max([own, *(self.level[a] for a in made.args)]))
            self.movable.append(self._is_total(made) and all(self.movable[a] for a in made.args))
        return number

    def _is_total(self, cell: Cell) -> bool:
        if cell.kind == APPLY:
            return SCALAR_FUNCTIONS[cell.what].total
        return cell.kind in (LITERAL, AXIS, SIZE, LOCAL, CAST, SELECT) or (cell.kind == LOAD and cell.what in self.scalars)

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

    It computes the right thing when all pairs of ``equal`` sizes are equal.  ``cells``: the number in ``table`` of each
    cell of the nest.
    """

    nest: Nest
    table: Table
    extents: tuple[Dim, ...]
    folded: int
    element: int
    offset: int
    cells: tuple[int, ...]
    equal: tuple[tuple[Dim, Dim], ...] = ()


def _table(group: Group, loops: int, folded: int) -> Table:
    return Table({k for k, t in enumerate(group.params) if not t.shape}, loops - folded)


def general(group: Group, nest: Nest) -> Lowered:
    """One loop per axis."""
    return _one_loop_per_axis(group, nest, {})


def unstretched(group: Group, nest: Nest) -> Lowered | None:
    """One loop per axis, where no operand is as long as the loop by being repeated: then each walks through its memory.

    None when ``general`` knows already which axes are repeated.
    """
    plain = {}
    for number, cell in enumerate(nest.cells.table):
        if cell.kind == APPLY and cell.what == "multiply":
            index, stretch = (nest.cells[a] for a in cell.args)
            size = _stretched(nest.cells, cell.args[1])
            if index.kind == AXIS and stretch.kind == CAST and size is not None:
                plain[number] = (cell.args[0], (size, nest.dims[index.what]))
    return _one_loop_per_axis(group, nest, plain) if plain else None


def _one_loop_per_axis(group: Group, nest: Nest, plain: dict[int, tuple[int, tuple[Dim, Dim]]]) -> Lowered:
    """``plain``: cells that are another one where two sizes are equal."""
    table, new = _table(group, len(nest.dims), nest.folded), list[int]()
    for number, cell in enumerate(nest.cells.table):
        if number in plain:
            new.append(new[plain[number][0]])
            continue
        args = tuple(new[a] for a in cell.args)
        if cell.kind == LOAD:
            args = (table.offset(args, group.params[cell.what].shape),)
        new.append(table.put(replace(cell, args=args)))
    at = tuple(table.literal(0) if n is None else table.put(Cell(AXIS, "int64", (), n)) for n in nest.store)
    offset = table.offset(at, group.values()[nest.result].shape)
    equal = tuple(dict.fromkeys(pair for _, pair in plain.values()))
    return Lowered(nest, table, nest.dims, nest.folded, new[nest.element], offset, tuple(new), equal)


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
    table, new = _table(group, 1, min(nest.folded, 1)), list[int]()
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
    return Lowered(nest, table, (total,), min(nest.folded, 1), new[nest.element], store, tuple(new), tuple(equal))


def _flat_loads(group: Group, nest: Nest) -> tuple[set[int], list[tuple[Dim, Dim]]] | None:
    """The loads that walk through memory as the loops do, and the pairs of sizes that must be equal for that."""
    loads: set[int] = set()
    equal: dict[tuple[Dim, Dim], None] = {}
    seen, stack = set[int](), list(nest.roots)
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
            if own is extent or _stretched(nest.cells, nest.cells[number].args[1]) is not own:
                return None
            pairs.append((own, extent))
        elif own is not extent and not (const(own) is not None and const(own) == const(extent)):
            pairs.append((own, extent))
        if not (index.kind == AXIS and index.what == loop):
            return None
    return pairs


def _stretched(cells: Cells, number: int) -> Dim | None:
    """The size of which this cell is ``int64(size != 1)``, None if it is something else."""
    cell = cells[number]
    if cell.kind != CAST or cells[cell.args[0]].what != "not_equal":
        return None
    first = cells[cells[cell.args[0]].args[0]]
    return first.what if first.kind == SIZE else None
