"""The text of reductions, and of groups that use what they give: the passes over one row after another.

What is costly to compute and needed in several passes is computed once for each row, in a loop of its own, and kept in a
*row buffer*: the row of the result where that has the right dtype, else memory of the kernel's own.  What is cheap is
computed again.  A loop that folds thus does little besides, and a loop that does much stores one thing, so that both take
many elements at a time.  Only sums in the elements' own dtype (``Fold.run``) are made in the loop that computes the elements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ...shape_funcs.dims import Dim
from ..native.status import EMPTY_REDUCTION, OUT_OF_MEMORY
from ..ty import HALVES, ITEMSIZE, computed_in
from .addresses import Lowered, Table
from .cost import cost_of
from .division import LEVELS, Divided, loops
from .expression import AXIS, LITERAL, SELECT, Cell
from .folding import RUN, Fold, Outlook, Run, fold
from .language import Python, element_of, indented, loops_around, none_if_empty, unless_empty
from .rows import RowFold, Rows
from .writer import Outside, Writer

#: How many elements are looked through at a time for one that changes the fold.
GLANCE = 256
#: What costs more than so many additions is not computed twice.
CHEAP = 8


@dataclass(frozen=True)
class Kept:
    """A cell whose values are kept for a row: from which pass on, under which name, at which offset."""

    cell: int
    since: int
    array: str
    offset: int


@dataclass
class _Body:
    """What stands in the innermost loop over rows; ``outer``: per loop around it, what stands there before."""

    outer: list[list[str]]
    lines: list[str] = field(default_factory=list)
    hoisted: bool = False


class RowText:
    """Writes one nest with folds.  ``result``: the array of the result, of dtype ``dtype``."""

    def __init__(self, lowered: Lowered, outside: Outside, result: str, dtype: str) -> None:
        assert isinstance(lowered.nest, Rows)
        self.lowered, self.rows, self.outside, self.result, self.dtype = lowered, lowered.nest, outside, result, dtype
        self.extents = [outside.size(d) for d in lowered.extents]
        self.kept = len(self.extents) - lowered.folded
        self.buffers: list[tuple[str, str]] = []  # the name of a row buffer of our own, and its dtype
        self.several = len(self.rows.folds) > 1 or not self.rows.per_row
        self.keeps = self._kept_values()
        if self.buffers:
            self.outside = outside.speaking(Python(("free(rows)",)))

    def lines(self) -> list[str]:
        """The statements."""
        folds = [self._fold(f) for f in self.rows.folds]
        body = self._passes(folds, filled=True)
        around = self.extents[: self.kept]
        lines = loops(self.outside, body.outer, Divided(around[:LEVELS]), around[LEVELS:], body.lines)
        inside = self.extents[self.kept :]
        refused: list[str] = []
        if any(f.needs_one for f in folds):
            refused = unless_empty(around, [f"return {EMPTY_REDUCTION}"])
            refused = [f"if {' or '.join(f'{e} == 0' for e in inside)}:", *indented(refused)] if inside else []
        if body.hoisted:
            # nothing may be read ahead for an empty axis: there the result is what the folds begin with
            lines = unless_empty(self.extents, lines)
            if self.rows.per_row and not refused and self.extents:
                empty = self._passes(folds, filled=False)
                lines += ["else:", *indented(loops_around(empty.outer, around, empty.lines))]
        return [*refused, *self._with_buffers(lines)]

    def _with_buffers(self, lines: list[str]) -> list[str]:
        if not self.buffers:
            return lines
        count = " * ".join(self.extents[self.kept :])
        head, total = [f"row_length = ({count} + 15) // 16 * 16"], "0"
        arrays = []
        for name, dtype in self.buffers:
            arrays.append(f"{name} = array_{dtype}(rows + {total}, row_length)")
            total = f"{total} + {ITEMSIZE[dtype]} * row_length" if total != "0" else f"{ITEMSIZE[dtype]} * row_length"
        head += [f"rows = alloc({total})", "if rows == 0:", f"    return {OUT_OF_MEMORY}", *arrays]
        return [*head, *lines, "free(rows)"]

    def _fold(self, f: RowFold) -> Fold:
        return fold(f.combine, self._dtype(f), f.attrs, f"{f.name}_")

    def _dtype(self, f: RowFold) -> str:
        return self.rows.cells[f.element].dtype

    # ---- passes ----------------------------------------------------------------------------------------------------------

    def _passes(self, folds: Sequence[Fold], filled: bool) -> _Body:
        """All passes over a row, or (not ``filled``) over one without elements."""
        body = _Body([[] for _ in range(self.kept + 1)])
        number = self.lowered.cells
        for step in range(self.rows.steps):
            keeps = [k for k in self.keeps if k.since == step] if filled else []
            mine = [(f, made) for f, made in zip(self.rows.folds, folds, strict=True) if f.step == step]
            body.lines += [f"{name} = {value}" for _, made in mine for name, value in made.state]
            if filled:
                self._pass(body, step, keeps, [(number[f.element], made) for f, made in mine])
            body.lines += [f"{f.name} = {made.value}" for f, made in mine]
        self._store(body, filled)
        return body

    def _pass(self, body: _Body, step: int, keeps: Sequence[Kept], folds: Sequence[tuple[int, Fold]]) -> None:
        """What is kept from this pass on, and what it folds; sums of runs are made as the last value is kept."""
        runs = [f for f in folds if self._runs(f[1])]
        for keep in keeps:
            before = [k for k in self.keeps if k.since < step or (k.since == step and k.cell < keep.cell)]
            last = keep is keeps[-1]
            writer = self._writer(before, [keep.cell, *(cell for cell, _ in runs if last)])
            offset, value = writer.value(keep.offset), writer.value(keep.cell)
            line = f"{element_of(keep.array, offset)} = {value}"
            self._add(body, writer, [line, *self._steps(writer, runs if last else [])], runs if last else [])
        rest = [f for f in folds if f not in runs or not keeps]
        # together, but for those that skip elements
        together = [f for f in rest if not f[1].outlook]
        for some in ([together] if together else []) + [[f] for f in rest if f[1].outlook]:
            writer = self._writer([k for k in self.keeps if k.since <= step], [cell for cell, _ in some])
            self._add(body, writer, self._steps(writer, some), some)

    def _runs(self, made: Fold) -> bool:
        """Are runs folded?  A fold whose elements are used nowhere else waits for memory, and may as well be exact."""
        return made.run is not None and self.several and len(self.extents) > self.kept

    def _steps(self, writer: Writer, folds: Sequence[tuple[int, Fold]]) -> list[str]:
        lines = []
        for cell, made in folds:
            text, step = writer.value(cell), made.run.step if made.run and self._runs(made) else made.step
            lines += [line.format(e=text, at=self._position()) for line in step]
        return lines

    def _store(self, body: _Body, filled: bool) -> None:
        """The result: in a loop of its own, unless it has one element per row."""
        if not self.rows.per_row and not filled:
            return
        writer = self._writer(self.keeps if filled else [], [self.lowered.element])
        line = f"{element_of(self.result, writer.value(self.lowered.offset))} = {writer.value(self.lowered.element)}"
        if not self.rows.per_row:
            self._add(body, writer, [line])
            return
        self._hoist(body, writer)
        body.lines += [*writer.regions[self.kept], line]

    def _hoist(self, body: _Body, writer: Writer) -> None:
        body.hoisted |= writer.hoisted
        for level in range(self.kept):
            body.outer[level] += writer.regions[level]

    def _add(self, body: _Body, writer: Writer, lines: list[str], folds: Sequence[tuple[int, Fold]] = ()) -> None:
        """A loop over a row."""
        self._hoist(body, writer)
        regions, inside = [[], *writer.regions[self.kept + 1 :]], self.extents[self.kept :]
        body.lines += writer.regions[self.kept]
        runs = [made.run for _, made in folds if made.run and self._runs(made)]
        if not inside:
            body.lines += lines
        elif folds and folds[0][1].outlook:
            text, position = writer.value(folds[0][0]), self._position()
            body.lines += _looked_through(regions, inside, folds[0][1].outlook, text, position, self.kept)
        elif runs:
            body.lines += _in_runs(regions, inside, runs, lines, self.kept)
        else:
            body.lines += loops_around(regions, none_if_empty(inside), lines, self.kept)

    def _writer(self, known: Iterable[Kept], roots: Sequence[int]) -> Writer:
        """A writer that reads what is kept."""
        writer = Writer(self.lowered.table, len(self.extents), self.outside)
        depth = len(self.extents)
        keeps = {k.cell: k for k in known}
        for cell in sorted(_reached(self.lowered.table, roots, set(keeps)) & set(keeps)):
            name = self.outside.fresh()
            offset = writer.value(keeps[cell].offset)
            writer.regions[depth].append(f"{name} = {element_of(keeps[cell].array, offset)}")
            writer.top.names[cell], writer.region[cell] = name, depth
        return writer

    def _position(self) -> str:
        """The number of an element among those of its row."""
        text = ""
        for loop, extent in list(enumerate(self.extents))[self.kept :]:
            text = f"({text} * {extent} + i{loop})" if text else f"i{loop}"
        return text or "0"

    # ---- what is kept ----------------------------------------------------------------------------------------------------

    def _kept_values(self) -> list[Kept]:
        table, number = self.lowered.table, self.lowered.cells
        steps = [[number[f.element] for f in self.rows.folds if f.step == s] for s in range(self.rows.steps)]
        found = _needed_again(table, [*steps, [self.lowered.element]], self.kept)
        inside: list[Dim] = list(self.lowered.extents[self.kept :])
        axes = tuple(table.put(Cell(AXIS, "int64", (), self.kept + k)) for k in range(len(inside)))
        position = table.offset(axes, tuple(inside))
        keeps, in_result = [], self.rows.per_row or self.dtype in HALVES
        for cell, since in sorted(found.items()):
            dtype = computed_in(table[cell].dtype)
            if dtype == self.dtype and not in_result:
                in_result = True
                keeps.append(Kept(cell, since, self.result, self.lowered.offset))
                continue
            self.buffers.append((f"row{len(self.buffers)}", dtype))
            keeps.append(Kept(cell, since, self.buffers[-1][0], position))
        return keeps


def _needed_again(table: Table, passes: Sequence[Sequence[int]], kept: int) -> dict[int, int]:
    """The costly cells of more than one pass that the later one begins with, and the first pass of each."""
    first: dict[int, int] = {}
    found: dict[int, int] = {}
    for number, roots in enumerate(passes):
        costs = _costs(table, kept, found)
        seen, stack = set[int](), list(roots)
        while stack:
            cell = stack.pop()
            if cell in seen or table.level[cell] <= kept:
                continue
            seen.add(cell)
            if cell in found or (cell in first and costs[cell] > CHEAP):
                found.setdefault(cell, first[cell])
                continue
            # of a choice only one side is computed: the sides are not known to be
            whole = table[cell].kind != SELECT or table.movable[cell]
            stack += table[cell].args if whole else table[cell].args[:1]
        for cell in seen:
            first.setdefault(cell, number)
    return found


def _costs(table: Table, kept: int, known: Collection[int]) -> list[int]:
    """What it takes to compute each cell for each element of a row, where ``known`` ones are kept."""
    costs: list[int] = []
    for number, cell in enumerate(table.table):
        own = cost_of(cell)
        if cell.kind in (LITERAL, AXIS) or table.level[number] <= kept or cell.dtype == "int64":
            own = 0
        whole = own + sum(costs[a] for a in cell.args if table.level[number] > kept)
        costs.append(1 if number in known else min(whole, 10**6))
    return costs


def _reached(table: Table, roots: Iterable[int], stops: set[int]) -> set[int]:
    """The cells that ``roots`` depend on, but for those behind ``stops``."""
    seen, stack = set[int](), list(roots)
    while stack:
        number = stack.pop()
        if number not in seen:
            seen.add(number)
            if number not in stops:
                stack += table[number].args
    return seen


def _in_runs(regions: list[list[str]], extents: list[str], runs: Sequence[Run], step: list[str], first: int) -> list[str]:
    """Loops around ``step``, the innermost one in runs, which are joined one after another."""
    axis, size = f"i{first + len(extents) - 1}", extents[-1]
    lines = [f"{name} = {start}" for run in runs for name, start in run.state]
    inside = [f"{axis} = {axis}_run * {RUN} + {axis}_at", *regions[-1], *step]
    lines += [f"for {axis}_at in range(min({RUN}, {size} - {axis}_run * {RUN})):", *indented(inside)]
    lines += [line for run in runs for line in run.join]
    lines = [f"for {axis}_run in range(({size} + {RUN - 1}) // {RUN}):", *indented(lines)]
    return loops_around(regions[:-1], none_if_empty(extents)[:-1], lines, first)


def _looked_through(
    regions: list[list[str]], extents: list[str], outlook: Outlook, text: str, position: str, first: int
) -> list[str]:
    """Loops around a fold, the innermost one GLANCE elements at a time, of which few are gone through one by one."""
    axis, size = f"i{first + len(extents) - 1}", extents[-1]

    def each(step: Sequence[str]) -> list[str]:
        inside = [f"{axis} = {axis}_run * {GLANCE} + {axis}_at", *regions[-1]]
        inside += [line.format(e=text, at=position) for line in step]
        return [f"for {axis}_at in range(min({GLANCE}, {size} - {axis}_run * {GLANCE})):", *indented(inside)]

    lines = [f"{name} = {start}" for name, start in outlook.best.state]
    lines += [*each(outlook.best.step), f"if not ({outlook.nothing}):", *indented(each(outlook.find))]
    lines = [f"for {axis}_run in range(({size} + {GLANCE - 1}) // {GLANCE}):", *indented(lines)]
    return loops_around(regions[:-1], none_if_empty(extents)[:-1], lines, first)
