"""The epilogue of a hand-written kernel: the elementwise operators of its group, applied to the result part by part.

The body calls ``finish`` for a part of its result that is complete and still in the first cache::

    @generic
    def finish(argv, at, rows, count):
        ...
        for row in range(rows):
            for i2 in range(begin, begin + count):
                x1[...] = max(x1[...] + x0[i1], 0.0)
            ...

The part is ``rows`` runs of ``count`` elements, at least one each.  A run is contiguous in the trailing axes of the result, whose
number is ``Kernel.finishes``; the leading indices of each run follow those of the run before.  Each operand has all the trailing
axes, or does not vary along them, so the innermost loop reads contiguous elements.

If the result is written over an operand (``Group.in_place``), has another dtype than the sums, or always (``Kernel.apart``),
the sums of the part are in a buffer, until ``finish`` reads them::

    def finish(argv, at, rows, count, sums, first, pitch):
        ...
            for i2 in range(begin, begin + count):
                total = sums[first + i2]
                x1[...] = max(total + x1[...], 0.0)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ....shape_funcs.symbolic.dim import Dim, Size, const, sym
from ...core.group import Group
from ...core.group_memo import per_group
from ...core.implementation import HOST, Kernel
from ...core.op import OpPattern
from ...core.tensor_types import HALVES, ITEMSIZE, Tensor, is_float
from ...native.front_end.vector_hints import BLOCK, settled
from ...native.jit.products.register_tile import PANEL_BYTES
from ...native.memory import Array, generic, native
from ...native.prefetch import fetch_early, fetch_to_write
from ...native.vector_registers import vector_bytes
from ...strategy.choice import candidates, choose
from ..loop_nest.cost import COSTLY, cost_of_element
from ..loop_nest.expression import APPLY, LOAD, SELECT, Cell
from ..loop_nest.expression_text import element_of, indented
from ..loop_nest.inlining import Nest, TooComplex, nest_of
from ..loop_nest.layer_kinds import of_its_kind
from ..loop_nest.linear_index import Lowered, is_elementwise, over_runs
from ..loop_nest.quantised_text import QuantisedRun, parts_called
from ..loop_nest.statements import Writer
from .kernel_source import same_address
from .loop_plan import rounded_by_store
from .reduce_inner import calls_interleaved
from .stored_halves import stored_sums

if TYPE_CHECKING:
    from .fused_kernel import CpuKernel

#: The names of the generated functions.
FINISH, FETCH = "finish", "fetch_operands"
#: ``Kernel.apart`` of a kernel whose result may be a buffer.
WHOLE = "whole"
#: Runs from which the lanes that their vectors leave empty cost more than another kernel does.
_MANY_RUNS = 16
#: The most lanes for an element of a run: of an epilogue with costly functions, and of any.  After convolutions of 512 to 1152
#: channels (AVX-512) silu of 1 to 9 elements takes 1.2 to 2.6 of the time of a kernel of its own, of 25 elements 1.2 to 1.35,
#: of 49 as long, of 16 elements 0.65; a bias and relu of 1 or 4 elements 1.0 to 1.2, of 9 elements 0.7 to 0.9.
_MOST_LANES, _MOST_LANES_OF_ANY = 1.25, 4
#: The functions that return an argument.
_CHOICES = ("maximum", "minimum", "where")
#: The local of FINISH with an element of sums that are in a buffer.
_SUM = "total"


@native
def keep(argv: int, at: int, rows: int, count: int) -> None:
    """Leave a part of the result as it is: the epilogue of a kernel whose group has no further operators."""


@generic
def keep_sums(argv: int, at: int, rows: int, count: int, sums: Array, first: int, pitch: int) -> None:
    """As ``keep``, for a kernel that may have sums apart: without an epilogue they are in the result."""


@native
def fetch_nothing(argv: int, at: int, rows: int, count: int) -> None:
    """The function FETCH of an epilogue without operands that are as large as the result."""


def fits(group: Group) -> bool:
    """Whether the first operator of ``group`` has a kernel of its own, and its kernels can apply the others as an epilogue."""
    return _fits(of_its_kind(group))


@per_group
def _fits(group: Group) -> bool:
    node, *others = group.nodes
    first = len(group.params) + len(group.literals)
    if not others or len(node.outputs) != 1 or not run_axes(group):
        return False
    values = group.values()
    if any(n.operator.pattern > OpPattern.INJECTIVE or n.operator.pattern is OpPattern.COMM_REDUCE for n in others):
        return False
    if group.results != (len(values) - 1,) or values[-1].shape != values[first].shape or any(_refs(node.args, first)):
        return False
    if changes_dtype(group) and not all(k.apart or leaves_sums(k) for k in candidates(group.call_on())):
        return False
    return _are_whole(group) and any(_has_loops(each, run_axes(group)) for each in (_with_open_sizes(group), elementwise(group)))


def pays(group: Group) -> bool:
    """Whether every implementation that sizes at run time may choose finishes parts of its result while they are cached.

    Not where the vectors of its runs would be nearly empty.
    """
    finishing = {k.name for k in group.nodes[0].operator.kernels_on(HOST) if k.finishes}
    return set(choose(group.call_on()).names) <= finishing and not _leaves_lanes(group)


def _leaves_lanes(group: Group) -> bool:
    """Whether many short runs leave so many lanes of vectors empty that another kernel, which has no runs, is faster.

    Not after sums of integers, which leave registers as bytes.
    """
    axes, shape = run_axes(group), group.nodes[0].outputs[0].shape
    if not is_float(group.nodes[0].outputs[0].dtype):
        return False
    runs, count = (math.prod(int(d) for d in part if isinstance(d, Size)) for part in (shape[:-axes], shape[-axes:]))
    if runs < _MANY_RUNS or not all(isinstance(d, Size) for d in shape[-axes:]) or not count:
        return False
    lanes = vector_bytes() // ITEMSIZE["float32"]
    for_element = -(-count // lanes) * lanes / count
    if for_element >= _MOST_LANES_OF_ANY or for_element <= _MOST_LANES:
        return for_element > _MOST_LANES
    loops = nest(elementwise(group))
    return cost_of_element(loops.cells, [loops.element]) >= COSTLY


def run_axes(group: Group) -> int:
    """The number of trailing axes of the result over which kernels of the first operator finish runs; 0: none does."""
    return max((k.finishes for k in group.nodes[0].operator.kernels_on(HOST)), default=0)


def leaves_sums(kernel: Kernel) -> bool:
    """Whether the wrapper may let a body store its whole result in a buffer, and finish it there or afterwards."""
    return (not kernel.finishes or kernel.apart == WHOLE) and kernel.views[-1] == "dims"


def changes_dtype(group: Group) -> bool:
    """Whether the result has another dtype than the first operator's: its sums are never in the memory of the result."""
    return group.values()[group.results[0]].dtype != group.nodes[0].outputs[0].dtype


def operands_read(group: Group) -> set[int]:
    """The parameters that the epilogue reads."""
    return _operands_read(of_its_kind(group))


@per_group
def _operands_read(group: Group) -> set[int]:
    return {cell.what for cell in nest(elementwise(group)).cells.table if cell.kind == LOAD} - {len(group.params)}


def overwritten(group: Group) -> tuple[int, ...]:
    """The parameters that the result may be written over, if the kernel stores its sums in a buffer meanwhile.

    Only the epilogue reads them, each element for the result at the same index.
    """
    return _overwritten(of_its_kind(group))


@per_group
def _overwritten(group: Group) -> tuple[int, ...]:
    kernel, first = group.kernel_on(HOST), set(_refs(group.nodes[0].args, 0))
    if kernel is None or kernel.apart in ("", WHOLE):  # parts of sums are stored in the result before the operands are read
        return ()
    loops, result = nest(elementwise(group)), group.values()[group.results[0]]
    loads: dict[int, list[Cell]] = {}
    for cell in loops.cells.table:
        if cell.kind == LOAD:
            loads.setdefault(cell.what, []).append(cell)
    return tuple(
        number
        for number, tensor in enumerate(group.params)
        if number not in first
        and tensor.shape == result.shape
        and ITEMSIZE[tensor.dtype] == ITEMSIZE[result.dtype]
        and all(is_elementwise(loops, load) for load in loads.get(number, ()))
    )


def over(group: Group, result: int) -> dict[int, int]:
    """The planned pairs: the positions of parameters in argv, and of the result."""
    return {param: result for param, _ in group.in_place}


def elementwise(group: Group) -> Group:
    """The operators after the first as a group of their own: the first one's result is its last parameter."""
    n, literals = len(group.params), len(group.literals)

    def moved(ref: int) -> int:
        return ref if ref < n or ref > n + literals else n if ref == n + literals else ref + 1

    nodes = tuple(
        replace(node, args=tuple(tuple(map(moved, a)) if isinstance(a, tuple) else moved(a) for a in node.args))
        for node in group.nodes[1:]
    )
    return Group((*group.params, *group.nodes[0].outputs), group.literals, nodes, group.results)


@per_group
def text(group: Group) -> tuple[str, tuple[Callable[..., Any], ...]]:
    """The function FINISH of ``group``, and the functions that it calls.  Raises ValueError for a group that does not fit."""
    return _text_of(*_opened(group))


def fetching_text(group: Group) -> str:
    """The function FETCH of ``group``; "" if all operands of the epilogue are smaller than the result.  Raises as ``text``.

    FETCH asks for the elements that a later call of FINISH with the same arguments reads, in memory far apart.
    """
    return _fetching_text_of(*_opened(group))


def copying_text(place: int | None, result: Tensor, axes: int) -> str:
    """The function FINISH of a kernel without an epilogue whose sums are always apart; ``place``: the result's in argv."""
    address, rank = f"tensor(load_i64(argv + {8 * (place or 0)}))", len(result.shape)
    sizes = [f"{address}.shape[{axis}]" for axis in range(rank)]
    copied = ["for i in range(count):", *indented(["out[uint64(at + i)] = sums[uint64(first + i)]"])]
    lines = [
        f"out, run = array_{result.dtype}({address}.data, {' * '.join(sizes)}), {' * '.join(sizes[rank - axes :])}",
        "for _ in range(rows):",
        *indented([*copied, "at += run", "first += pitch"]),
    ]
    return _function(FINISH, lines, ", sums, first, pitch")


def lowered(group: Group) -> Lowered:
    """The loops of the function FINISH of ``group``.  Raises as ``text``."""
    return _Finish(*_opened(group)).lowered


def _opened(group: Group) -> tuple[Group, int, str]:
    """``elementwise`` with open sizes where it has loops so, the axes of a run, and ``Kernel.apart``: what FINISH follows from.

    Raises ValueError for a group that does not fit.
    """
    if not fits(group):
        raise ValueError(f"{group.name}: no kernel applies its operators together")
    opened, axes, kernel = _with_open_sizes(group), run_axes(group), group.kernel_on(HOST)
    if not _has_loops(opened, axes):  # an operator computes with the known sizes
        opened = elementwise(group)
    apart = "always" if changes_dtype(group) else kernel.apart if kernel else ""
    return replace(opened, in_place=group.in_place), axes, apart


def _has_loops(group: Group, axes: int) -> bool:
    return _lowered(of_its_kind(group), axes, "") is not None


@per_group
def _text_of(group: Group, axes: int, when: str) -> tuple[str, tuple[Callable[..., Any], ...]]:
    return _Finish(group, axes, when).text()


@per_group
def _fetching_text_of(group: Group, axes: int, when: str) -> str:
    return _Finish(group, axes, when).fetching_text()


def _refs(args: Any, first: int) -> list[int]:
    """The references to values from ``first`` on among arguments."""
    return [r for arg in args for r in (arg if isinstance(arg, tuple) else (arg,)) if r >= first]


def _are_whole(group: Group) -> bool:
    """Whether each kernel that may run finishes its result, or computes all of it in one part, which is finished afterwards."""
    return all(k.finishes or not (k.split or k.blocks or k.in_python) for k in candidates(group.call_on()))


def _with_open_sizes(group: Group) -> Group:
    """``elementwise`` with a symbol for each axis of the result: kernels of other sizes, known or not, have the same text.

    A size of another tensor is that of the result at the same axis, counted from the last one, where it is equal; equal sizes of
    other axes are equal symbols.  Sizes of 1 stay, along which an operand does not vary, but for those of a whole result before
    its runs, such as a batch of 1.
    """
    whole = group.nodes[0].outputs[0].shape
    lead = len(whole) - run_axes(group)
    sizes = tuple(d if _stays(d, axis < lead) else sym(f".{axis}") for axis, d in enumerate(whole))
    names: dict[Dim, Dim] = dict(zip(reversed(whole), reversed(sizes), strict=True))

    def opened(tensor: Tensor) -> Tensor:
        if tensor.shape == whole:
            return replace(tensor, shape=sizes)
        first = len(whole) - len(tensor.shape)
        return replace(tensor, shape=tuple(named(d, first + axis) for axis, d in enumerate(tensor.shape)))

    def named(d: Dim, axis: int) -> Dim:
        if _stays(d, False):
            return d
        return sizes[axis] if axis >= 0 and whole[axis] == d else names.setdefault(d, sym(f".{len(names)}"))

    return _mapped(elementwise(group), opened)


def _stays(d: Dim, is_batch: bool) -> bool:
    """Whether a size is 0, or 1 of an axis that may be the batch of one."""
    size = const(d)
    return size is not None and size < (1 if is_batch else 2)


def _mapped(group: Group, change: Callable[[Tensor], Tensor]) -> Group:
    nodes = tuple(replace(node, outputs=tuple(map(change, node.outputs))) for node in group.nodes)
    return replace(group, params=tuple(map(change, group.params)), nodes=nodes)


@per_group
def nest(group: Group) -> Nest:
    """The loops of ``elementwise``."""
    return nest_of(group, group.results[0])


@per_group
def _lowered(group: Group, axes: int, local: str) -> Lowered | None:
    """The loops of an epilogue over runs of trailing axes.

    None if an operand varies along a part of a run, or an operator may refuse a value.
    """
    shape = group.params[-1].shape
    if group.values()[group.results[0]].shape != shape:
        return None
    try:
        return over_runs(group, rounded_by_store(nest(group)), len(shape) - axes, len(group.params) - 1, local)
    except TooComplex:
        return None


class _Finish:
    """Writes the function of one epilogue over runs of trailing ``axes``; ``when``: see ``Kernel.apart``."""

    def __init__(self, group: Group, axes: int, when: str) -> None:
        self.group, self.axes, self.when = group, axes, when
        self.result = len(group.params) - 1
        #: The position of the array that is written: as the sums, or of the result's own dtype.
        self.written = self.result + (group.values()[group.results[0]].dtype != group.params[self.result].dtype)

    @functools.cached_property
    def lowered(self) -> Lowered:
        """The loops over sums that are in the result."""
        return self._loops("")

    @functools.cached_property
    def apart(self) -> Lowered:
        """The loops over sums that are in a buffer."""
        return self._loops(_SUM)

    def _loops(self, local: str) -> Lowered:
        found = _lowered(self.group, self.axes, local)
        assert found is not None
        return found

    def _kernel(self, positions: Mapping[int, int]) -> CpuKernel:
        from .fused_kernel import CpuKernel

        # the result of the elementwise group, which follows its parameters, is its last parameter
        kernel = CpuKernel(self.group, {**positions, len(self.group.params): self.result})
        kernel.prefer(self.result)
        kernel.stored = {self.written: stored_sums(self.group.params[: self.result], self.group.values()[self.group.results[0]])}
        return kernel

    def text(self) -> tuple[str, tuple[Callable[..., Any], ...]]:
        from .fused_kernel import bodies_of

        lines = self._lines({}, self.when == "always")
        if self.group.in_place:
            positions = over(self.group, self.result)
            lines = [f"if {same_address(positions)}:", *indented(self._lines(positions, True)), "else:", *indented(lines)]
        made = _function(FINISH, lines, ", sums, first, pitch" if self.when else "")
        return made, (*bodies_of(made), *parts_called(made))

    def _lines(self, positions: Mapping[int, int], is_apart: bool) -> list[str]:
        """The statements; each key of ``positions`` is a parameter that has the address of the tensor at the value.

        ``is_apart``: whether the sums are in a buffer.
        """
        lowered = self.apart if is_apart else self.lowered
        kernel, extents = self._kernel(positions), lowered.extents
        lead = len(extents) - 1
        quantised = QuantisedRun.of(lowered) if is_apart else None
        if quantised:
            before, row = quantised.row(kernel.context, kernel.array(self.written), _SUM, bool(positions))
        else:
            before, row = self._row(kernel, lowered, is_apart)
        sizes = [kernel.size(d) for d in extents]
        start = [f"lead = at // {sizes[-1]}", f"begin = at - lead * {sizes[-1]}"]
        for axis in reversed(range(1, lead)):
            start += [f"i{axis} = lead % {sizes[axis]}", f"lead = lead // {sizes[axis]}"]
        after = _next_row(sizes[:-1])
        if is_apart:
            start, after = [*start, "first -= begin"], [*after, "first += pitch"]
            if quantised is None and _is_of_sums(lowered):  # whole runs that follow one another are one run
                start = [f"if pitch == count and count == {sizes[-1]}:", *indented(["count = rows * count", "rows = 1"]), *start]
        lines = [*kernel.prologue, *before, *start, *(["i0 = lead"] if lead else []), "for _ in range(rows):", *indented(row)]
        return lines + indented(after)

    def _row(self, kernel: CpuKernel, lowered: Lowered, is_apart: bool) -> tuple[list[str], list[str]]:
        """The statements before all rows, and of a row."""
        lead = len(lowered.extents) - 1
        writer = Writer(lowered.table, lead + 1, kernel.context)
        element = writer.value(lowered.element)
        if not is_apart and self._may_keep(lowered):
            element = f"{settled.__name__}({element})"
        stored = f"{element_of(kernel.array(self.written), writer.value(lowered.offset))} = {element}"
        before, regions, inner = writer.regions[0], writer.regions[1:-1], writer.regions[-1]
        if is_apart:
            inner = [f"{_SUM} = {element_of('sums', f'first + i{lead}')}", *inner]
        is_rounded = self.group.values()[self.group.results[0]].dtype in HALVES
        return before, [*(line for region in regions for line in region), *_run(f"i{lead}", [*inner, stored], is_rounded)]

    def _may_keep(self, lowered: Lowered) -> bool:
        """Whether an element is a choice of a float and its sum, such as a ReLU: LLVM would store the other elements alone.

        Masked stores of AVX2 take an AMD processor as long as ten whole vectors.
        """
        cell = lowered.table[lowered.element]
        if cell.kind != SELECT and (cell.kind != APPLY or cell.what not in _CHOICES):
            return False
        arms = [lowered.table[arm] for arm in cell.args]
        return cell.dtype in ("float32", "float64") and any(arm.kind == LOAD and arm.what == self.result for arm in arms)

    def fetching_text(self) -> str:
        kernel = self._kernel({})
        read = {cell.what for cell in self.lowered.table.table if cell.kind == LOAD} - {self.result}
        whole = [place for place in sorted(read) if self.group.params[place].shape == self.group.params[self.result].shape]
        if not whole:
            return ""
        run, inner = kernel.size(self.lowered.extents[-1]), list[str]()
        for place in whole:
            line, how = PANEL_BYTES // ITEMSIZE[self.group.params[place].dtype], fetch_early
            if place in over(self.group, self.result):
                how = fetch_to_write
            fetched = f"{how.__name__}({kernel.array(place)}, at + row * {run} + i)"
            inner += [f"for i in range(0, count, {line}):", *indented([fetched])]
        return _function(FETCH, [*kernel.prologue, "for row in range(rows):", *indented(inner)])


def _is_of_sums(lowered: Lowered) -> bool:
    """Whether an element follows from its sum alone, wherever it is."""
    cells = lowered.table.reached((lowered.element,))
    return not lowered.table.axes((lowered.element,)) and all(lowered.table[cell].kind != LOAD for cell in cells)


def _function(name: str, lines: list[str], more: str = "") -> str:
    return "\n".join(["@generic", f"def {name}(argv, at, rows, count{more}):", *indented(lines)]) + "\n"


def _run(index: str, element: list[str], is_rounded: bool) -> list[str]:
    """The loop over the elements of a run.

    A function that takes as long for one element as for a vector is computed of blocks of whole vectors, then of masked vectors:
    no loop over single elements keeps registers from the constants, and the rows of a picture of 3 x 3 are 9 elements.  So are
    halves (``is_rounded``): a rounding to bfloat16 takes more instructions than most epilogues.
    """
    if not calls_interleaved(element) and not is_rounded:
        return [f"for {index} in range(begin, begin + count):", *indented(element)]
    whole = f"begin + count // {BLOCK} * {BLOCK}"
    of_block = [f"for lane in block_range({BLOCK}):", *indented([f"{index} = block + lane", *element])]
    rest = [f"for {index} in rest_range({whole}, begin + count):", *indented(element)]
    return [f"for block in range(begin, {whole}, {BLOCK}):", *indented(of_block), *rest]


def _next_row(sizes: list[str]) -> list[str]:
    """Advance the indices of the leading axes."""
    lines: list[str] = []
    for axis in range(len(sizes)):
        carried = [f"if i{axis} == {sizes[axis]}:", *indented([f"i{axis} = 0", *lines])] if axis else []
        lines = [f"i{axis} += 1", *carried]
    return lines
