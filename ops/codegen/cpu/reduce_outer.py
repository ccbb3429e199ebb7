"""A reduction that keeps the innermost axis: fold many neighbouring columns at a time.

Memory is read in order.  The states of COLUMNS neighbouring results are stored in arrays.  ROWS_TOGETHER rows of COLUMNS elements
are folded at a time, so that the states are not loaded and stored for each row.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...native.status import EMPTY_REDUCTION, OUT_OF_MEMORY
from ..loop_nest.expression import CAST, LOCAL, Cell
from ..loop_nest.expression_text import Python, element_of, indented, loops_around, unless_empty, zero_if_empty
from ..loop_nest.linear_index import Lowered, Table
from ..loop_nest.reduction import fold, folded, is_widened
from ..loop_nest.statements import KernelContext, Writer
from .block_scan import is_short
from .partition import COLUMNS, Partition, loops

#: The number of rows that are folded together.
ROWS_TOGETHER = 8


class ColumnText:
    """Writes one reduction.  ``result``: the array of the result.  The order of loops: outer loops, folded loops, columns."""

    def __init__(self, lowered: Lowered, context: KernelContext, result: str) -> None:
        reduction = lowered.nest.reduction
        assert lowered.nest.columns and reduction is not None and reduction.operator.reduction is not None
        self.lowered, self.result, self.reduction, self.node = lowered, result, reduction.operator.reduction, reduction
        self.context = context.with_language(Python(("free(states)",)))
        self.extents = [context.size(d) for d in lowered.extents]
        self.around = len(self.extents) - lowered.folded - 1
        self.element_dtype = lowered.table[lowered.element].dtype
        self.fold = fold(self.reduction.combine, self.element_dtype, reduction.attrs, "s_")
        self.column = f"i{len(self.extents) - 1}"

    def lines(self) -> list[str]:
        """Statements of the nest."""
        around, inside, columns = self.extents[: self.around], self.extents[self.around : -1], self.extents[-1]
        writer = Writer(self.lowered.table, len(self.extents), self.context)
        element = writer.value(self.lowered.element)
        folding = self._folding(writer.regions[self.around + 1 :], inside, element)
        lines = self._blocks(writer.regions[: self.around + 1], folding)
        outer = [*around, columns]
        if writer.hoisted:
            # an empty axis must not be read ahead of its loop: the result is the fold's initial value
            lines = unless_empty([*outer, *inside], lines)
            if not self.fold.needs_one:
                lines += ["else:", *indented(self._blocks([[]], []))]
        if self.fold.needs_one:
            refused = unless_empty(outer, [f"return {EMPTY_REDUCTION}"])
            lines = [f"if {' or '.join(f'{e} == 0' for e in inside)}:", *indented(refused), *self._with_states(lines)]
            return lines
        return self._with_states(lines)

    def _with_states(self, lines: list[str]) -> list[str]:
        head, total = [], 0
        for (name, _), dtype in zip(self.fold.state, self.fold.dtypes, strict=True):
            head.append(f"{name}all = array_{dtype}(states + {total}, {COLUMNS})")
            total += 8 * COLUMNS
        opened = [f"blocks = ({self.extents[-1]} + {COLUMNS - 1}) // {COLUMNS}"]
        opened += [f"states = alloc({total})", "if states == 0:", f"    return {OUT_OF_MEMORY}"]
        return [*opened, *head, *lines, "free(states)"]

    def _blocks(self, regions: list[list[str]], folding: list[str]) -> list[str]:
        """The blocks of the partition.  ``regions``: per enclosing loop, the statements before it."""
        outer = Partition([*self.extents[: self.around], "blocks"], innermost="block")
        return loops(self.context, regions, outer, [], self._block(folding))

    def _block(self, folding: list[str]) -> list[str]:
        """One block of columns: initialise the states, fold (``folding``), store the results."""
        begin = self._each_column([f"{name}all[uint64(column)] = {value}" for name, value in self.fold.state])
        return [
            f"first = block * {COLUMNS}",
            f"columns = min({COLUMNS}, {self.extents[-1]} - first)",
            *begin,
            *folding,
            *self._each_column([*self._loaded(), *self._finish()]),
        ]

    def _each_column(self, lines: list[str], ranges: str = "range") -> list[str]:
        return [f"for column in {ranges}(columns):", *indented([f"{self.column} = first + column", *lines])]

    def _loaded(self) -> list[str]:
        return [f"{name} = {name}all[uint64(column)]" for name, _ in self.fold.state]

    def _folding(self, regions: list[list[str]], inside: list[str], element: str) -> list[str]:
        """The folded loops: the innermost one folds ROWS_TOGETHER rows per iteration, then the remaining rows.

        Halves of these rows are summed as a run, and multiplied in pairs.
        """
        step = self._step(folded(element, self.lowered.table, self.lowered.element, self.fold), self.fold.step)
        row, size = f"i{self.around + len(inside) - 1}", inside[-1]
        together = []
        is_of_halves = is_widened(self.lowered.table, self.lowered.element)
        run, pair = (self.fold.run, self.fold.pair) if is_of_halves else (None, None)
        called = "range"
        if is_of_halves:
            is_left = (self.fold.is_wide and not pair) or is_short(self.extents[-1])  # to LLVM
            called = "filled_short_range" if run else "range" if is_left else "filled_range"
        steps = [run.step] if run else [(pair.first,), (pair.second,)] if pair else []
        turns = [self._step(element, each) for each in steps] or [step]
        for k in range(ROWS_TOGETHER):
            together += [f"{row} = {row}_block * {ROWS_TOGETHER} + {k}", *regions[-2], *regions[-1], *turns[k % len(turns)]]
        if run is not None:
            together = [*(f"{name} = {start}" for name, start in run.state), *together, *run.join]
        lines = [
            f"for {row}_block in range({size} // {ROWS_TOGETHER}):",
            *indented(self._each_column([*self._loaded(), *together, *self._kept()], called)),
            f"for {row} in range({size} // {ROWS_TOGETHER} * {ROWS_TOGETHER}, {size}):",
            *indented([*regions[-2], *self._each_column([*regions[-1], *self._loaded(), *step, *self._kept()])]),
        ]
        return loops_around([[], *regions[:-2]], zero_if_empty(inside)[:-1], lines, self.around)

    def _kept(self) -> list[str]:
        return [f"{name}all[uint64(column)] = {name}" for name, _ in self.fold.state]

    def _step(self, element: str, step: Sequence[str]) -> list[str]:
        """Fold one element into the state of its column."""
        at = ""
        for loop, extent in enumerate(self.extents[self.around : -1], self.around):
            at = f"({at} * {extent} + i{loop})" if at else f"i{loop}"
        return [line.format(e=element, at=at) for line in step]

    def _finish(self) -> list[str]:
        """Store the result of a column from its state."""
        writer = Writer(self.lowered.table, len(self.extents), self.context)
        place = element_of(self.result, writer.value(self.lowered.offset))
        table = Table()
        number = f"({' * '.join(self.extents[self.around : -1])})"
        total = table.put(Cell(LOCAL, self.fold.dtype, (), self.fold.value.format(count=number)))
        if self.reduction.finish is not None:
            count = table.put(Cell(LOCAL, "int64", (), number))
            total = table.expression(self.reduction.finish(table.reference(total), table.reference(count)))
        dtype = self.node.outputs[0].dtype
        if table[total].dtype != dtype:
            total = table.put(Cell(CAST, dtype, (total,)))
        made = Writer(table, 0, self.context)
        value = made.value(total)
        above = [line for region in writer.regions for line in region]
        return [*above, *made.regions[0], f"{place} = {value}"]
