"""Reductions over the innermost axes, and groups that use their results: several passes over each row.

A value that is expensive to compute and needed in several passes is computed once per row, in its own loop, and stored in a
*row buffer*: the row of the result if the dtypes match, else separate memory.  A cheap value is computed again, unless the row of
the result is free to hold it.  So a loop that folds does little else, a loop that computes stores one value, and both vectorise.
Only sums in the elements' own dtype (``Fold.run``) are folded in the loop that computes the elements.  An expensive function of
a row's fold is computed after all rows, for several rows at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const
from ...core.tensor_types import HALVES, ITEMSIZE, computed_in
from ...native.status import EMPTY_REDUCTION, OUT_OF_MEMORY
from ..loop_nest import vector_math, vector_power
from ..loop_nest.cost import cost_of
from ..loop_nest.expression import APPLY, AXIS, CAST, GUARD, LITERAL, LOAD, LOCAL, SELECT, Cell
from ..loop_nest.expression_text import Python, element_of, indented, loops_around, unless_empty, zero_if_empty
from ..loop_nest.linear_index import Lowered, Table
from ..loop_nest.reduction import RUN, Fold, Run, fold, folded, is_widened, pair_loops
from ..loop_nest.row_passes import RowFold, Rows
from ..loop_nest.scalar_functions import SCALAR_FUNCTIONS
from ..loop_nest.statements import KernelContext, Writer
from .block_scan import Elements, Rising, block_scan_loops, ranges
from .partition import LEVELS, Partition, loops

_CALLED = re.compile(r"\w+(?=\()")
#: The dtype of a row of halves that several passes or rows read, and the fewest rows that share such a row.
WIDE, LEAST_ROWS = "float32", 4
#: A value whose cost in additions is above CHEAP is not computed twice.
CHEAP = 8
#: As CHEAP, for a value that the row of the result can hold: more than an operation on an element.  Two rows that each pass reads
#: take longer than a row that is written once, in the caches and beyond.
HELD = 2


@frozen
class StoredCell:
    """A cell whose values are stored for a row: the first pass that reads them, the buffer's name, and the offset."""

    cell: int
    since: int
    array: str
    offset: int


@dataclass
class RowLoops:
    """The innermost loops over a row; ``outer``: per enclosing loop, the statements before them."""

    outer: list[list[str]]
    lines: list[str] = field(default_factory=list)
    hoisted: bool = False


class RowText:
    """Writes one nest that has folds.  ``result``: the array of the result, of dtype ``dtype``."""

    #: Whether the row of the result may hold a value that several passes need.
    holds_in_result = True
    #: Whether rows of halves that all rows read are widened once.
    widens_columns = True

    def __init__(self, lowered: Lowered, context: KernelContext, result: str, dtype: str) -> None:
        assert isinstance(lowered.nest, Rows)
        self.lowered, self.rows, self.context, self.result, self.dtype = lowered, lowered.nest, context, result, dtype
        self.extents = [context.size(d) for d in lowered.extents]
        self.kept = len(self.extents) - lowered.folded
        self.buffers: list[tuple[str, str]] = []  # the name and dtype of each separate row buffer
        self.several = len(self.rows.folds) > 1 or not self.rows.per_row
        self.reads_halves = any(cell.kind == LOAD and cell.dtype in HALVES for cell in lowered.table.table)
        self.keeps = self._stored_cells()
        self.columns = {cell: f"column{k}" for k, cell in enumerate(self._columns())}
        self.buffers += [(name, WIDE) for name in self.columns.values()]
        self.is_finished_apart = self._is_finished_apart()
        if self.buffers:
            self.context = context.with_language(Python(("free(rows)",)))

    def lines(self) -> list[str]:
        """Statements of the nest."""
        folds = [self.fold(f) for f in self.rows.folds]
        body = self.passes(folds, filled=True)
        around = self.extents[: self.kept]
        lines = self._rows_around(body)
        if self.is_finished_apart:
            lines += self._rows_around(self._finished())
        inside = self.extents[self.kept :]
        refused: list[str] = []
        if any(f.needs_one for f in folds):
            refused = unless_empty(around, [f"return {EMPTY_REDUCTION}"])
            refused = [f"if {' or '.join(f'{e} == 0' for e in inside)}:", *indented(refused)] if inside else []
        if body.hoisted:
            # an empty axis must not be read ahead of its loop: the result is the folds' initial value
            lines = unless_empty(self.extents, lines)
            if self.rows.per_row and not refused and self.extents:
                empty = self.passes(folds, filled=False)
                lines += ["else:", *indented(self._rows_around(empty))]
        return [*refused, *self.with_buffers(lines)]

    def _rows_around(self, body: RowLoops) -> list[str]:
        """``body`` for each row of the partition."""
        around = self.extents[: self.kept]
        return loops(self.context, body.outer, Partition(around[:LEVELS]), around[LEVELS:], body.lines)

    def with_buffers(self, lines: list[str]) -> list[str]:
        """The statements between the allocation of the row buffers and its end."""
        if not self.buffers:
            return lines
        count = " * ".join(self.extents[self.kept :])
        head, total = [f"row_length = ({count} + 15) // 16 * 16"], "0"
        arrays = []
        for name, dtype in self.buffers:
            arrays.append(f"{name} = array_{dtype}(rows + {total}, row_length)")
            total = f"{total} + {ITEMSIZE[dtype]} * row_length" if total != "0" else f"{ITEMSIZE[dtype]} * row_length"
        head += [f"rows = alloc({total})", "if rows == 0:", f"    return {OUT_OF_MEMORY}", *arrays]
        axis, size = f"i{len(self.extents) - 1}", self.extents[-1] if self.columns else ""
        table = self.lowered.table
        widened = [
            f"{element_of(name, axis)} = {element_of(self.context.array(table[cell].what), axis)}"
            for cell, name in self.columns.items()
        ]
        fill = [f"for {axis} in filled_range({size}):", *indented(widened)] if widened else []
        return [*head, *fill, *lines, "free(rows)"]

    def fold(self, f: RowFold) -> Fold:
        """The state and the steps of a fold."""
        return fold(f.combine, self._dtype(f), f.attrs, f"{f.name}_")

    def _dtype(self, f: RowFold) -> str:
        return self.rows.cells[f.element].dtype

    # ---- passes ----------------------------------------------------------------------------------------------------------

    def passes(self, folds: Sequence[Fold], filled: bool) -> RowLoops:
        """All passes over a row; if not ``filled``, over a row without elements."""
        body = RowLoops([[] for _ in range(self.kept + 1)])
        number = self.lowered.cells
        for step in range(self.rows.steps):
            keeps = [k for k in self.keeps if k.since == step] if filled else []
            mine = [(f, made) for f, made in zip(self.rows.folds, folds, strict=True) if f.step == step]
            body.lines += [f"{name} = {value}" for _, made in mine for name, value in made.state]
            if filled:
                self._pass(body, step, keeps, [(number[f.element], made) for f, made in mine])
            body.lines += [f"{f.name} = {made.value}" for f, made in mine]
        self.store(body, filled)
        return body

    def _pass(self, body: RowLoops, step: int, keeps: Sequence[StoredCell], folds: Sequence[tuple[int, Fold]]) -> None:
        """The values first stored in this pass, and its folds; runs are summed while the last value is stored."""
        runs = [f for f in folds if self._runs(f[1])]
        for keep in keeps:
            before = [k for k in self.keeps if k.since < step or (k.since == step and k.cell < keep.cell)]
            last = keep is keeps[-1]
            writer = self.writer(before, [keep.cell, *(cell for cell, _ in runs if last)])
            offset, value = writer.value(keep.offset), writer.value(keep.cell)
            line = f"{element_of(keep.array, offset)} = {value}"
            self.add(body, writer, [line, *self._steps(writer, runs if last else [])], runs if last else [])
        rest = [f for f in folds if f not in runs or not keeps]
        # all folds in one loop, except folds that skip elements
        together = [f for f in rest if not f[1].block_scan]
        for some in ([together] if together else []) + [[f] for f in rest if f[1].block_scan]:
            known = [k for k in self.keeps if k.since <= step]
            writer = self.writer(known, [cell for cell, _ in some])
            if some[0][1].block_scan and len(self.extents) > self.kept:
                self._scan(body, writer, known, some[0])
            elif some[0][1].pair and len(some) == 1 and self._is_of_halves(some[0][0]):
                (cell, made), elements = some[0], self._elements(body, writer, some[0][0])
                inside = self.extents[self.kept :]
                called, table = ranges(inside[-1], "filled_sum_range"), self.lowered.table
                body.lines += pair_loops(made, table, cell, elements.text, elements.regions, inside, self.kept, called)
            else:
                self.add(body, writer, self._steps(writer, some), some)

    def _scan(self, body: RowLoops, writer: Writer, known: Collection[StoredCell], searched: tuple[int, Fold]) -> None:
        """The loops of a fold that skips elements."""
        cell, made = searched
        assert made.block_scan is not None
        elements, rising = self._elements(body, writer, cell), None
        if cell not in {k.cell for k in known} and (found := self._rising(cell)):
            function, argument = found
            arguments = self._elements(body, self.writer(known, [argument]), argument)
            rising = Rising(function, arguments, self.lowered.table[argument].dtype)
        body.lines += block_scan_loops(elements, rising, self.extents[self.kept :], made.block_scan, self._position(), self.kept)

    def _is_of_halves(self, cell: int) -> bool:
        """Whether a loop over a row widens halves for a fold."""
        return is_widened(self.lowered.table, cell) and len(self.extents) > self.kept

    def _elements(self, body: RowLoops, writer: Writer, cell: int) -> Elements:
        """A cell of the loop over a row."""
        text = writer.value(cell)
        self._hoist(body, writer)
        body.lines += writer.regions[self.kept]
        return Elements(text, [[], *writer.regions[self.kept + 1 :]])

    def _rising(self, cell: int) -> tuple[str, int] | None:
        """The expensive function that makes an element and never falls, and its cheap argument; None for other elements."""
        table = self.lowered.table
        # a check of a whole row comes before all of its elements
        while table[cell].kind == GUARD and table.level[table[cell].args[0]] <= self.kept:
            cell = table[cell].args[1]
        made = table[cell]
        declared = SCALAR_FUNCTIONS[made.what].monotonic if made.kind == APPLY and cost_of(made) > CHEAP else None
        if declared is None or declared.signs != (1,) or made.dtype not in declared.dtypes or made.dtype in HALVES:
            return None
        return (made.what, made.args[0]) if _costs(table, self.kept, ())[made.args[0]] <= CHEAP else None

    def _runs(self, made: Fold) -> bool:
        """Whether runs are folded.  A fold whose elements have no other use is bound by memory and can be exact at no cost.

        A fold of halves is not.
        """
        return made.run is not None and (self.several or self.reads_halves) and len(self.extents) > self.kept

    def _steps(self, writer: Writer, folds: Sequence[tuple[int, Fold]]) -> list[str]:
        lines = []
        for cell, made in folds:
            text, step = writer.value(cell), made.step
            if made.run and self._runs(made):
                step = made.run.step
            else:
                text = folded(text, self.lowered.table, cell, made)
            lines += [line.format(e=text, at=self._position()) for line in step]
        return lines

    def store(self, body: RowLoops, filled: bool) -> None:
        """The store of the result: in its own loop, unless the result has one element per row."""
        if not self.rows.per_row and not filled:
            return
        writer = self.writer(self.keeps if filled else [], [self.lowered.element])
        is_fold = filled and self.is_finished_apart
        value = self.rows.folds[0].name if is_fold else writer.value(self.lowered.element)
        line = f"{element_of(self.result, writer.value(self.lowered.offset))} = {value}"
        if not self.rows.per_row:
            self.add(body, writer, [line])
            return
        self._hoist(body, writer)
        body.lines += [*writer.regions[self.kept], line]

    def _is_finished_apart(self) -> bool:
        """Whether an expensive function of the fold alone follows, so that the result can hold the folds of all rows first."""
        table, folds = self.lowered.table, self.rows.folds
        if not self.rows.per_row or len(folds) != 1 or folds[0].dtype != self.dtype or self.dtype in HALVES or not self.kept:
            return False
        cells = [table[number] for number in table.reached([self.lowered.element])]
        costs = [cost_of(cell) for cell in cells if cell.kind == APPLY]
        return {cell.kind for cell in cells} <= {LITERAL, LOCAL, CAST, APPLY} and sum(costs) > CHEAP

    def _finished(self) -> RowLoops:
        """The function of the folds that the result holds."""
        body, place, writer = RowLoops([[] for _ in range(self.kept + 1)]), self.writer([], []), self.writer([], [])
        at = element_of(self.result, place.value(self.lowered.offset))
        value = writer.value(self.lowered.element)
        self._hoist(body, place)
        self._hoist(body, writer)
        held = f"{self.rows.folds[0].name} = {at}"
        body.lines += [*place.regions[self.kept], held, *writer.regions[self.kept], f"{at} = {value}"]
        return body

    def _hoist(self, body: RowLoops, writer: Writer) -> None:
        body.hoisted |= writer.hoisted
        for level in range(self.kept):
            body.outer[level] += writer.regions[level]

    def add(self, body: RowLoops, writer: Writer, lines: list[str], folds: Sequence[tuple[int, Fold]] = ()) -> None:
        """A loop over a row."""
        self._hoist(body, writer)
        regions, inside = [[], *writer.regions[self.kept + 1 :]], self.extents[self.kept :]
        body.lines += writer.regions[self.kept]
        runs = [made.run for _, made in folds if made.run and self._runs(made)]
        if not inside:
            body.lines += lines
        elif runs:
            body.lines += _in_runs(regions, inside, runs, lines, self.kept, self.reads_halves)
        else:
            called = range_of_stores(self.dtype, inside[-1])
            if folds:
                is_wide = any(made.is_wide for _, made in folds)
                called = ranges(inside[-1], "filled_range" if self.reads_halves and not is_wide else "range")
            body.lines += loops_around(regions, zero_if_empty(inside), lines, self.kept, called)

    def writer(self, known: Iterable[StoredCell], roots: Sequence[int]) -> Writer:
        """A writer that reads the stored values from their buffers."""
        writer = Writer(self.lowered.table, len(self.extents), self.context)
        depth = len(self.extents)
        keeps = {k.cell: k for k in known}
        reached = self.lowered.table.reached(roots, set(keeps))
        for cell in sorted(reached & set(self.columns)):
            name = self.context.fresh()
            writer.regions[depth].append(f"{name} = {element_of(self.columns[cell], f'i{depth - 1}')}")
            writer.top.names[cell], writer.region[cell] = name, depth
        for cell in sorted(reached & set(keeps)):
            name = self.context.fresh()
            offset = writer.value(keeps[cell].offset)
            writer.regions[depth].append(f"{name} = {element_of(keeps[cell].array, offset)}")
            writer.top.names[cell], writer.region[cell] = name, depth
        return writer

    def _position(self) -> str:
        """The position of an element in its row."""
        text = ""
        for loop, extent in list(enumerate(self.extents))[self.kept :]:
            text = f"({text} * {extent} + i{loop})" if text else f"i{loop}"
        return text or "0"

    # ---- row buffers -----------------------------------------------------------------------------------------------------

    def _shared_with_result(self, passes: Sequence[tuple[int, Sequence[int]]]) -> dict[int, int]:
        """The shared cells; if none of them has the row of the result, the costliest of the cheap cells that can have it too."""
        table = self.lowered.table

        def fits(cell: int) -> bool:
            return computed_in(table[cell].dtype) == computed_in(self.dtype)

        found = _shared_cells(table, passes, self.kept, CHEAP)
        if self.rows.per_row or any(map(fits, found)):
            return found
        cheap, costs = _shared_cells(table, passes, self.kept, HELD), _costs(table, self.kept, found)
        held = max(filter(fits, cheap), key=lambda cell: (costs[cell], cell), default=None)
        return found if held is None else found | {held: cheap[held]}

    def _columns(self) -> list[int]:
        """The halves at the index of the innermost loop alone, such as the scales of a norm: all rows read them, widened once."""
        table, innermost = self.lowered.table, len(self.extents) - 1
        around = [const(d) for d in self.lowered.extents[: self.kept]]
        are_few = None not in around and math.prod(d for d in around if d is not None) < LEAST_ROWS
        if are_few or not around or self.kept != innermost or self.rows.per_row or not self.widens_columns:
            return []
        roots = (self.lowered.element, *(self.lowered.cells[f.element] for f in self.rows.folds))
        loads = (n for n in sorted(table.reached(roots)) if table[n].kind == LOAD and table[n].dtype in HALVES)
        return [n for n in loads if (at := table[table[n].args[0]]).kind == AXIS and at.what == innermost]

    def _stored_cells(self) -> list[StoredCell]:
        table, number = self.lowered.table, self.lowered.cells
        passes = [(s, [number[f.element] for f in self.rows.folds if f.step == s]) for s in range(self.rows.steps)]
        # a scan reads the elements of a block again to find the one that changes the fold
        scanned = [f for f in self.rows.folds if self.fold(f).block_scan and self._rising(number[f.element]) is None]
        passes += [(f.step, [number[f.element]]) for f in scanned]
        passes = [*sorted(passes, key=lambda each: each[0]), (self.rows.steps, [self.lowered.element])]
        found = self._shared_with_result(passes)
        inside: list[Dim] = list(self.lowered.extents[self.kept :])
        axes = tuple(table.put(Cell(AXIS, "int64", (), self.kept + k)) for k in range(len(inside)))
        position = table.offset(axes, tuple(inside))
        keeps, in_result = [], self.rows.per_row or self.dtype in HALVES or not self.holds_in_result
        for cell, since in sorted(found.items()):
            dtype = computed_in(table[cell].dtype)
            if dtype == self.dtype and not in_result:
                in_result = True
                keeps.append(StoredCell(cell, since, self.result, self.lowered.offset))
                continue
            self.buffers.append((f"row{len(self.buffers)}", dtype))
            keeps.append(StoredCell(cell, since, self.buffers[-1][0], position))
        return keeps


def _shared_cells(table: Table, passes: Sequence[tuple[int, Sequence[int]]], kept: int, cheap: int) -> dict[int, int]:
    """The cells that cost more than ``cheap``, several passes need and the later pass reads unconditionally.

    The value: the step of the first pass of each.  ``passes``: the step and the roots of each pass.
    """
    first: dict[int, int] = {}
    found: dict[int, int] = {}
    for step, roots in passes:
        costs = _costs(table, kept, found)
        seen, stack = set[int](), list(roots)
        while stack:
            cell = stack.pop()
            if cell in seen or table.level[cell] <= kept:
                continue
            seen.add(cell)
            if cell in found or (cell in first and costs[cell] > cheap):
                found.setdefault(cell, first[cell])
                continue
            # only one branch of a select is computed, so its branches are not available
            whole = table[cell].kind != SELECT or table.movable[cell]
            stack += table[cell].args if whole else table[cell].args[:1]
        for cell in seen:
            first.setdefault(cell, step)
    return found


def _costs(table: Table, kept: int, known: Collection[int]) -> list[int]:
    """The cost of each cell per element of a row, if the ``known`` cells are stored."""
    costs: list[int] = []
    for number, cell in enumerate(table.table):
        own = cost_of(cell)
        if cell.kind in (LITERAL, AXIS) or table.level[number] <= kept or cell.dtype == "int64":
            own = 0
        whole = own + sum(costs[a] for a in cell.args if table.level[number] > kept)
        costs.append(1 if number in known else min(whole, 10**6))
    return costs


def _in_runs(
    regions: list[list[str]], extents: list[str], runs: Sequence[Run], step: list[str], first: int, of_halves: bool
) -> list[str]:
    """Loops around ``step``; the innermost loop is split into runs, whose results are combined one after another."""
    axis, size = f"i{first + len(extents) - 1}", extents[-1]
    lines = [f"{name} = {start}" for run in runs for name, start in run.state]
    inside = [f"{axis} = {axis}_run * {RUN} + {axis}_at", *regions[-1], *step]
    # two vectors at a time, if these are best for the element; as many, whatever is finished in the loop
    own = "filled_sum_range" if of_halves else "range" if calls_interleaved(regions[-1]) else "sum_range"
    lines += [f"for {axis}_at in {ranges(size, own)}(min({RUN}, {size} - {axis}_run * {RUN})):", *indented(inside)]
    lines += [line for run in runs for line in run.join]
    lines = [f"for {axis}_run in range(({size} + {RUN - 1}) // {RUN}):", *indented(lines)]
    return loops_around(regions[:-1], zero_if_empty(extents)[:-1], lines, first)


def range_of_stores(dtype: str, extent: str) -> str:
    """The function for the range of a loop that stores so many elements of ``dtype``."""
    return ranges(extent, "filled_range") if dtype in HALVES else "range"


def calls_interleaved(lines: Iterable[str]) -> bool:
    """Whether statements call a function that takes two vectors at a time."""
    called = {name for line in lines for name in _CALLED.findall(line)}
    functions = (getattr(module, name, None) for module in (vector_math, vector_power) for name in called)
    return any(getattr(function, "__interleaved__", False) for function in functions)
