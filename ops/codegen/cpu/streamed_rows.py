"""Rows of a result too large for the caches: reads of memory, computation and writes overlap.

A row is finished while the next one is begun: in one loop, a vector of the row before is computed and written past the caches,
and a vector of this row is read, whose successors were asked for long before.  Else a processor waits for memory in some loops
and computes in others: its window of instructions is shorter than a loop over a row.

An example of the generated text::

    i0 = max(low0, 0)
    f0_before = float32(0)
    v7, v8 = i0 * s1, 1 / f0_before
    for row in range(i0, high0 + 1):
        i0 = min(row, high0 - 1)
        line = lines_from(x0, v7)
        for i1 in range(s1):
            store_past(line, i1, row0[i1] * v8)
            row0[i1] = exp(load_ahead(x1, i0 * s1 + i1))
        ...
        f0_before = f0
        v7, v8 = i0 * s1, 1 / f0_before

The first iteration writes the first row before it is known, and the second writes it again; the last begins the last row again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.tensor_types import is_float
from ..loop_nest.expression import GUARD, LOAD, LOCAL
from ..loop_nest.expression_text import indented
from ..loop_nest.linear_index import Lowered
from ..loop_nest.reduction import Fold
from ..loop_nest.row_passes import Rows
from ..loop_nest.statements import KernelContext, Writer
from .block_scan import ranges
from .moved_runs import base_of
from .partition import Partition
from .reduce_inner import RowLoops, RowText, StoredCell
from .streamed_elements import Ahead

#: The most vectors that a loop over a row takes at a time, each a cache line at most.  It sums elements that are left over in
#: another order than in a loop that finishes no row, so there must be none.
VECTORS = 4


def streamed_rows(lowered: Lowered, context: KernelContext, result: str, dtype: str) -> list[str] | None:
    """Statements of a nest whose rows are whole groups of VECTORS cache lines; None if its rows are not streamed."""
    nest, table = lowered.nest, lowered.table
    if not isinstance(nest, Rows) or nest.per_row or (len(lowered.extents), lowered.folded) != (2, 1) or not is_float(dtype):
        return None
    # a row that is not known yet must not be refused
    if any(cell.kind == GUARD for cell in table.table) or base_of(table, lowered.offset, 1) is None:
        return None
    text = _StreamedRows(lowered, context, result, dtype)
    return text.lines() if text.has_vectors() else None


class _StreamedRows(RowText):
    """Writes one nest whose result is too large for the caches."""

    holds_in_result = widens_columns = False

    def __init__(self, lowered: Lowered, context: KernelContext, result: str, dtype: str) -> None:
        super().__init__(lowered, context, result, dtype)
        kept, folds = {k.cell for k in self.keeps}, self.rows.folds
        first = next(lowered.cells[f.element] for f in folds if f.step == 0)
        read = lowered.table.reached([lowered.element], kept)
        #: The cell of the loop that finishes the row before: no later, since it stores the first value that the row needs.
        self.joined = next((k.cell for k in self.keeps if k.cell in read), first)
        loaded = self._params(lowered.table.reached([self.joined], kept - {self.joined}))
        later = self._params(read) - loaded
        self.asks = {self.joined: Ahead(loaded, lowered.offset), lowered.element: Ahead(later, lowered.offset)}
        self.line = context.fresh()
        self.finishes: list[str] = []

    def _params(self, cells: Iterable[int]) -> set[int]:
        """The parameters that cells load."""
        table = self.lowered.table
        return {table[number].what for number in cells if table[number].kind == LOAD}

    def has_vectors(self) -> bool:
        """Whether all loops are loops over vectors of elements, none of them masked."""
        folds = [self.fold(f) for f in self.rows.folds]
        return ranges(self.extents[1]) == "range" and not any(f.block_scan for f in folds)

    def lines(self) -> list[str]:
        """Statements of the nest.  No loop is empty: the result is large."""
        writer = self.writer(self.keeps, [self.lowered.element])
        before, unknown = [], []
        for number in sorted(self.lowered.table.reached([self.lowered.element])):
            cell = self.lowered.table[number]
            if cell.kind == LOCAL:
                name = f"{cell.what}_before"
                writer.top.names[number], writer.region[number] = name, self.lowered.table.level[number]
                before.append(f"{name} = {cell.what}")
                unknown.append(f"{name} = {cell.dtype}(0)")
        base = base_of(self.lowered.table, self.lowered.offset, 1)
        assert base is not None
        value, place = writer.value(self.lowered.element), writer.value(base)
        outside, row, inside = writer.regions
        self.finishes = [*inside, f"store_past({self.line}, uint64(i1), {value})"]
        body = self.passes([self.fold(f) for f in self.rows.folds], filled=True)
        each = [f"{self.line} = lines_from({self.result}, {place})", *body.lines, *before, *row]
        rows = ["for row in range(i0, high0 + 1):", *indented(["i0 = min(row, high0 - 1)", *each])]
        some = ["if low0 < high0:", *indented(["i0 = max(low0, 0)", *unknown, *row, *rows])]
        bounds = Partition(self.extents[:1]).bounds() if self.context.partitioned else [f"low0, high0 = 0, {self.extents[0]}"]
        return self.with_buffers([*outside, *body.outer[0], *bounds, *some])

    def store(self, body: RowLoops, filled: bool) -> None:
        """Nothing: the row is finished with the next one."""

    def writer(self, known: Iterable[StoredCell], roots: Sequence[int]) -> Writer:
        """As the writer of rows, with requests for elements."""
        writer = super().writer(known, roots)
        writer.language = self.asks.get(roots[0], writer.language)
        return writer

    def add(self, body: RowLoops, writer: Writer, lines: list[str], folds: Sequence[tuple[int, Fold]] = ()) -> None:
        """A loop over a row; with the statements that finish the row before, in the loop that is joined."""
        if writer.language is self.asks[self.joined]:
            lines, self.finishes = [*self.finishes, *lines], []
        super().add(body, writer, lines, folds)
