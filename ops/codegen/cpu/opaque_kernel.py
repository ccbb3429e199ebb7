"""The kernel of a group of one OPAQUE operator, perhaps with an epilogue: read the descriptors, call the hand-written body.

An example of the generated text::

    def kernel(argv, n):
        t0 = load_i64(argv)
        t1 = load_i64(argv + 8)
        v0 = array_float32_3d(tensor(t0).data, (tensor(t0).shape[0] * tensor(t0).shape[1], tensor(t0).shape[2], 1))
        v1 = ...
        return softmax(v0, v1)

Buffers are stored one after the other in the kernel's workspace.  The wrapper allocates a workspace if the call passes none, or
one that is too small.  This happens for a substitute kernel that needs more than the chosen kernel, and for all parts of a
parallel call except the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....shape_funcs.symbolic.dim import Dim, const, dim, product, sym, total
from ....shape_funcs.symbolic.dim_operations import substitute
from ...core.group import Group
from ...core.group_memo import per_group
from ...core.implementation import ALIGNMENT, HOST, Buffer, Kernel
from ...core.op import Op
from ...core.tensor_types import ITEMSIZE, computed_in, is_float
from ...core.tensor_types import Tensor as GroupTensor
from ...native.object_layout import TENSOR
from ...native.prefetch import fetch_early, fetch_to_write
from ...native.static_values import StaticWord, static
from ...native.status import OUT_OF_MEMORY
from ...native.threads import work_partition as of_work
from ..loop_nest.cost import PER_NS
from ..loop_nest.expression_text import Python, indented
from ..loop_nest.size_prologue import Sizes
from . import body_call, channel_limits, epilogue
from .kernel_source import KernelSource, either, same_address
from .partition import RANGE_OF_THREAD, block_range, request_threads

assert TENSOR.fields is not None
_SHAPE_OFFSET = TENSOR.fields["shape"][1]
#: The floats whose ``repr`` is not an expression.
_NOT_FINITE = {"nan": "math.nan", "inf": "math.inf", "-inf": "-math.inf"}


@per_group
def source(group: Group) -> KernelSource:
    """The kernel of a group of one OPAQUE node whose results are all its outputs, or of a group with an epilogue.

    Raises ValueError for any other group.
    """
    if not group.has_epilogue:
        sole_operator(group)
    kernel = group.kernel_on(HOST)
    if kernel is None:
        raise ValueError(f"{group.name}: its implementation {group.implementation!r} does not run on the host")
    made = _Wrapper(group, kernel).source()
    if not group.in_place or group.has_epilogue:  # the function FINISH compares them
        return made
    # compare the addresses explicitly, as in ``fused_kernel``
    positions = {param: len(group.params) + result for param, result in group.in_place}
    over = _Wrapper(group, kernel, positions).source()
    bodies = tuple(dict.fromkeys((*made.bodies, *over.bodies)))
    return replace(made, text=either(same_address(positions), over.text, made.text), bodies=bodies)


def workspace(group: Group) -> Dim:
    """The workspace of the CPU kernel of ``group`` in bytes, over the sizes of the group's tensors.

    0 for generated kernels, which need at most a part of a cache, and for kernels in Python.
    """
    kernel = group.kernel_on(HOST)
    if kernel is None or kernel.in_python:
        return dim(0)
    over = epilogue.overwritten(group) if group.has_epilogue else ()
    wrapper = _Wrapper(replace(group, in_place=((over[0], 0),)) if over else group, kernel, is_opened=False)
    wrapper.lay_out()
    return total(buffer.nbytes for buffer in wrapper.buffers.values())


def sole_operator(group: Group) -> Op:
    """The operator of a group of one OPAQUE node whose results are all its outputs.  Raises ValueError for any other group."""
    node, first = group.nodes[0], len(group.params) + len(group.literals)
    if len(group.nodes) != 1 or not node.operator.kernels:
        raise ValueError(f"{group.name} is not one operator with a kernel of its own")
    if group.results != tuple(range(first, first + len(node.outputs))):
        raise ValueError(f"{group.name} does not return every output in order")
    return node.operator


def operands(group: Group) -> list[tuple[int | None, GroupTensor, Any]]:
    """Per tensor of the call of the first operator: its position in argv (None for a literal), its type, its literal value."""
    node, values, params = group.nodes[0], group.values(), len(group.params)
    refs = [r for arg in node.args for r in (arg if isinstance(arg, tuple) else (arg,))]
    out: list[tuple[int | None, GroupTensor, Any]] = []
    for ref in refs:
        is_literal = ref >= params
        out.append((None if is_literal else ref, values[ref], group.literals[ref - params].value if is_literal else None))
    return out + [(params + i, t, None) for i, t in enumerate(node.outputs)]


def without_epilogue(group: Group) -> Group:
    """The group of the first operator, whose result has the place and the type of the whole group's."""
    if not group.has_epilogue:
        return group
    return replace(group, nodes=group.nodes[:1], results=(len(group.params) + len(group.literals),))


def _opened(group: Group, kernel: Kernel) -> Group:
    """The group with a symbol for each size: the lengths of its buffers are then the same text for calls of any sizes.

    The group itself if a buffer's length depends on which sizes are known or equal.
    """
    known: dict[Dim, Dim] = {}

    def opened(tensor: GroupTensor, name: str) -> GroupTensor:
        shape = tuple(sym(f".{name}.{axis}") for axis in range(len(tensor.shape)))
        known.update(zip(shape, tensor.shape, strict=True))
        return replace(tensor, shape=shape)

    params = tuple(opened(t, f"in{k}") for k, t in enumerate(group.params))
    (node,) = group.nodes
    outputs = tuple(opened(t, f"out{k}") for k, t in enumerate(node.outputs))
    made = replace(group, params=params, nodes=(replace(node, outputs=outputs),))
    buffers = [replace(b, length=substitute(b.length, known)) for b in kernel.buffers(made.call_on())]
    return made if buffers == list(kernel.buffers(group.call_on())) else group


class _Lengths(Sizes):
    """The lengths of buffers as text."""

    def __init__(self, group: Group) -> None:
        super().__init__(group, Python())

    def define(self, name: str, text: str) -> str:
        return f"{name} = {text}"

    def axis(self, position: int, axis: int) -> str:
        return f"tensor(load_i64(argv + {8 * position})).shape[{axis}]"

    def element(self, position: int, number: int) -> str:
        dtype = self.tensors[position].dtype
        array = f"array_{dtype}(tensor(load_i64(argv + {8 * position})).data, {number + 1})"
        return f"{'float64' if is_float(dtype) else 'int64'}({array}[{number}])"


class _Wrapper:
    """Writes the text of one kernel; ``over``: the tensors, by number, that have the address of other tensors.

    ``is_opened``: whether the text computes the lengths of buffers from all sizes, known or not (see ``_opened``).
    """

    def __init__(self, group: Group, kernel: Kernel, over: Mapping[int, int] | None = None, is_opened: bool = True) -> None:
        self.group, self.kernel, self.over, self.attrs = group, kernel, bool(over), group.nodes[0].attrs
        alone = without_epilogue(group)
        self.sized = _opened(alone, kernel) if is_opened else alone
        tensors = operands(group)
        if over:
            tensors = [(None if place is None else over.get(place, place), tensor, value) for place, tensor, value in tensors]
        self.tensors, self.counts = tensors, group.counts
        #: None if the partitioned operand is a constant: a constant has no tensor to partition.
        self.split = kernel.split
        if self.split and any(place is None and self.split.divides(k) for k, (place, _, _) in enumerate(tensors)):
            self.split = None
        self.lines: list[str] = []
        self.arguments: list[str] = []
        self.buffers: dict[str, Buffer] = {}
        self.assignments: list[str] = []  # of constants to buffers
        self.sums = ""  # the buffer of sums that an epilogue reads while the result is in another operand
        self.is_converted = group.has_epilogue and epilogue.changes_dtype(group)

    def source(self) -> KernelSource:
        dtypes = tuple(t.dtype for _, t, _ in self.tensors)
        body = self.kernel.body_for(self.attrs, dtypes, self.over)
        finish, called = epilogue.text(self.group) if self.group.has_epilogue else ("", ())
        if self.kernel.apart == "always" and not finish:
            finish = epilogue.copying_text(*self.tensors[-1][:2], self.kernel.finishes)
        taken = tuple(body_call.words_of(body))
        bodies: tuple[Callable[..., Any], ...] = (body, *body_call.records_of(body), *called)
        bodies += self._partition() if self.split else self._blocks(taken) if self.kernel.blocks else ()
        self._tensors()
        self._unless_empty()
        if self.counts:
            at = max(place for place, _, _ in self.tensors if place is not None) + 1
            self.lines += [f"c = tensor(load_i64(argv + {8 * at}))", "counts = array_int64(c.data, c.shape[0])"]
            self.arguments.append("counts")
        self.arguments += ["low", "high", *(name for name in RANGE_OF_THREAD if name in taken)] if self.kernel.blocks else []
        self._scratch()
        library = self._library(dtypes)
        if self.kernel.finishes:
            keep = epilogue.keep_sums if self.kernel.apart else epilogue.keep
            bodies = (*bodies, *(() if finish else (keep,)))
            self.arguments.append(epilogue.FINISH if finish else keep.__name__)
            if epilogue.FETCH in taken:
                fetching = epilogue.fetching_text(self.group) if finish else ""
                finish += fetching
                bodies = (*bodies, *((fetch_early, fetch_to_write) if fetching else (epilogue.fetch_nothing,)))
                self.arguments.append(epilogue.FETCH if fetching else epilogue.fetch_nothing.__name__)
            self.arguments.append("argv")
        given = self.kernel.attrs(self.attrs)
        if any(isinstance(value, StaticWord) for value in given.values()):
            bodies = (*bodies, static)
        if channel_limits.ADDEND in taken:
            defined, arrays, limits = channel_limits.arguments(self.group, taken, "v0")
            self.lines, given = self.lines + defined, given | limits
            self.arguments += arrays
        call = body_call.text(body, iter(self.arguments), {name: _constant(value) for name, value in given.items()})
        if self.buffers:
            self.lines += self._in_buffers(call)
        elif finish and not self.kernel.finishes:
            self.lines += [f"status = {call}", *self._finish_all(), "return status"]
        else:
            self.lines.append(f"return {call}")
        text = f"{finish}def kernel(argv, n):\n" + "".join(f"    {line}\n" for line in self.lines)
        return KernelSource(text, bodies=bodies, libraries=(library,) if library else ())

    def lay_out(self) -> None:
        """Find the buffers, without the text of the kernel."""
        self._tensors()
        self._scratch()

    def _tensors(self) -> None:
        for number, (place, tensor, value) in enumerate(self.tensors):
            self._tensor(number, place, tensor, value)

    def _unless_empty(self) -> None:
        """Return early if no result has elements: a body may have loops of up to 2**60 iterations around its empty loops."""
        if self.counts or self.kernel.refuses:
            return
        empty = list[str]()
        for number in range(len(self.tensors) - len(self.group.nodes[0].outputs), len(self.tensors)):
            place, tensor, _ = self.tensors[number]
            if 0 in map(const, tensor.shape):
                continue
            if not tensor.shape:
                return
            assert place is not None
            self._descriptor(number, place)
            zero = " or ".join(f"tensor(t{number}).shape[{axis}] == 0" for axis in range(len(tensor.shape)))
            empty.append(f"({zero})")
        self.lines += [f"if {' and '.join(empty)}:" if empty else "if True:", "    return 0"]

    def _tensor(self, number: int, place: int | None, tensor: GroupTensor, value: Any) -> None:
        view = self._view(number)
        if view == "skip":
            return
        if place is None:
            self._literal(number, tensor, value)
            if view == "dims":
                self.lines.append(f"shape{number} = array_int64(argv, 0)")
                self.arguments.append(f"shape{number}")
            return
        self._descriptor(number, place)
        if self.is_converted and epilogue.leaves_sums(self.kernel) and number + 1 == len(self.tensors):
            self._sums_of_all(number, tensor)
            return
        data, (first, *rest) = f"tensor(t{number}).data", self._sizes(number, tensor)
        if self._is_partitioned(number):
            data, first = f"{data} + low * {' * '.join([*rest, str(ITEMSIZE[tensor.dtype])])}", "(high - low)"
        view_sizes = [_product([first, *rest])] if view in ("flat", "dims") else [first, *rest]
        self._array(f"v{number}", tensor.dtype, data, view_sizes)
        self.arguments.append(f"v{number}")
        if view == "dims":
            self._shape(number, len(tensor.shape))

    def _sums_of_all(self, number: int, tensor: GroupTensor) -> None:
        """Let the body store its result in a buffer: the result has another dtype."""
        self.buffers[f"v{number}"] = Buffer(tensor.dtype, product(self.sized.nodes[0].outputs[0].shape))
        self.arguments.append(f"v{number}")
        self._shape(number, len(tensor.shape))

    def _descriptor(self, number: int, place: int) -> None:
        line = f"t{number} = load_i64(argv + {8 * place})"
        if line not in self.lines:
            self.lines.append(line)

    def _sizes(self, number: int, tensor: GroupTensor) -> list[str]:
        """The sizes of a tensor's view, before the sizes of a flat view are multiplied."""
        sizes = [f"tensor(t{number}).shape[{i}]" for i in range(len(tensor.shape))]
        if self._view(number) == "rows":
            return [_product(sizes[:-1]), sizes[-1]]
        return _around(sizes, self.attrs.axis) if self._view(number) == "axis" else sizes or ["1"]

    def _view(self, number: int) -> str:
        return self.kernel.views[min(number, len(self.kernel.views) - 1)]

    def _shape(self, number: int, rank: int) -> None:
        """The shape of a tensor, or of the partition that is passed to the body."""
        name = f"shape{number}"
        if not self._is_partitioned(number):
            # in the call itself: its length is a constant there, for which a body that is compiled apart is made
            self.arguments.append(f"array_int64(t{number} + {_SHAPE_OFFSET}, {rank})")
            return
        self.arguments.append(name)
        self.buffers[name] = Buffer("int64", dim(rank))
        self.assignments.append(f"{name}[0] = high - low")
        self.assignments += [f"{name}[{axis}] = tensor(t{number}).shape[{axis}]" for axis in range(1, rank)]

    def _is_partitioned(self, number: int) -> bool:
        return self.split is not None and self.split.divides(number)

    def _partition(self) -> tuple[Callable[..., Any], ...]:
        """Write the request for threads and the partition ``low`` to ``high``; return the functions that this text calls."""
        split = self.split
        assert split is not None
        number = split.by % len(self.tensors)
        assert split.divides(number)
        place, tensor, _ = self.tensors[number]
        assert place is not None and not self.counts
        count, *rest = self._sizes(number, tensor)
        work = " * ".join(["pieces", *rest, str(round(split.ns * PER_NS))])
        self._descriptor(number, place)
        self.lines += [
            f"pieces = {count}",
            *request_threads(work, "pieces"),
            "low, high = first_of(share, pieces, 1), end_of(share, pieces, 1)",
        ]
        return of_work.threads_wanted, of_work.first_of, of_work.end_of, of_work.is_first

    def _blocks(self, taken: Sequence[str]) -> tuple[Callable[..., Any], ...]:
        """Write the request for threads and the ranges of blocks that the body takes; return the functions that it calls."""
        blocks, lengths, call = self.kernel.blocks, _Lengths(self.sized), self.sized.call_on()
        assert blocks is not None and not self.kernel.split
        count, work = lengths.size(blocks.count(call)), lengths.size(blocks.work(call))
        most, together = lengths.size((blocks.most or blocks.count)(call)), lengths.size(blocks.together(call))
        lines, called = block_range(count, work, most, together, taken)
        self.lines += [*lengths.prologue, *lines]
        return called

    def _literal(self, number: int, tensor: GroupTensor, value: Any) -> None:
        """Store a constant of the group, which has no tensor, in a buffer of one element."""
        self.buffers[f"v{number}"] = Buffer(tensor.dtype, dim(1))
        self.assignments.append(f"v{number}[0] = {_constant(value)}")
        self.arguments.append(f"v{number}")

    def _array(self, name: str, dtype: str, address: str, sizes: list[str]) -> None:
        rank = len(sizes)
        if rank == 1:
            self.lines.append(f"{name} = array_{dtype}({address}, {sizes[0]})")
        else:
            self.lines.append(f"{name} = array_{dtype}_{rank}d({address}, ({', '.join(sizes)}))")

    def _scratch(self) -> None:
        buffers, out = self.kernel.buffers(self.sized.call_on()), len(self.tensors) - 1
        for i, buffer in enumerate(buffers):
            name = f"b{i}"
            if self.kernel.apart == "over" and i + 1 == len(buffers):
                if not self.group.in_place and not self.is_converted:
                    self.arguments.append(f"v{out}")
                    continue
                name = "sums"
                self.sums = "" if self.is_converted else name
            self.buffers[name] = buffer
            self.arguments.append(name)

    def _in_buffers(self, call: str) -> list[str]:
        """The call of the body, with its buffers laid out in the workspace, or in a block that is allocated for the call."""
        lengths, layout, arrays = _Lengths(self.sized), ["needed = 0"], list[str]()
        for name, b in self.buffers.items():
            length = lengths.size(b.length)
            layout += [
                f"{name}_at = needed",
                f"needed += ({length} * {b.row_bytes} + {ALIGNMENT - 1}) // {ALIGNMENT} * {ALIGNMENT}",
            ]
            shape, rank = (f"({b.rows}, {length})", "_2d") if b.rows else (length, "")
            place = f"block + {name}_at"
            if name == self.sums:  # otherwise the sums are in the result
                out = len(self.group.params)
                is_over = same_address(epilogue.over(self.group, out))
                arrays.append(f"is_over = {is_over}")
                place = f"{place} if is_over else tensor(load_i64(argv + {8 * out})).data"
                shape = f"{shape} if is_over else v{len(self.tensors) - 1}.size"
            arrays.append(f"{name} = array_{b.dtype}{rank}({place}, {shape})")
        allocated = ["block = alloc(needed)", "if block == 0:", f"    return {OUT_OF_MEMORY}"]
        opened, closed = allocated, ["free(block)"]
        if self.group.workspace:
            at = len(self.group.params) + self.group.n_outputs - 1
            fits = "needed <= given.shape[0]" + (" and is_first(share)" if self.split or self.kernel.blocks else "")
            opened = [f"given = tensor(load_i64(argv + {8 * at}))", "block = given.data", f"is_given = {fits}"]
            opened += ["if not is_given:", *indented(allocated)]
            closed = ["if not is_given:", *indented(closed)]
        called = [*arrays, *self.assignments, f"status = {call}"]
        called += self._finish_all() if self.group.has_epilogue and not self.kernel.finishes else []
        return [*lengths.prologue, *layout, *opened, *called, *closed, "return status"]

    def _finish_all(self) -> list[str]:
        """The epilogue of a body that leaves its whole result to the wrapper."""
        lengths, shape = _Lengths(self.sized), self.sized.nodes[0].outputs[0].shape
        lead = len(shape) - epilogue.run_axes(self.group)
        rows, run = lengths.size(product(shape[:lead])), lengths.size(product(shape[lead:]))
        sums = f", v{len(self.tensors) - 1}, 0, {run}" if self.is_converted else ""
        return [*lengths.prologue, "if status == 0:", f"    {epilogue.FINISH}(argv, 0, {rows}, {run}{sums})"]

    def _library(self, dtypes: tuple[str, ...]) -> str | None:
        """The library function of these dtypes; the text passes its address, or 0."""
        from ...native.blas.library_calls import TABLE

        if not self.kernel.libraries:
            return None
        kinds = {computed_in(d) for d in dtypes if is_float(d)}
        name = self.kernel.libraries.get(min(kinds)) if len(kinds) == 1 else None
        self.arguments.append(f"load_i64(load_i64(argv + 8 * n) + {8 * TABLE[name].index})" if name else "0")
        return name


def _constant(value: Any) -> str:
    """The expression of a constant."""
    text = repr(value)
    return _NOT_FINITE.get(text, text)


def _product(sizes: list[str]) -> str:
    return " * ".join(sizes) or "1"


def _around(sizes: list[str], axis: int | None) -> list[str]:
    """The sizes of the three-axis view around ``axis``."""
    if axis is None:
        return ["1", _product(sizes), "1"]
    axis %= len(sizes)
    return [_product(sizes[:axis]), sizes[axis], _product(sizes[axis + 1 :])]
