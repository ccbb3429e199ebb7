"""Halves that are computed as float32 in a buffer, and rounded from there by vectors.

LLVM rounds halves one by one in a loop that it does not vectorise: for a function of a library, where the innermost loop is
short, and where a CPU reads elements one by one.  An example of the generated text, of a function of a library::

    v4 = alloc(2048)
    if v4 == 0:
        return OUT_OF_MEMORY
    v5, v6 = array_float32(v4, 256), array_float32(v4 + 1024, 256)
    for run in range(low0, high0, 256):
        count = min(256, high0 - run)
        for lane in filled_range(count):
            v6[uint64(lane)] = x1[uint64(run + lane)]
        for lane in range(count):
            i0 = run + lane
            v7 = v6[uint64(lane)]
            v5[uint64(lane)] = math.sin(v7)
        for lane in filled_range(count):
            x0[uint64(run + lane)] = v5[uint64(lane)]
    free(v4)

Of loops over few elements, or of elements read one by one, the buffer has all elements of the innermost loops whose number is
known, of some rows if they are very few.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ...core.tensor_types import HALVES, ITEMSIZE
from ...native.status import OUT_OF_MEMORY
from ...native.vector_registers import has_fast_gathers
from ..loop_nest.expression import APPLY, AXIS, LOAD
from ..loop_nest.expression_text import Python, element_of, indented, loops_around, unless_empty
from ..loop_nest.linear_index import Lowered
from ..loop_nest.scalar_functions import SCALAR_FUNCTIONS
from ..loop_nest.statements import KernelContext, Writer, always_evaluated
from .column_values import held_cells, hold_columns
from .partition import GRAIN, LEVELS, Partition, loops

#: Elements of a run of a function of a library.
RUN = 256
#: Loops over fewer elements are short; the fewest elements of a buffer for one row of short loops, and the most.
SHORT, LEAST, MOST = 8, 16, 1024
#: The names of functions of ``math``, and those of which a CPU computes vectors.
_OF_LIBRARY, _IN_VECTORS = re.compile(r"\bmath\.(\w+)"), ("fabs", "sqrt", "copysign", "isnan", "isinf", "isfinite")
_WIDE = "float32"


def narrowed_runs(lowered: Lowered, context: KernelContext, result: str, dtype: str) -> list[str] | None:
    """Statements of a nest without folds that stores elements of ``dtype`` in ``result``; None if it needs no buffer."""
    if dtype not in HALVES or lowered.folded or not lowered.extents:
        return None
    if len(lowered.extents) == 1:
        is_of_library = lowered.table[lowered.offset].kind == AXIS and _calls_library(lowered)
        return _of_library(lowered, context, result) if is_of_library else None
    # a float16 is rounded by one instruction
    lead = _lead([context.size(d) for d in lowered.extents], lowered) if dtype == "bfloat16" else 0
    return _of_short_loops(lowered, context, result, lead) if lead else None


def _calls_library(lowered: Lowered) -> bool:
    """Whether an element calls a function that is computed number by number."""
    table = lowered.table
    for cell in (table[number] for number in table.reached([lowered.element])):
        if cell.kind == APPLY:
            arguments = [table[a].dtype for a in cell.args]
            text = SCALAR_FUNCTIONS[cell.what].python(["x"] * len(arguments), arguments[0], cell.dtype)
            if any(name not in _IN_VECTORS for name in _OF_LIBRARY.findall(text)):
                return True
    return False


def _buffers(name: str, arrays: Sequence[str], length: int, leave: Sequence[str]) -> list[str]:
    """Statements that allocate ``arrays`` of ``length`` elements; ``leave``: those before a return."""
    nbytes = ITEMSIZE[_WIDE] * length
    made = [f"{array} = array_{_WIDE}({name} + {k * nbytes}, {length})" for k, array in enumerate(arrays)]
    refused = [f"if {name} == 0:", *indented([*leave, f"return {OUT_OF_MEMORY}"])]
    return [f"{name} = alloc({nbytes * len(arrays)})", *refused, *made]


def _of_library(lowered: Lowered, context: KernelContext, result: str) -> list[str]:
    """The statements of a single loop, run by run; halves at the loop's own index are widened by vectors."""
    table, memory, made = lowered.table, context.fresh(), context.fresh()
    own = context.with_language(Python((f"free({memory})",)))
    writer, given = Writer(table, 1, own), list[tuple[str, str]]()
    for number in sorted(always_evaluated(table, lowered.element)):
        cell = table[number]
        if cell.kind == LOAD and cell.dtype in HALVES and cell.args[0] == lowered.offset:
            array, name = context.fresh(), context.fresh()
            given.append((array, context.array(cell.what)))
            writer.regions[1].append(f"{name} = {element_of(array, 'lane')}")
            writer.top.names[number], writer.region[number] = name, 1
    computed = f"{element_of(made, 'lane')} = {writer.value(lowered.element)}"
    extents = [context.size(d) for d in lowered.extents]
    bounds = Partition(extents, GRAIN).bounds() if context.partitioned else [f"low0, high0 = 0, {extents[0]}"]
    widened = [f"{element_of(array, 'lane')} = {element_of(source, 'run + lane')}" for array, source in given]
    run = [
        f"count = min({RUN}, high0 - run)",
        *(["for lane in filled_range(count):", *indented(widened)] if widened else []),
        *("for lane in range(count):", *indented(["i0 = run + lane", *writer.regions[1], computed])),
        *("for lane in filled_range(count):", f"    {element_of(result, 'run + lane')} = {element_of(made, 'lane')}"),
    ]
    lines = [*writer.regions[0], *bounds, f"for run in range(low0, high0, {RUN}):", *indented(run)]
    lines = unless_empty(extents, lines) if writer.hoisted else lines
    return [*_buffers(memory, [made, *(array for array, _ in given)], RUN, ()), *lines, f"free({memory})"]


def _lead(extents: Sequence[str], lowered: Lowered) -> int:
    """The number of loops around a buffer for short loops; 0 for none."""
    is_in_order = lowered.nest.store == tuple(range(len(extents)))
    if not is_in_order or not extents[-1].isdigit() or not (int(extents[-1]) < SHORT or _gathers(lowered, int(extents[-1]))):
        return 0
    lead = len(extents) - 1
    while lead > 1 and extents[lead - 1].isdigit() and math.prod(map(int, extents[lead - 1 :])) <= MOST:
        lead -= 1
    each = math.prod(map(int, extents[lead:]))
    return lead if each >= LEAST or (each > 0 and lead <= LEVELS) else 0


def _gathers(lowered: Lowered, columns: int) -> bool:
    """Whether a row's elements, few enough for a buffer, are at positions that a column holds, and are read one by one."""
    return columns <= MOST and not has_fast_gathers() and bool(held_cells(lowered))


def _of_short_loops(lowered: Lowered, context: KernelContext, result: str, lead: int) -> list[str]:
    """The statements of several loops; the results of all loops behind the first ``lead`` are rounded together.

    If they are very few, those of some iterations of loop ``lead - 1``, a block, are.
    """
    memory, made, extents = context.fresh(), context.fresh(), [context.size(d) for d in lowered.extents]
    own, each = context.with_language(Python((f"free({memory})",))), math.prod(map(int, extents[lead:]))
    rows = 1 if each >= LEAST else MOST // each
    writer = Writer(lowered.table, len(extents), own)
    columns, leave = hold_columns(lowered, own, writer)
    element, names = writer.value(lowered.element), [f"i{k}" for k in range(len(extents))]
    own_row = [f"({names[lead - 1]} - first)"] if rows > 1 else []
    place = _position([*own_row, *names[lead:]], extents[lead - len(own_row) :])
    inside = loops_around(
        [[], *writer.regions[lead + 1 :]], extents[lead:], [f"{element_of(made, place)} = {element}"], lead,
        "rest_range" if columns and int(extents[-1]) < SHORT else "range",
    )  # fmt: skip
    n, count = min(lead, LEVELS), str(each)
    outer, regions = Partition(extents[:n]), writer.regions[: lead + 1]
    if rows > 1:
        limit, head = extents[lead - 1], f"for {names[lead - 1]} in range(first, first + count):"
        inside = [f"first = run * {rows}", f"count = min({rows}, {limit} - first)", head, *indented([*regions[lead], *inside])]
        outer = Partition([*extents[: lead - 1], f"(({limit} + {rows - 1}) // {rows})"], innermost="run")
        names[lead - 1], count, regions = "first", f"count * {each}", [*regions[:lead], []]
    stored = element_of(result, f"{_position(names[:lead], extents)} * {each} + lane")
    inside += [f"for lane in filled_range({count}):", f"    {stored} = {element_of(made, 'lane')}"]
    writer.regions[0] += [*columns, *_buffers(memory, [made], rows * each, leave)]
    lines = loops(own, regions, outer, extents[n:lead], inside)
    lines += [f"free({memory})", *leave]
    return unless_empty(extents, lines) if writer.hoisted else lines


def _position(names: Sequence[str], extents: Sequence[str]) -> str:
    """The position of an element in loops of these indices and sizes."""
    text = names[0]
    for name, extent in zip(names[1:], extents[1:], strict=False):
        text = f"({text} * {extent} + {name})"
    return text
