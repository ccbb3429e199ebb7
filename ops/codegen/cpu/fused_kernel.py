"""Generate the kernel of a fused group: one loop nest per result.

If all operands share the result's memory layout, the kernel has a flat loop over all elements besides the general nest.  The
flat loop vectorises.  Its condition is decided at compile time or at the beginning of the kernel.  Similarly, the kernel has
loops over rows and columns for operands that turn out at run time not to be broadcast along an axis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ...core.group import Group
from ...core.group_memo import per_group
from ...core.tensor_types import ITEMSIZE, computed_in, is_float
from ...native.front_end import vector_hints
from ...native.jit import block_transpose, non_temporal, prefetch
from ...native.threads import work_partition
from ...native.vector_registers import has_fast_gathers
from ..loop_nest import vector_math, vector_power
from ..loop_nest.expression import LOAD
from ..loop_nest.expression_text import Python, element_of, indented, unless_empty
from ..loop_nest.linear_index import Lowered, flat, general, over_channels, without_broadcast
from ..loop_nest.moved_words import WORD, in_words
from ..loop_nest.row_passes import Rows
from ..loop_nest.size_prologue import Sizes
from ..loop_nest.statements import KernelContext, Writer
from .column_values import hold_columns
from .kernel_source import KernelSource, either, same_address
from .loop_plan import plan, plans, rounded_by_store
from .moved_runs import moved_run
from .narrowed_runs import narrowed_runs
from .partition import GRAIN, LEVELS, Partition, loops, partition_prologue
from .reduce_inner import RowText, range_of_stores
from .reduce_outer import ColumnText
from .split_loops import Segment, joined_segments, segments
from .stored_halves import stored_halves
from .streamed_elements import streamed_elements
from .streamed_rows import VECTORS, streamed_rows
from .tiling import TileText, order_for_tiles, transposed_loads, word_of

#: The functions that generated texts may call, by name.
_MODULES = (vector_hints, vector_math, vector_power, work_partition, block_transpose, non_temporal, prefetch)
BODIES = {name: f for module in _MODULES for name, f in vars(module).items() if hasattr(f, "__native__")}
_CALLS = re.compile(r"\b[a-z]\w*(?=\()")


@per_group
def source(group: Group) -> KernelSource:
    """The kernel of a group of fusable operators: plain Python in the subset of native functions.

    Equal groups give equal text.  Raises TooComplex if the operators should not have been fused.
    """
    group = in_words(group)
    text = _text(group, {})
    if group.in_place:
        # Compare the addresses explicitly: else the compiler must assume a partial overlap.
        positions = {param: len(group.params) + result for param, result in group.in_place}
        text = either(same_address(positions), _text(group, positions), text)
    return KernelSource(text, bodies=bodies_of(text))


def bodies_of(text: str) -> tuple[Callable[..., Any], ...]:
    """The functions that a generated text calls."""
    return tuple(BODIES[name] for name in sorted(set(_CALLS.findall(text)) & set(BODIES)))


def _reads_long(lowered: Lowered) -> bool:
    """Whether elements of 8 bytes are read, of which LLVM takes half as many at a time, and none of them is a position."""
    table = lowered.table
    loads = [cell for cell in table.table if cell.kind == LOAD]
    positions = table.reached([a for cell in loads for a in cell.args])
    return any(ITEMSIZE[cell.dtype] == 8 for cell in loads) and not any(table[n].kind == LOAD for n in positions)


def _text(group: Group, positions: Mapping[int, int]) -> str:
    """The kernel text; each key of ``positions`` is a parameter that has the address of the tensor at the value (positions)."""
    kernel = CpuKernel(group, positions)
    kernel.stored = stored_halves(group)
    request = partition_prologue(kernel, plans(group))
    kernel.context.partitioned = bool(request)
    kernel.prologue += request
    body = [line for ref in group.results for line in kernel.lines(ref)]
    return "\n".join(["def kernel(argv, n):", *indented([*kernel.prologue, *body, "return 0"])]) + "\n"


class CpuKernel(Sizes):
    """The text of one kernel, and its prologue: addresses, sizes and arrays, each defined once."""

    def __init__(self, group: Group, positions: Mapping[int, int]) -> None:
        super().__init__(group, Python())
        self.positions = positions
        self.stored: Mapping[int, str] = {}
        self.context = KernelContext(self.size, self.array, self.language)

    # ---- prologue --------------------------------------------------------------------------------------------------------

    def prefer(self, position: int) -> None:
        """Read each size that the tensor at ``position`` has from this tensor."""
        self._sizes |= {d: (position, axis) for axis, d in enumerate(self.tensors[position].shape)}

    def define(self, name: str, text: str) -> str:
        return f"{name} = {text}"

    def _address(self, position: int) -> str:
        position = self.positions.get(position, position)
        return self.once(("address", position), "t", f"load_i64(argv + {8 * position})")

    def array(self, position: int) -> str:
        """The array of a parameter, or of a result (results follow the parameters)."""
        return self._elements(position, self.tensors[position].dtype + self.stored.get(position, ""), "x")

    def words(self, position: int) -> str:
        """The same elements as unsigned integers."""
        return self._elements(position, word_of(self.tensors[position].dtype), "w")

    def _elements(self, position: int, dtype: str, prefix: str) -> str:
        tensor = self.tensors[position]
        sizes = [self.size(d) for d in tensor.shape if const(d) != 1] or ["1"]
        count = sizes[0] if len(sizes) == 1 else self.once(("count", tensor.shape), "c", " * ".join(sizes))
        address = self._address(position)
        return self.once((prefix, position), prefix, f"array_{dtype}(tensor({address}).data, {count})")

    def axis(self, position: int, axis: int) -> str:
        return f"tensor({self._address(position)}).shape[{axis}]"

    def element(self, position: int, number: int) -> str:
        return f"{'float64' if is_float(self.tensors[position].dtype) else 'int64'}({self.array(position)}[{number}])"

    # ---- loops -----------------------------------------------------------------------------------------------------------

    def lines(self, ref: int) -> list[str]:
        """Statements that compute one result."""
        nest = rounded_by_store(order_for_tiles(self.group, plan(self.group, ref)))
        if nest.columns:
            return self._loops(general(self.group, nest))
        found = self._split_loops(ref, segments(nest))
        if found is not None:
            return found
        quick = flat(self.group, nest), without_broadcast(self.group, nest, joined=True)
        variants = [v for v in quick if v is not None]
        # a chain of conditions: the first variant whose condition holds runs
        text: list[str] = []
        for variant in variants[:1] if variants and not nest.folded else variants:
            if not variant.equal:
                return [*text, "else:", *indented(self._loops(variant))] if text else self._loops(variant)
            condition = " and ".join(f"{self.size(a)} == {self.size(b)}" for a, b in variant.equal)
            text += [f"{'el' if text else ''}if {condition}:", *indented(self._loops(variant))]
        long = self._loops(over_channels(self.group, nest) or general(self.group, nest, joined=True))
        return [*text, "else:", *indented(long)] if text else long

    def _loops(self, lowered: Lowered) -> list[str]:
        folded = len(lowered.extents) - lowered.folded - lowered.nest.columns
        kept = [*lowered.extents[:folded], *lowered.extents[len(lowered.extents) - lowered.nest.columns :]]
        return self._unless_empty(kept, self._nest(lowered))

    def _unless_empty(self, kept: Sequence[Dim], lines: list[str]) -> list[str]:
        """Guard statements against an empty result: an outer loop of up to 2**60 iterations must not run around an empty one."""
        sizes = [self.size(d) for d in kept if const(d) in (None, 0)]
        return unless_empty(sizes, lines) if len(kept) > 1 else lines

    def _nest(self, lowered: Lowered) -> list[str]:
        ref = lowered.nest.result
        position = len(self.group.params) + self.group.results.index(ref)
        found = transposed_loads(self.group, lowered)
        if found:
            return TileText(self.group, lowered, found, self.context, position, self.words).lines()
        result = self.array(position)
        if isinstance(lowered.nest, Rows):
            return self._rows(lowered, position)
        if lowered.nest.columns:
            return ColumnText(lowered, self.context, result).lines()
        plain = self._one_nest(lowered, position)
        if not self._may_be_large(position):
            return plain
        if self._moves_long_runs(lowered, position):
            return self._past_caches(position, lowered.extents[-1], self._one_nest(lowered, position, moving=True), plain)
        streamed = streamed_elements(lowered, self.context, result) if self._may_stream(position) else None
        return self._if_large(result, lowered.extents[1:], 1, streamed, plain)

    def _may_stream(self, position: int) -> bool:
        """Whether a result may be streamed: not in the memory of an operand, whose lines are in a cache when they are written."""
        return self._may_be_large(position) and position not in self.positions.values()

    def _if_large(self, result: str, run: Sequence[Dim], lines: int, streamed: list[str] | None, plain: list[str]) -> list[str]:
        """The streamed loops, where a result is too large for the caches and its runs are groups of whole lines; else the plain.

        ``run``: the sizes of loops, the last of which is a run; none for a single loop, which is one run.
        """
        if streamed is None:
            return plain
        large = f"lines_past_caches({result}, {self.size(run[-1]) if run else 0}, {lines})"
        return [f"if {large}:", *indented(streamed), "else:", *indented(plain)]

    def _moves_long_runs(self, lowered: Lowered, position: int) -> bool:
        """Whether the innermost loop only moves runs, which may be long."""
        if len(lowered.extents) == 1 or moved_run(self.group, lowered) is None:
            return False
        run = const(lowered.extents[-1])
        return run is None or run * ITEMSIZE[self.tensors[position].dtype] >= non_temporal.SHORTEST_RUN_BYTES

    def _rows(self, lowered: Lowered, position: int) -> list[str]:
        """The loops of a nest of rows."""
        result, dtype = self.array(position), self.tensors[position].dtype
        plain = RowText(lowered, self.context, result, dtype).lines()
        streamed = streamed_rows(lowered, self.context, result, dtype) if self._may_stream(position) else None
        return self._if_large(result, lowered.extents, VECTORS, streamed, plain)

    def _one_nest(self, lowered: Lowered, position: int, moving: bool = False) -> list[str]:
        """One loop per extent around the statement that stores an element; ``moving``: or that moves a run."""
        narrowed = None if moving else narrowed_runs(lowered, self.context, self.array(position), self.tensors[position].dtype)
        if narrowed is not None:
            return narrowed
        writer = Writer(lowered.table, len(lowered.extents), self.context)
        extents = [self.size(d) for d in lowered.extents]
        before, after = list[str](), list[str]()
        if moving:
            inner, body = extents[:-1], self._moved(lowered, writer, position, "0", extents[-1])
        else:
            before, after = hold_columns(lowered, self.context, writer)
            element = writer.value(lowered.element)
            inner, body = extents, [f"{element_of(self.array(position), writer.value(lowered.offset))} = {element}"]
        # the innermost of several loops is never partitioned, so it compiles as in a sequential kernel
        writer.regions[0] += before
        n = min(len(extents) - 1, LEVELS) if len(extents) > 1 else len(extents)
        partition = Partition(extents[:n], grain=GRAIN if len(extents) == 1 else 1)
        dtype = self.tensors[position].dtype
        called = "range" if moving or not extents else range_of_stores(dtype, extents[-1])
        if before and computed_in(dtype) == "float32" and has_fast_gathers():
            called = "rest_range"  # elements at positions that a column holds: LLVM cannot tell them apart
        elif dtype == WORD and _reads_long(lowered):
            called = "filled_range"
        lines = [*loops(self.context, writer.regions, partition, inner[n:], body, called), *after]
        return unless_empty(extents, lines) if writer.hoisted else lines

    def _may_be_large(self, position: int) -> bool:
        """Whether a tensor may be too large for the caches: a kernel of known, smaller sizes has one nest, compiled sooner."""
        elements = const(product(self.tensors[position].shape))
        return elements is None or elements * ITEMSIZE[self.tensors[position].dtype] >= non_temporal.NON_TEMPORAL_BYTES

    def _past_caches(self, position: int, innermost: Dim, moved: list[str], plain: list[str]) -> list[str]:
        """The loops ``moved``, which move runs, if the result is too large for the caches; else ``plain``, which are shorter."""
        large = f"moves_past_caches({self.words(position)}, {self.size(innermost)})"
        return [f"if {large}:", *indented(moved), "else:", *indented(plain)]

    def _moved(self, lowered: Lowered, writer: Writer, position: int, start: str, stop: str) -> list[str]:
        """The innermost loop from ``start`` to ``stop``, which only moves elements, as one statement."""
        run = moved_run(self.group, lowered)
        assert run is not None
        source, target = (writer.value(base) for base in (run.source, run.target))
        if start != "0":
            source, target, stop = f"{source} + {start}", f"{target} + {start}", f"{stop} - {start}"
        return [f"move_run({self.words(run.param)}, {source}, {self.words(position)}, {target}, {stop})"]

    def _split_loops(self, ref: int, parts: Sequence[Segment]) -> list[str] | None:
        """One innermost loop per segment.  None for a single segment, or if a load would be hoisted above an empty loop."""
        if len(parts) == 1:
            return None
        lowered = joined_segments(self.group, parts) or [general(self.group, segment.nest) for segment in parts]
        position = len(self.group.params) + self.group.results.index(ref)
        plain = self._segments(ref, parts, lowered)
        if plain is None or not self._may_be_large(position) or not all(moved_run(self.group, one) for one in lowered):
            return plain
        moved = self._segments(ref, parts, lowered, moving=True)
        return None if moved is None else self._past_caches(position, lowered[0].extents[-1], moved, plain)

    def _segments(self, ref: int, parts: Sequence[Segment], nests: Sequence[Lowered], moving: bool = False) -> list[str] | None:
        """One innermost loop per segment, or the run that it moves."""
        position = len(self.group.params) + self.group.results.index(ref)
        around, inside = [self.size(d) for d in nests[0].extents[:-1]], list[str]()
        outer: list[list[str]] = [[] for _ in range(len(around) + 1)]
        for segment, lowered in zip(parts, nests, strict=True):
            writer = Writer(lowered.table, len(lowered.extents), self.context)
            guards = [(writer.value(lowered.cells[cell]), value) for cell, value in segment.guards]
            is_whole = segment.start is dim(0) and segment.stop is segment.nest.dims[-1]
            start, stop = self.size(segment.start), self.size(lowered.extents[-1] if is_whole else segment.stop)
            if self.context.partitioned and not around:
                start, stop = f"max({start}, low0)", f"min({stop}, high0)"
            if moving:
                lines = self._moved(lowered, writer, position, start, stop)
            else:
                element = writer.value(lowered.element)
                stored = f"{element_of(self.array(position), writer.value(lowered.offset))} = {element}"
                lines = [f"for i{len(around)} in range({start}, {stop}):", *indented([*writer.regions[-1], stored])]
            if writer.hoisted:
                return None
            for hoisted, more in zip(outer, writer.regions, strict=False):
                hoisted += more
            conditions = " and ".join(text if value else f"not {text}" for text, value in guards)
            inside += [f"if {conditions}:", *indented(lines)] if conditions else lines
        if self.context.partitioned and not around:
            return [*Partition([self.size(nests[0].extents[-1])], GRAIN).bounds(), *outer[0], *inside]
        lines = loops(self.context, outer, Partition(around[:LEVELS]), around[LEVELS:], inside)
        return self._unless_empty(self.group.values()[ref].shape, lines)
