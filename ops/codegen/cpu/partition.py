"""Loops that are partitioned between threads: each part of a kernel runs its partition of the outer loops.

An example of the generated text::

    pieces = s0 * s1
    low1, high1 = first_of(share, pieces, 1), end_of(share, pieces, 1)
    low0, high0 = rows_before(share, low1, s1), rows_begun(share, high1, s1, s0)
    for i0 in range(max(low0, 0), high0):
        before1 = i0 * s1
        for i1 in range(max(low1 - before1, 0), min(high1 - before1, s1)):

The parts of a kernel write disjoint results, so results do not depend on the number of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ....shape_funcs.symbolic.dim import Dim, const, product
from ...native.threads import work_partition as of_work
from ...native.threads.work_partition import WORTH_A_THREAD
from ..loop_nest.cost import cost_of_element
from ..loop_nest.expression_text import indented, loops_around
from ..loop_nest.inlining import Nest
from ..loop_nest.size_prologue import Sizes
from ..loop_nest.statements import KernelContext

#: The largest number of partitioned loops: the outermost loop alone is often too short.
LEVELS = 3
#: A reduction along an axis other than the last is partitioned at multiples of COLUMNS columns, which are folded together.  Their
#: states take COLUMNS times 8 to 32 bytes.  With fewer columns the strides through memory are too short.
COLUMNS = 2048
#: Parameters of a body with blocks: the range of blocks that its thread computes in order, in this call and those around it.
RANGE_OF_THREAD: dict[str, Callable[..., int]] = {
    "thread_low": of_work.first_of_thread,
    "thread_high": of_work.end_of_thread,
}
#: A flat loop is partitioned at multiples of GRAIN: whole cache lines, and whole iterations of a vectorised loop.
GRAIN = 64


def loops(
    context: KernelContext,
    regions: list[list[str]],
    outer: Partition,
    extents: list[str],
    innermost: list[str],
    ranges: str = "range",
) -> list[str]:
    """``loops_around`` for the loops ``outer`` and, inside them, the loops of ``extents``.

    In a partitioned kernel the outer loops run over their partition only.
    """
    n = len(outer.extents)
    lines = loops_around([[], *regions[n + 1 :]], extents, innermost, n, ranges)
    if context.partitioned and n == 0:
        return [*regions[0], "for _ in range(first_of(share, 1, 1), end_of(share, 1, 1)):", *indented(lines)]
    for k in reversed(range(n)):
        called = ranges if k == n - 1 and not extents else "range"
        head = outer.head(k, called) if context.partitioned else [f"for {outer.names[k]} in {called}({outer.extents[k]}):"]
        lines = [*head, *indented([*(regions[k + 1] if k + 1 < len(regions) else []), *lines])]
    return [*regions[0], *(outer.bounds() if context.partitioned else []), *lines]


class Partition:
    """The partitioned loops: their extents and variables.  ``grain``: each boundary is a multiple of it."""

    def __init__(self, extents: Sequence[str], grain: int = 1, innermost: str | None = None) -> None:
        self.extents, self.grain = extents, grain
        self.names = [f"i{k}" for k in range(len(extents))]
        if innermost is not None:
            self.names[-1] = innermost

    def bounds(self) -> list[str]:
        """Statements that compute the bounds of each loop, counted in iterations of that loop and the loops around it."""
        last = len(self.extents) - 1
        lines = [f"pieces = {' * '.join(self.extents)}"]
        lines.append(f"low{last}, high{last} = first_of(share, pieces, {self.grain}), end_of(share, pieces, {self.grain})")
        for k in reversed(range(last)):
            inside, rows = self.extents[k + 1], " * ".join(self.extents[: k + 1])
            low, high = f"rows_before(share, low{k + 1}, {inside})", f"rows_begun(share, high{k + 1}, {inside}, {rows})"
            lines.append(f"low{k}, high{k} = {low}, {high}")
        return lines

    def head(self, k: int, ranges: str = "range") -> list[str]:
        """The head of a loop over the result of ``ranges``, preceded by the number of iterations before the loop."""
        name, extent = self.names[k], self.extents[k]
        if k == 0:
            # LLVM generates better code for an index known not to be negative
            return [f"for {name} in {ranges}(max(low0, 0), high0):"]
        before = f"before{k} = {'i0' if k == 1 else f'(before{k - 1} + i{k - 1})'} * {extent}"
        return [before, f"for {name} in {ranges}(max(low{k} - before{k}, 0), min(high{k} - before{k}, {extent})):"]


def partition_prologue(sizes: Sizes, nests: Sequence[Nest]) -> list[str]:
    """The beginning of a kernel: its partition, and the request for threads.  Empty if the kernel is never partitioned."""
    counts = [product(_partitioned_extents(nest)) for nest in nests]
    work = [product(nest.dims) * cost_of_element(nest.cells, nest.roots) for nest in nests]
    if all(const(k) == 1 for k in counts):
        return []
    known = [const(w) for w in work]
    if None not in known and sum(w for w in known if w is not None) <= WORTH_A_THREAD:
        return []
    total = " + ".join(_work(sizes, nest) for nest in nests)
    each = [_partition_limit(sizes, nest) for nest in nests]
    most = each[0] if len(each) == 1 else f"max({', '.join(each)})"
    return request_threads(total, most)


def request_threads(work: str, most: str) -> list[str]:
    """The partition and the request for threads: ``work`` units of work for at most ``most`` threads."""
    lines = ["share = load_i64(argv + 8 * n + 8)", f"wanted = threads_wanted(share, {work}, {most})"]
    return [*lines, "if wanted != 0:", *indented(["return -wanted"])]


def block_range(
    count: str, work: str, most: str, together: str, taken: Collection[str]
) -> tuple[list[str], tuple[Callable[..., int], ...]]:
    """The request for threads and the blocks ``low`` to ``high`` of a part, of ``count`` blocks; and the functions that it calls.

    ``together``: the neighbours that a part prepares once for; ``taken``: names of ranges that are wanted (RANGE_OF_THREAD).
    """
    grain = "1" if together == "1" else f"grain_of(share, {count}, {together})"
    lines = [*request_threads(work, most), f"grain = {grain}"]
    lines.append(f"low, high = first_of(share, {count}, grain), end_of(share, {count}, grain)")
    if together != "1":  # parts after the first may be empty
        lines += ["if low == high and not is_first(share):", "    return 0"]
    ranges = {name: f for name, f in RANGE_OF_THREAD.items() if name in taken}
    lines += [f"{name} = {f.__name__}(share, {count}, grain)" for name, f in ranges.items()]
    called = of_work.threads_wanted, of_work.grain_of, of_work.first_of, of_work.end_of, of_work.is_first
    return lines, (*called, *ranges.values())


def _work(sizes: Sizes, nest: Nest) -> str:
    return f"{_times(sizes, nest.dims)} * {cost_of_element(nest.cells, nest.roots)}"


def _times(sizes: Sizes, dims: Sequence[Dim]) -> str:
    """A product, size by size.  The symbol of a whole product might not be found among the result's sizes, and would then be
    computed from data, which may be absent."""
    return " * ".join(sizes.size(d) for d in dims) or "1"


def _partition_limit(sizes: Sizes, nest: Nest) -> str:
    if not nest.columns:
        return _times(sizes, _partitioned_extents(nest))
    outer = [f"{_times(sizes, nest.dims[: -nest.folded - 1])} * "] if len(nest.dims) > nest.folded + 1 else []
    return "".join([*outer, f"(({sizes.size(nest.dims[-1])} + {COLUMNS - 1}) // {COLUMNS})"])


def _partitioned_extents(nest: Nest) -> Sequence[Dim]:
    """The extents of the loops that can be partitioned: the loops that no reduction folds."""
    if nest.columns:
        return (*nest.dims[: -nest.folded - 1], (nest.dims[-1] + (COLUMNS - 1)) // COLUMNS)
    return nest.dims[: len(nest.dims) - nest.folded]
