"""Linear indices: replace loads at several indices by loads at one offset, and collapse all axes into one flat loop."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, Shape, const, product
from ...core.group import Group
from .expression import APPLY, AXIS, CAST, GUARD, LITERAL, LOAD, LOCAL, SELECT, SIZE, Cell, Cells
from .inlining import Nest
from .scalar_functions import SCALAR_FUNCTIONS

#: Elements of a row that is long: no longer row is computed faster.  The fewest runs that share work among threads.
LONG, CHANNELS = 512, 16


class Table(Cells):
    """Cells whose loads have one argument, the linear offset; with the loop level of each cell and whether it is movable.

    ``level[n]``: the least number of loops around cell ``n``.  ``movable[n]``: cell ``n`` may be executed speculatively (it reads
    no memory that may be absent, does not divide, and has no guard).  ``scalars``: the parameters of rank 0, which always have
    their one element.  ``local_level``: the number of loops around the values of locals.
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
        """The row-major offset.  Terms of outer loops are added first, so that loop-invariant code motion hoists them."""
        terms, stride = [], self.literal(1)
        for i, d in reversed(list(zip(indices, dims, strict=True))):
            terms.append(self.apply("multiply", i, stride))
            stride = self.apply("multiply", stride, self.size(d))
        total = self.literal(0)
        for term in sorted(terms, key=lambda t: self.level[t]):
            total = self.apply("add", total, term)
        return total


@frozen
class Lowered:
    """A loop nest ready to be written: ``extents`` of its loops, the element to fold or store, and its ``offset``.

    Valid if all pairs of ``equal`` sizes are equal.  ``cells``: for each cell of the nest, its number in ``table``.
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


#: For some cells, by number: the cell that replaces it if two sizes are equal.
Plain = Mapping[int, tuple[int, tuple[Dim, Dim]]]


def general(group: Group, nest: Nest, joined: bool = False) -> Lowered:
    """One loop per axis; with ``joined`` a single one for all folded axes, if each operand has their elements in their order."""
    return _loops(group, nest, {}, joined)


def without_broadcast(group: Group, nest: Nest, joined: bool = False) -> Lowered | None:
    """As ``general``, assuming that no operand is broadcast along a loop of unknown size: each load is then contiguous.

    None if ``general`` already knows the broadcast axes.
    """
    plain = {}
    for number, cell in enumerate(nest.cells.table):
        if cell.kind == APPLY and cell.what == "multiply":
            index, stretch = (nest.cells[a] for a in cell.args)
            size = _broadcast_size(nest.cells, cell.args[1])
            if index.kind == AXIS and stretch.kind == CAST and size is not None:
                plain[number] = (cell.args[0], (size, nest.dims[index.what]))
    return _loops(group, nest, plain, joined) if plain else None


def _loops(group: Group, nest: Nest, plain: Plain, joined: bool) -> Lowered:
    equal = tuple(dict.fromkeys(pair for _, pair in plain.values()))
    if joined and nest.folded > 1 and not nest.columns:
        found = _joined_loops(group, nest, plain, equal)
        if found is not None:
            return found
    return _one_loop_per_axis(group, nest, plain, equal)


def _joined_loops(group: Group, nest: Nest, plain: Plain, equal: tuple[tuple[Dim, Dim], ...]) -> Lowered | None:
    """A loop for each axis that is not folded, and one for the others; None if an operand or the result has no run of these."""
    first = len(nest.dims) - nest.folded
    table, new = _table(group, first + 1, 1), list[int]()
    along = table.put(Cell(AXIS, "int64", (), first))
    loops = range(first, len(nest.dims))
    axes = set[int]()  # the cells of folded loops
    for number, cell in enumerate(nest.cells.table):
        if number in plain:
            axes |= {number} if plain[number][0] in axes else set()
            new.append(new[plain[number][0]])
        elif cell.kind == AXIS and cell.what >= first:
            axes.add(number)
            new.append(along)
        elif cell.kind == LOAD:
            at = tuple(_loop_of(nest, plain, a) if a in axes else None for a in cell.args)
            offset = _run_offset(table, tuple(new[a] for a in cell.args), at, group.params[cell.what].shape, nest, loops, equal)
            if offset is None:
                return None
            new.append(table.put(cell.with_args((offset,))))
        elif axes & set(cell.args):
            return None
        else:
            new.append(table.put(cell.with_args(tuple(new[a] for a in cell.args))))
    own = tuple(n if n is not None and n >= first else None for n in nest.store)
    kept = tuple(table.literal(0) if n is None else table.put(Cell(AXIS, "int64", (), min(n, first))) for n in nest.store)
    offset = _run_offset(table, kept, own, group.values()[nest.result].shape, nest, loops, equal)
    if offset is None or nest.element in axes:
        return None
    extents = (*nest.dims[:first], product(nest.dims[first:]))
    return Lowered(nest, table, extents, 1, new[nest.element], offset, tuple(new), equal)


def _loop_of(nest: Nest, plain: Plain, number: int) -> int:
    """The loop of the cell of an axis."""
    while number in plain:
        number = plain[number][0]
    loop: int = nest.cells[number].what
    return loop


def _run_offset(
    table: Table, indices: tuple[int, ...], at: tuple[int | None, ...], shape: Shape, nest: Nest, loops: range,
    equal: Collection[tuple[Dim, Dim]],
) -> int | None:  # fmt: skip
    """The offset of an element whose index along some axes is that of a loop (``at``): of none of ``loops``, or of all, in order.

    None if the element is at another place.
    """
    found = [axis for axis, loop in enumerate(at) if loop is not None]
    if not found:
        return table.offset(indices, shape)
    first, end = found[0], found[-1] + 1
    if at[first:end] != tuple(loops):
        return None
    for own, loop in zip(shape[first:end], loops, strict=True):
        extent = nest.dims[loop]
        same = own is extent or (const(own) is not None and const(own) == const(extent)) or (own, extent) in equal
        if not same:
            return None
    run = product(nest.dims[loops.start :])
    return table.offset((*indices[:first], indices[first], *indices[end:]), (*shape[:first], run, *shape[end:]))


def _one_loop_per_axis(group: Group, nest: Nest, plain: Plain, equal: tuple[tuple[Dim, Dim], ...]) -> Lowered:
    table, new = _table(group, len(nest.dims), nest.folded), list[int]()
    for number, cell in enumerate(nest.cells.table):
        if number in plain:
            new.append(new[plain[number][0]])
            continue
        args = tuple(new[a] for a in cell.args)
        if cell.kind == LOAD:
            args = (table.offset(args, group.params[cell.what].shape),)
        new.append(table.put(cell.with_args(args)))
    at = tuple(table.literal(0) if n is None else table.put(Cell(AXIS, "int64", (), n)) for n in nest.store)
    offset = table.offset(at, group.values()[nest.result].shape)
    return Lowered(nest, table, nest.dims, nest.folded, new[nest.element], offset, tuple(new), equal)


def flat(group: Group, nest: Nest) -> Lowered | None:
    """A single loop over all elements; None if the layouts of the operands and the result differ."""
    if len(nest.dims) == 0 or nest.folded not in (0, len(nest.dims)):
        return None
    found = _flat_loads(group, nest)
    if found is None:
        return None
    loads, equal = found
    if len(nest.dims) == 1 and not equal:
        return None  # the general nest is already a single loop
    table, new = _table(group, 1, min(nest.folded, 1)), list[int]()
    loop = table.put(Cell(AXIS, "int64", (), 0))
    for number, cell in enumerate(nest.cells.table):
        args = tuple(new[a] for a in cell.args)
        if cell.kind == LOAD:
            args = (loop if number in loads else table.offset(args, group.params[cell.what].shape),)
        new.append(table.put(cell.with_args(args)))
    total = nest.dims[0]
    for d in nest.dims[1:]:
        total = total * d
    store = table.literal(0) if nest.folded else loop
    return Lowered(nest, table, (total,), min(nest.folded, 1), new[nest.element], store, tuple(new), tuple(equal))


def over_runs(group: Group, nest: Nest, lead: int, own: int, local: str = "") -> Lowered | None:
    """A loop for each of the first ``lead`` axes and one over the elements of the others, of which each load reads all or one.

    Parameter ``own`` is only read at the index that is written; unless "", the local ``local`` has its element.  None if a load
    reads otherwise, or a cell may refuse a value.
    """
    if nest.folded or nest.columns or any(cell.kind == GUARD for cell in nest.cells.table):
        return None
    table, new = _table(group, lead + 1, 0), list[int]()
    along = table.put(Cell(AXIS, "int64", (), lead))
    within = set[int]()  # the cells that vary along a run other than by loads
    for number, cell in enumerate(nest.cells.table):
        if cell.kind == LOAD:
            at = _load_over_runs(group, nest, cell, lead, within, new, along, table)
            if at is None or (cell.what == own and not is_elementwise(nest, cell)):
                return None
            is_local = cell.what == own and local
            new.append(table.put(Cell(LOCAL, cell.dtype, (), local) if is_local else cell.with_args((at,))))
        elif cell.kind == AXIS and cell.what >= lead and const(nest.dims[cell.what]) == 1:
            new.append(table.literal(0))
        elif within & {number, *cell.args} or (cell.kind == AXIS and cell.what >= lead):
            within.add(number)
            new.append(along)
        else:
            new.append(table.put(cell.with_args(tuple(new[a] for a in cell.args))))
    if nest.element in within:
        return None
    extents = (*nest.dims[:lead], product(nest.dims[lead:]))
    offset = table.offset((*(table.put(Cell(AXIS, "int64", (), k)) for k in range(lead)), along), extents)
    return Lowered(nest, table, extents, 0, new[nest.element], offset, tuple(new))


def over_channels(group: Group, nest: Nest) -> Lowered | None:
    """As ``over_runs``, for the fewest leading axes that share the work among threads; None if rows are known to be long."""
    innermost = const(nest.dims[-1]) if nest.dims else None
    if (innermost is not None and innermost >= LONG) or nest.store != tuple(range(len(nest.dims))):
        return None
    leads = (k for k in range(1, len(nest.dims) - 1) if math.prod(const(d) or 1 for d in nest.dims[:k]) >= CHANNELS)
    return next((found for found in (over_runs(group, nest, k, own=-1) for k in leads) if found is not None), None)


def is_elementwise(nest: Nest, load: Cell) -> bool:
    """Whether a load reads the element at the loops' own index."""
    cells = [nest.cells[a] for a in load.args]
    return len(cells) == len(nest.dims) and all(
        const(d) == 1 or (cell.kind == AXIS and cell.what == axis)
        for axis, (cell, d) in enumerate(zip(cells, nest.dims, strict=True))
    )


def _load_over_runs(
    group: Group, nest: Nest, load: Cell, lead: int, within: set[int], new: list[int], along: int, table: Table
) -> int | None:
    """The offset of a load in ``over_runs``; None if it reads neither a whole run in order nor one element."""
    shape = group.params[load.what].shape
    if not within & set(load.args):
        return table.offset(tuple(new[a] for a in load.args), shape)
    kept = len(shape) - (len(nest.dims) - lead)
    if kept < 0 or within & set(load.args[:kept]):
        return None
    for axis, (argument, own) in enumerate(zip(load.args[kept:], shape[kept:], strict=True), lead):
        index = nest.cells[argument]
        if own is not nest.dims[axis] or not (const(own) == 1 or (index.kind == AXIS and index.what == axis)):
            return None
    return table.offset((*(new[a] for a in load.args[:kept]), along), (*shape[:kept], product(shape[kept:])))


def _flat_loads(group: Group, nest: Nest) -> tuple[set[int], list[tuple[Dim, Dim]]] | None:
    """The loads in the order of the loops, and the pairs of sizes whose equality this requires."""
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
        pairs = _required_equalities(group, nest, cell) if cell.kind == LOAD else None
        if pairs is None:
            stack += cell.args
        else:
            loads.add(number)
            equal.update(dict.fromkeys(pairs))
    return loads, list(equal)


def _required_equalities(group: Group, nest: Nest, load: Cell) -> list[tuple[Dim, Dim]] | None:
    """The sizes whose equality puts ``load`` at the loops' own index; None if it is at another index."""
    shape = group.params[load.what].shape
    if len(shape) != len(nest.dims):
        return None
    pairs: list[tuple[Dim, Dim]] = []
    for loop, (number, own, extent) in enumerate(zip(load.args, shape, nest.dims, strict=True)):
        index = nest.cells[number]
        if index.kind == APPLY and index.what == "multiply":
            # broadcasting multiplies the index by whether the size is not 1
            index = nest.cells[index.args[0]]
            broadcast = _broadcast_size(nest.cells, nest.cells[number].args[1])
            if own is extent or broadcast is None or broadcast is not own:
                return None
            pairs.append((own, extent))
        elif own is not extent and not (const(own) is not None and const(own) == const(extent)):
            pairs.append((own, extent))
        if not (index.kind == AXIS and index.what == loop):
            return None
    return pairs


def _broadcast_size(cells: Cells, number: int) -> Dim | None:
    """The size of a cell of the form ``int64(size != 1)``; None for any other cell."""
    cell = cells[number]
    if cell.kind != CAST or cells[cell.args[0]].what != "not_equal":
        return None
    first = cells[cells[cell.args[0]].args[0]]
    return first.what if first.kind == SIZE else None
