"""Tile loops over a transposed operand, so that memory is read and written in whole cache lines.

If the result's innermost loop is not the operand's, the two loops concerned become the innermost loops and are tiled.
``native.jit.block_transpose`` puts each tile of the operand in the result's order: directly in the result for a pure
transposition, else in a small buffer that the loops over the tile read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import const, product
from ...core.group import Group
from ...core.tensor_types import ITEMSIZE
from ...native.jit.block_transpose import block_side
from ...native.status import OUT_OF_MEMORY
from ..loop_nest.expression import AXIS, LOAD, Cell, Cells
from ..loop_nest.expression_text import Python, element_of, indented, unless_empty
from ..loop_nest.inlining import Nest
from ..loop_nest.linear_index import Lowered, general
from ..loop_nest.statements import KernelContext, Writer, always_evaluated
from .partition import Partition, loops

#: ROWS: the rows of a tile that is transposed directly into the result; it has all columns.  SIDE: the side of a buffered tile.
ROWS, SIDE = 256, 64
#: An axis known to be shorter is not worth tiling.
SHORTEST = 8


@frozen
class TransposedLoad:
    """A load (cell ``cell`` of a table) that is contiguous along loop ``along``; the result is contiguous along ``across``.

    ``base``: the load's offset at index 0 of both loops.  ``position``: the load's axis that ``across`` indexes.
    """

    cell: int
    param: int
    along: int
    across: int
    base: int
    position: int


def transposed_loads(group: Group, lowered: Lowered) -> list[TransposedLoad]:
    """The loads of a nest in tile order (``order_for_tiles``) that its two innermost loops transpose."""
    inner = len(lowered.extents) - 2, len(lowered.extents) - 1
    return [c for c in _transposed_loads(group, lowered) if (c.along, c.across) == inner]


def _transposed_loads(group: Group, lowered: Lowered) -> Iterator[TransposedLoad]:
    nest, table = lowered.nest, lowered.table
    long = [n for n, d in enumerate(nest.dims) if _is_long(const(d))]
    across = max((n for n, d in enumerate(nest.dims) if const(d) != 1), default=-1)
    if nest.reduces or nest.columns or across not in long:
        return
    evaluated = always_evaluated(table, lowered.element)
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
        if not table.axes(others) & {along, across}:
            yield TransposedLoad(made, cell.what, along, across, table.offset(tuple(others), shape), positions[0])


def _is_long(size: int | None) -> bool:
    return size is None or size >= SHORTEST


def order_for_tiles(group: Group, nest: Nest) -> Nest:
    """The nest with its two tiled loops innermost; the nest unchanged if no loops are tiled."""
    first = next(_transposed_loads(group, general(group, nest)), None)
    if first is None:
        return nest
    pair = [first.along, first.across]
    order = [n for n in range(len(nest.dims)) if n not in pair] + pair
    loop = {old: new for new, old in enumerate(order)}
    cells, new = Cells(), list[int]()
    for cell in nest.cells.table:
        what = loop[cell.what] if cell.kind == AXIS else cell.what
        new.append(cells.put(Cell(cell.kind, cell.dtype, tuple(new[a] for a in cell.args), what)))
    store = tuple(None if n is None else loop[n] for n in nest.store)
    dims = tuple(nest.dims[n] for n in order)
    return replace(nest, dims=dims, cells=cells, element=new[nest.element], store=store)


class TileText:
    """Writes a nest in tile order (``order_for_tiles``) with its transposed loads.

    ``result``: the position of the result among the tensors; ``words`` gives the name of a tensor's elements as unsigned
    integers of the same size.
    """

    def __init__(
        self,
        group: Group,
        lowered: Lowered,
        loads: list[TransposedLoad],
        context: KernelContext,
        result: int,
        words: Callable[[int], str],
    ) -> None:
        self.group, self.lowered, self.loads, self.context = group, lowered, loads, context
        self.result, self.words = result, words
        self.extents = [context.size(d) for d in lowered.extents]
        self.tensors = [*group.params, *(group.values()[r] for r in group.results)]
        self.around = len(self.extents) - 2

    def lines(self) -> list[str]:
        """Statements of the nest."""
        whole = [c for c in self.loads if c.cell == self.lowered.element]
        stored = self.tensors[self.result]
        if whole and self.group.params[whole[0].param].dtype == stored.dtype:
            return self._moved(whole[0])
        return self._computed()

    def _stride(self, position: int, axis: int) -> str:
        return self.context.size(product(self.tensors[position].shape[axis + 1 :]))

    def _moved(self, transposed: TransposedLoad) -> list[str]:
        """A pure transposition of the operand."""
        nest, table = self.lowered.nest, self.lowered.table
        writer = Writer(table, len(self.extents), self.context)
        source = writer.value(transposed.base)
        at = [n if n not in (transposed.along, transposed.across) else None for n in nest.store]
        indices = tuple(table.literal(0) if n is None else table.put(Cell(AXIS, "int64", (), n)) for n in at)
        target = writer.value(table.offset(indices, self.tensors[self.result].shape))
        step = self._stride(self.result, nest.store.index(transposed.along))
        stride, side = self._stride(transposed.param, transposed.position), _side(self.tensors[self.result].dtype)
        rows, columns = self.extents[-2:]
        moved = [
            f"first = block * {ROWS}",
            f"transpose_into_result({self.words(transposed.param)}, {source} + first, {stride}, min({ROWS}, {rows} - first),"
            f" {columns}, {self.words(self.result)}, {target} + first * {step}, {step}, {side})",
        ]
        lines = self._blocks(writer, ROWS, moved)
        return unless_empty(self.extents, lines) if writer.hoisted else lines

    def _computed(self) -> list[str]:
        """A computation on transposed operands."""
        self.context = self.context.with_language(Python(("free(tiles)",)))
        table, depth = self.lowered.table, len(self.extents)
        writer = Writer(table, depth, self.context)
        filled, arrays, total = [], [], 0
        for number, c in enumerate(self.loads):
            dtype, base, stride = self.group.params[c.param].dtype, writer.value(c.base), self._stride(c.param, c.position)
            arrays.append(f"tile{number} = array_{dtype}(tiles + {total}, {SIDE * SIDE})")
            arrays.append(f"tile{number}_words = array_{word_of(dtype)}(tiles + {total}, {SIDE * SIDE})")
            total += ITEMSIZE[dtype] * SIDE * SIDE
            filled.append(
                f"transpose_tile({self.words(c.param)}, {base} + first + start * {stride}, {stride}, rows, columns,"
                f" tile{number}_words, 0, {SIDE}, {_side(dtype)})"
            )
            name = self.context.fresh()
            writer.regions[depth].append(f"{name} = {element_of(f'tile{number}', f'row * {SIDE} + column')}")
            writer.top.names[c.cell], writer.region[c.cell] = name, depth
        element, offset = writer.value(self.lowered.element), writer.value(self.lowered.offset)
        stored = f"{element_of(self.context.array(self.result), offset)} = {element}"
        body = self._within(writer, filled, stored)
        lines = self._blocks(writer, SIDE, body)
        opened = [f"tiles = alloc({total})", "if tiles == 0:", f"    return {OUT_OF_MEMORY}", *arrays]
        return [*opened, *(unless_empty(self.extents, lines) if writer.hoisted else lines), "free(tiles)"]

    def _blocks(self, writer: Writer, rows: int, lines: list[str]) -> list[str]:
        """The loops around ``lines``, which process block number ``block`` of ``rows`` rows."""
        blocks = Partition([*self.extents[: self.around], "blocks"], innermost="block")
        counted = f"blocks = ({self.extents[-2]} + {rows - 1}) // {rows}"
        return [counted, *loops(self.context, writer.regions[: self.around + 1], blocks, [], lines)]

    def _within(self, writer: Writer, filled: list[str], stored: str) -> list[str]:
        """A block of rows, tile after tile: transpose the operands, then compute each element."""
        rows, columns, regions = *self.extents[-2:], writer.regions
        column = [f"i{self.around + 1} = start + column", *regions[-1], stored]
        row = [f"i{self.around} = first + row", *regions[-2], "for column in range(columns):", *indented(column)]
        tile = [f"start = part * {SIDE}", f"columns = min({SIDE}, {columns} - start)", *filled]
        tile += ["for row in range(rows):", *indented(row)]
        band = [f"first = block * {SIDE}", f"rows = min({SIDE}, {rows} - first)"]
        band += [f"for part in range(({columns} + {SIDE - 1}) // {SIDE}):", *indented(tile)]
        return band


def word_of(dtype: str) -> str:
    """The unsigned dtype of the same number of bytes."""
    return f"uint{8 * ITEMSIZE[dtype]}"


def _side(dtype: str) -> int:
    return block_side(ITEMSIZE[dtype])
