"""Loops over a tensor whose axes are in another order: tile by tile, so that memory is gone through in whole lines.

Where the result's innermost loop is not that of an operand, the two loops concerned become the innermost ones.  Of each
tile of theirs the operand's elements are first put in the result's order by ``native.transposition``: straight into the result
where that is all there is to do, else into a small buffer that the loops over the tile read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ...shape_funcs.dims import const, product
from ..group import Group
from ..native.status import OUT_OF_MEMORY
from ..native.transposition import block_side
from ..ty import ITEMSIZE
from .addresses import Lowered, Table, general
from .composition import Nest
from .division import Divided, loops
from .expression import AXIS, LOAD, Cell, Cells
from .language import Python, element_of, indented, unless_empty
from .writer import Outside, Writer, always

#: Rows of a tile that is moved straight into the result, which then has all columns; sides of one that is not.
ROWS, SIDE = 256, 64
#: Along an axis known to be shorter nothing is gained.
SHORTEST = 8


@dataclass(frozen=True)
class Crossing:
    """A load, cell ``cell`` of a table, that walks through memory along loop ``along`` while the result does along ``across``.

    ``base``: its offset where both are 0.  ``position``: of its own axes, that of ``across``.
    """

    cell: int
    param: int
    along: int
    across: int
    base: int
    position: int


def crossings(group: Group, lowered: Lowered) -> list[Crossing]:
    """The loads of a nest ``in_tile_order`` that its two innermost loops cross."""
    inner = len(lowered.extents) - 2, len(lowered.extents) - 1
    return [c for c in _crossings(group, lowered) if (c.along, c.across) == inner]


def _crossings(group: Group, lowered: Lowered) -> Iterator[Crossing]:
    nest, table = lowered.nest, lowered.table
    long = [n for n, d in enumerate(nest.dims) if _is_long(const(d))]
    across = max((n for n, d in enumerate(nest.dims) if const(d) != 1), default=-1)
    if nest.folded or nest.columns or across not in long:
        return
    evaluated = always(table, lowered.element)
    for number, cell in enumerate(nest.cells.table):
        made = lowered.cells[number]
        if cell.kind != LOAD or made not in evaluated:
            continue
        shape, args = group.params[cell.what].shape, [lowered.cells[a] for a in cell.args]
        own = [k for k, d in enumerate(shape) if const(d) != 1]
        positions = [k for k in own if table[args[k]].kind == AXIS and table[args[k]].what == across]
        if not positions or table[args[own[-1]]].kind != AXIS:
            continue
        along = table[args[own[-1]]].what
        if along == across or along not in long:
            continue
        zero = table.literal(0)
        others = [zero if k in (positions[0], own[-1]) else a for k, a in enumerate(args)]
        if not _axes(table, others) & {along, across}:
            yield Crossing(made, cell.what, along, across, table.offset(tuple(others), shape), positions[0])


def _is_long(size: int | None) -> bool:
    return size is None or size >= SHORTEST


def _axes(table: Table, roots: list[int]) -> set[int]:
    """The loops that cells depend on."""
    seen, stack = set[int](), list(roots)
    while stack:
        number = stack.pop()
        if number not in seen:
            seen.add(number)
            stack += table[number].args
    return {table[n].what for n in seen if table[n].kind == AXIS}


def in_tile_order(group: Group, nest: Nest) -> Nest:
    """The nest with the two loops of its tiles as the innermost ones; as it is where there are none."""
    first = next(_crossings(group, general(group, nest)), None)
    if first is None:
        return nest
    pair = [first.along, first.across]
    order = [n for n in range(len(nest.dims)) if n not in pair] + pair
    loop = {old: new for new, old in enumerate(order)}
    cells, new = Cells(), list[int]()
    for cell in nest.cells.table:
        what = loop[cell.what] if cell.kind == AXIS else cell.what
        new.append(cells.put(replace(cell, args=tuple(new[a] for a in cell.args), what=what)))
    store = tuple(None if n is None else loop[n] for n in nest.store)
    dims = tuple(nest.dims[n] for n in order)
    return replace(nest, dims=dims, cells=cells, element=new[nest.element], store=store)


class TileText:
    """Writes a nest ``in_tile_order`` with its crossings.

    ``result``: the position of the result among the tensors; ``words`` gives the name of a tensor's elements as unsigned
    integers of their size.
    """

    def __init__(
        self, group: Group, lowered: Lowered, found: list[Crossing], outside: Outside, result: int, words: Callable[[int], str]
    ) -> None:
        self.group, self.lowered, self.found, self.outside = group, lowered, found, outside
        self.result, self.words = result, words
        self.extents = [outside.size(d) for d in lowered.extents]
        self.tensors = [*group.params, *(group.values()[r] for r in group.results)]
        self.around = len(self.extents) - 2

    def lines(self) -> list[str]:
        """The statements."""
        whole = [c for c in self.found if c.cell == self.lowered.element]
        stored = self.tensors[self.result]
        if whole and self.group.params[whole[0].param].dtype == stored.dtype:
            return self._moved(whole[0])
        return self._computed()

    def _stride(self, position: int, axis: int) -> str:
        return self.outside.size(product(self.tensors[position].shape[axis + 1 :]))

    def _moved(self, crossing: Crossing) -> list[str]:
        """The result is the operand in another order."""
        nest, table = self.lowered.nest, self.lowered.table
        writer = Writer(table, len(self.extents), self.outside)
        source = writer.value(crossing.base)
        at = [n if n not in (crossing.along, crossing.across) else None for n in nest.store]
        indices = tuple(table.literal(0) if n is None else table.put(Cell(AXIS, "int64", (), n)) for n in at)
        target = writer.value(table.offset(indices, self.tensors[self.result].shape))
        step = self._stride(self.result, nest.store.index(crossing.along))
        stride, side = self._stride(crossing.param, crossing.position), _side(self.tensors[self.result].dtype)
        rows, columns = self.extents[-2:]
        moved = [
            f"first = block * {ROWS}",
            f"transpose_into_result({self.words(crossing.param)}, {source} + first, {stride}, min({ROWS}, {rows} - first),"
            f" {columns}, {self.words(self.result)}, {target} + first * {step}, {step}, {side})",
        ]
        lines = self._blocks(writer, ROWS, moved)
        return unless_empty(self.extents, lines) if writer.hoisted else lines

    def _computed(self) -> list[str]:
        """The result is computed from operands in another order."""
        self.outside = self.outside.speaking(Python(("free(tiles)",)))
        table, depth = self.lowered.table, len(self.extents)
        writer = Writer(table, depth, self.outside)
        filled, arrays, total = [], [], 0
        for number, c in enumerate(self.found):
            dtype, base, stride = self.group.params[c.param].dtype, writer.value(c.base), self._stride(c.param, c.position)
            arrays.append(f"tile{number} = array_{dtype}(tiles + {total}, {SIDE * SIDE})")
            arrays.append(f"tile{number}_words = array_{word_of(dtype)}(tiles + {total}, {SIDE * SIDE})")
            total += ITEMSIZE[dtype] * SIDE * SIDE
            filled.append(
                f"transpose_tile({self.words(c.param)}, {base} + first + start * {stride}, {stride}, rows, columns,"
                f" tile{number}_words, 0, {SIDE}, {_side(dtype)})"
            )
            name = self.outside.fresh()
            writer.regions[depth].append(f"{name} = {element_of(f'tile{number}', f'row * {SIDE} + column')}")
            writer.top.names[c.cell], writer.region[c.cell] = name, depth
        element, offset = writer.value(self.lowered.element), writer.value(self.lowered.offset)
        stored = f"{element_of(self.outside.array(self.result), offset)} = {element}"
        body = self._within(writer, filled, stored)
        lines = self._blocks(writer, SIDE, body)
        opened = [f"tiles = alloc({total})", "if tiles == 0:", f"    return {OUT_OF_MEMORY}", *arrays]
        return [*opened, *(unless_empty(self.extents, lines) if writer.hoisted else lines), "free(tiles)"]

    def _blocks(self, writer: Writer, rows: int, lines: list[str]) -> list[str]:
        """The loops around ``lines``, which are about block number ``block`` of ``rows`` rows."""
        blocks = Divided([*self.extents[: self.around], "blocks"], innermost="block")
        counted = f"blocks = ({self.extents[-2]} + {rows - 1}) // {rows}"
        return [counted, *loops(self.outside, writer.regions[: self.around + 1], blocks, [], lines)]

    def _within(self, writer: Writer, filled: list[str], stored: str) -> list[str]:
        """A block of rows, tile after tile: the operands are put in order, then each element is computed."""
        rows, columns, regions = *self.extents[-2:], writer.regions
        column = [f"i{self.around + 1} = start + column", *regions[-1], stored]
        row = [f"i{self.around} = first + row", *regions[-2], "for column in range(columns):", *indented(column)]
        tile = [f"start = part * {SIDE}", f"columns = min({SIDE}, {columns} - start)", *filled]
        tile += ["for row in range(rows):", *indented(row)]
        band = [f"first = block * {SIDE}", f"rows = min({SIDE}, {rows} - first)"]
        band += [f"for part in range(({columns} + {SIDE - 1}) // {SIDE}):", *indented(tile)]
        return band


def word_of(dtype: str) -> str:
    """The unsigned dtype of as many bytes."""
    return f"uint{8 * ITEMSIZE[dtype]}"


def _side(dtype: str) -> int:
    return block_side(ITEMSIZE[dtype])
