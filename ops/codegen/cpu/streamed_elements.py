"""Elements of a result too large for the caches: operands are asked for long before, and the result is written past the caches.

An example of the generated text::

    for i0 in range(max(low0, 0), high0):
        line = lines_from(x0, i0 * s1)
        for i1 in range(s1):
            store_past(line, uint64(i1), load_ahead(x1, uint64(i0 * s1 + i1)) + x2[uint64(i1)])
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..loop_nest.expression import LOAD, Cell, Cells
from ..loop_nest.expression_text import Python, indented
from ..loop_nest.linear_index import Lowered
from ..loop_nest.statements import KernelContext, Writer
from .moved_runs import base_of
from .partition import GRAIN, LEVELS, Partition, loops


class Ahead(Python):
    """The language of a loop that asks for the elements of ``params`` long before it reads them.

    Only for elements at ``offset``, a cell, which follow each other in memory as the loops read them.  Behind other elements the
    lines may be those that no iteration reads, or that all iterations read.
    """

    def __init__(self, params: Collection[int], offset: int) -> None:
        super().__init__()
        self.params, self.offset = params, offset

    def expression(self, cell: Cell, args: list[str], cells: Cells, array: Callable[[int], str]) -> str:
        if cell.kind == LOAD and cell.what in self.params and cell.args[0] == self.offset:
            return f"load_ahead({array(cell.what)}, uint64({args[0]}))"
        return super().expression(cell, args, cells, array)


def streamed_elements(lowered: Lowered, context: KernelContext, result: str) -> list[str] | None:
    """Statements of a nest whose innermost loop writes whole cache lines; None if its elements are not streamed."""
    table, last = lowered.table, len(lowered.extents) - 1
    params = {cell.what for cell in table.table if cell.kind == LOAD}
    base = base_of(table, lowered.offset, last) if lowered.extents else None
    if base is None or not params:
        return None
    writer, line = Writer(table, last + 1, context), context.fresh()
    writer.language = Ahead(params, lowered.offset)
    place, value = writer.value(base), writer.value(lowered.element)
    if writer.hoisted:
        return None
    extents = [context.size(d) for d in lowered.extents]
    if last:
        n, store = min(last, LEVELS), f"store_past({line}, uint64(i{last}), {value})"
        writer.regions[last].append(f"{line} = lines_from({result}, {place})")
        return loops(context, writer.regions, Partition(extents[:n]), extents[n:], [store])
    # counted from the first element of the part, which begins a line: so the vectors begin lines, too
    bounds = Partition(extents, GRAIN).bounds() if context.partitioned else [f"low0, high0 = 0, {extents[0]}"]
    inside = ["i0 = low0 + at", *writer.regions[1], f"store_past({line}, uint64(at), {value})"]
    each = [f"{line} = lines_from({result}, low0)", "for at in range(high0 - low0):", *indented(inside)]
    return [*writer.regions[0], *bounds, "if low0 < high0:", *indented(each)]  # the end of an empty part begins no line
