"""Values that depend on the innermost loop's index alone: compute them once, before the loops, not again for each row.

An example are the positions of a resize, which are the same for all rows of an image.

Example of the generated text::

    columns = alloc(8 * s2)
    if columns == 0:
        return OUT_OF_MEMORY
    column0 = array_int64(columns + 0, s2)
    for i1 in range(s2):
        ...
        column0[uint64(i1)] = v7
    for i0 in range(s1):
        for i1 in range(s2):
            v8 = column0[uint64(i1)]
            ...
    free(columns)
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.tensor_types import ITEMSIZE, computed_in
from ...native.status import OUT_OF_MEMORY
from ..loop_nest.cost import cost_of
from ..loop_nest.expression import APPLY, AXIS, GUARD
from ..loop_nest.expression_text import element_of, indented
from ..loop_nest.linear_index import Lowered, Table
from ..loop_nest.statements import KernelContext, Writer

#: A value whose cost in additions is below WORTH is computed again in each row: it takes as long to load.
WORTH = 12


def hold_columns(lowered: Lowered, context: KernelContext, writer: Writer) -> tuple[list[str], list[str]]:
    """Make ``writer`` read the values that depend on the innermost index alone from arrays.

    Return the statements that fill the arrays, and those that free them after the loops.  The first come after all statements
    that ``writer`` places before the loops.
    """
    table, depth = lowered.table, len(lowered.extents)
    held = held_cells(lowered)
    if not held:
        return [], []
    own, size = Writer(table, depth, context), context.size(lowered.extents[-1])
    at, offset, arrays, stores = f"i{depth - 1}", "0", list[str](), list[str]()
    for k, cell in enumerate(held):
        dtype = computed_in(table[cell].dtype)
        arrays.append(f"column{k} = array_{dtype}(columns + {offset}, {size})")
        stores.append(f"{element_of(f'column{k}', at)} = {own.value(cell)}")
        offset = f"{offset} + {ITEMSIZE[dtype]} * {size}" if k else f"{ITEMSIZE[dtype]} * {size}"
        name = context.fresh()
        writer.regions[depth].append(f"{name} = {element_of(f'column{k}', at)}")
        writer.top.names[cell], writer.region[cell] = name, depth
    before = [f"columns = alloc({offset})", "if columns == 0:", f"    return {OUT_OF_MEMORY}", *arrays, *own.regions[0]]
    return [*before, f"for {at} in range({size}):", *indented([*own.regions[depth], *stores])], ["free(columns)"]


def held_cells(lowered: Lowered) -> list[int]:
    """The cells that ``hold_columns`` holds."""
    depth = len(lowered.extents)
    return _held(lowered.table, (lowered.element, lowered.offset), depth) if depth > 1 else []


def _held(table: Table, roots: Sequence[int], depth: int) -> list[int]:
    """The cells of the table that arrays hold: such of the innermost index alone, at a cost of WORTH or more, that others read.

    None if a check in the loops may end them: values after the check must not be computed before it.
    """
    reached = table.reached(roots)
    if any(table[number].kind == GUARD and table.level[table[number].args[0]] > 0 for number in reached):
        return []
    alone = {number for number in reached if _is_alone(table, number, depth)}
    read = {*roots, *(a for number in reached - alone for a in table[number].args)} & alone
    return sorted(number for number in read if _cost(table, number) >= WORTH)


def _is_alone(table: Table, number: int, depth: int) -> bool:
    """Whether a number may be computed before the loops, from the innermost index and what no loop changes."""
    is_of_loop = table.level[number] == depth and table.axes([number]) == {depth - 1}
    return is_of_loop and table.movable[number] and table[number].kind != AXIS and table[number].dtype != "bool"


def _cost(table: Table, number: int) -> int:
    cells = (table[n] for n in table.reached([number]) if table.level[n] > 0)
    return sum(cost_of(cell) for cell in cells if cell.kind == APPLY)
