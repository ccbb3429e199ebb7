"""The kernel of a group that is one OPAQUE operator: reads the descriptors, calls the hand-written body.

What the generated text looks like::

    def kernel(argv, n):
        t0 = load_i64(argv)
        t1 = load_i64(argv + 8)
        v0 = array_float32_3d(tensor(t0).data, (tensor(t0).shape[0] * tensor(t0).shape[1], tensor(t0).shape[2], 1))
        v1 = ...
        return softmax(v0, v1)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..group import Group
from ..implementation import HOST, Kernel
from ..native.layout import TENSOR
from ..native.shares import end_of, first_of, threads_wanted
from ..native.status import OUT_OF_MEMORY
from ..op import Op
from ..ty import ITEMSIZE, computed_in
from ..ty import Tensor as GroupTensor
from .cost import PER_NS
from .division import asked
from .source import KernelSource, either, same_place

assert TENSOR.fields is not None
_SHAPE_OFFSET = TENSOR.fields["shape"][1]
#: The floats whose ``repr`` is not an expression.
_NOT_FINITE = {"nan": "math.nan", "inf": "math.inf", "-inf": "-math.inf"}


def source(group: Group) -> KernelSource:
    """The kernel of a group of one OPAQUE node whose results are all its outputs.  Raises ValueError for any other group."""
    operator, kernel = sole_operator(group), group.kernel_on(HOST)
    if kernel is None:
        raise ValueError(f"{group.name}: its implementation {group.implementation!r} does not run on the host")
    attrs, tensors, counts = group.nodes[0].attrs, operands(group), operator.shape_func.upper_bound
    made = _Wrapper(kernel, attrs, tensors, counts=counts).source()
    if not group.in_place:
        return made
    # one address for both, as in ``loops``
    places = {param: len(group.params) + result for param, result in group.in_place}
    moved = [(None if place is None else places.get(place, place), tensor, value) for place, tensor, value in tensors]
    over = _Wrapper(kernel, attrs, moved, counts=counts, over=True).source()
    bodies = tuple(dict.fromkeys((*made.bodies, *over.bodies)))
    return replace(made, text=either(same_place(places), over.text, made.text), bodies=bodies)


def sole_operator(group: Group) -> Op:
    """The operator of a group of one OPAQUE node whose results are all its outputs.  Raises ValueError for any other group."""
    node, first = group.nodes[0], len(group.params) + len(group.literals)
    if len(group.nodes) != 1 or not node.operator.kernels:
        raise ValueError(f"{group.name} is not one operator with a kernel of its own")
    if group.results != tuple(range(first, first + len(node.outputs))):
        raise ValueError(f"{group.name} does not return every output in order")
    return node.operator


def operands(group: Group) -> list[tuple[int | None, GroupTensor, Any]]:
    """Per tensor of the one call: its place in argv (None for a literal), its type, its literal value."""
    node, values, params = group.nodes[0], group.values(), len(group.params)
    refs = [r for arg in node.args for r in (arg if isinstance(arg, tuple) else (arg,))]
    out: list[tuple[int | None, GroupTensor, Any]] = []
    for ref in refs:
        is_literal = ref >= params
        out.append((None if is_literal else ref, values[ref], group.literals[ref - params].value if is_literal else None))
    return out + [(params + i, t, None) for i, t in enumerate(node.outputs)]


class _Wrapper:
    """Writes the text of one kernel."""

    def __init__(
        self, kernel: Kernel, attrs: Any, tensors: list[tuple[int | None, GroupTensor, Any]], *, counts: bool, over: bool = False
    ) -> None:
        self.kernel, self.attrs, self.tensors, self.counts, self.over = kernel, attrs, tensors, counts, over
        #: Where a constant, which has no tensor, would be divided, nothing is.
        self.split = kernel.split
        if self.split and any(place is None and self.split.divides(k) for k, (place, _, _) in enumerate(tensors)):
            self.split = None
        self.lines: list[str] = []
        self.arguments: list[str] = []
        self.views: list[list[str]] = []  # per tensor: the sizes of its view, as text
        self.buffers: list[tuple[str, str, int]] = []  # name, dtype, rows
        self.assignments: list[str] = []  # of constants to buffers

    def source(self) -> KernelSource:
        dtypes = tuple(t.dtype for _, t, _ in self.tensors)
        body = self.kernel.body_for(self.attrs, dtypes, self.over)
        bodies = (body, *(self._divided() if self.split else ()))
        for number, (place, tensor, value) in enumerate(self.tensors):
            self._tensor(number, place, tensor, value)
        if self.counts:
            at = max(place for place, _, _ in self.tensors if place is not None) + 1
            self.lines += [f"c = tensor(load_i64(argv + {8 * at}))", "counts = array_int64(c.data, c.shape[0])"]
            self.arguments.append("counts")
        self._scratch()
        library = self._library(dtypes)
        constants = [f"{name}={value!r}" for name, value in self.kernel.attrs(self.attrs).items()]
        call = f"{body.__name__}({', '.join(self.arguments + constants)})"
        if self.buffers:
            self.lines += [*self._block(), f"status = {call}", "free(block)", "return status"]
        else:
            self.lines.append(f"return {call}")
        text = "def kernel(argv, n):\n" + "".join(f"    {line}\n" for line in self.lines)
        return KernelSource(text, bodies=bodies, libraries=(library,) if library else ())

    def _tensor(self, number: int, place: int | None, tensor: GroupTensor, value: Any) -> None:
        view = self._view(number)
        if view == "skip":
            self.views.append([])
            return
        if place is None:
            self._literal(number, tensor, value)
            if view == "dims":
                self.lines.append(f"s{number} = array_int64(argv, 0)")
                self.arguments.append(f"s{number}")
            return
        self._descriptor(number, place)
        data, (first, *rest) = f"tensor(t{number}).data", self._sizes(number, tensor)
        if self._is_divided(number):
            data, first = f"{data} + low * {' * '.join([*rest, str(ITEMSIZE[tensor.dtype])])}", "(high - low)"
        view_sizes = [_product([first, *rest])] if view in ("flat", "dims") else [first, *rest]
        self._array(f"v{number}", tensor.dtype, data, view_sizes)
        self.views.append(view_sizes)
        self.arguments.append(f"v{number}")
        if view == "dims":
            self._shape(number, len(tensor.shape))

    def _descriptor(self, number: int, place: int) -> None:
        line = f"t{number} = load_i64(argv + {8 * place})"
        if line not in self.lines:
            self.lines.append(line)

    def _sizes(self, number: int, tensor: GroupTensor) -> list[str]:
        """The sizes of the view of a tensor, before those of a flat one are multiplied."""
        sizes = [f"tensor(t{number}).shape[{i}]" for i in range(len(tensor.shape))]
        return _around(sizes, self.attrs.axis) if self._view(number) == "axis" else sizes or ["1"]

    def _view(self, number: int) -> str:
        return self.kernel.views[min(number, len(self.kernel.views) - 1)]

    def _shape(self, number: int, rank: int) -> None:
        """The shape of a tensor, or of the part of it that the body sees."""
        name = f"s{number}"
        self.arguments.append(name)
        if not self._is_divided(number):
            self.lines.append(f"{name} = array_int64(t{number} + {_SHAPE_OFFSET}, {rank})")
            return
        self._buffer(name, "int64", str(rank), 0)
        self.assignments.append(f"{name}[0] = high - low")
        self.assignments += [f"{name}[{axis}] = tensor(t{number}).shape[{axis}]" for axis in range(1, rank)]

    def _is_divided(self, number: int) -> bool:
        return self.split is not None and self.split.divides(number)

    def _divided(self) -> tuple[Callable[..., Any], ...]:
        """Asks for threads, and finds the share: from ``low`` to ``high``.  The functions that are called for it."""
        split = self.split
        assert split is not None
        number = split.by % len(self.tensors)
        assert split.divides(number)
        place, tensor, _ = self.tensors[number]
        assert place is not None and not self.counts
        pieces, *rest = self._sizes(number, tensor)
        work = " * ".join(["pieces", *rest, str(round(split.ns * PER_NS))])
        self._descriptor(number, place)
        self.lines += [
            f"pieces = {pieces}",
            *asked(work, "pieces"),
            "low, high = first_of(share, pieces, 1), end_of(share, pieces, 1)",
        ]
        return threads_wanted, first_of, end_of

    def _literal(self, number: int, tensor: GroupTensor, value: Any) -> None:
        """A constant of the group has no tensor: it is put into a buffer of one element."""
        self._buffer(f"v{number}", tensor.dtype, "1", 0)
        text = repr(value)
        self.assignments.append(f"v{number}[0] = {_NOT_FINITE.get(text, text)}")
        self.views.append(["1"])
        self.arguments.append(f"v{number}")

    def _array(self, name: str, dtype: str, address: str, sizes: list[str]) -> None:
        rank = len(sizes)
        if rank == 1:
            self.lines.append(f"{name} = array_{dtype}({address}, {sizes[0]})")
        else:
            self.lines.append(f"{name} = array_{dtype}_{rank}d({address}, ({', '.join(sizes)}))")

    def _scratch(self) -> None:
        for i, scratch in enumerate(self.kernel.scratch):
            dtype = scratch.dtype or computed_in(self.tensors[0][1].dtype)
            length = str(scratch.length) if scratch.length else f"max({self.views[0][scratch.axis]}, 1)"
            self._buffer(f"b{i}", dtype, length, scratch.rows)
            self.arguments.append(f"b{i}")

    def _buffer(self, name: str, dtype: str, length: str, rows: int) -> None:
        """Room in the one block of memory that the kernel allocates."""
        self.lines.append(f"{name}_length = {length}")
        self.buffers.append((name, dtype, rows))

    def _block(self) -> list[str]:
        """Allocates the block and lays out the buffers in it."""
        lines = ["needed = 0"]
        for name, dtype, rows in self.buffers:
            lines += [f"{name}_at = needed", f"needed += ({name}_length * {max(rows, 1) * ITEMSIZE[dtype]} + 63) // 64 * 64"]
        lines += ["block = alloc(needed)", "if block == 0:", f"    return {OUT_OF_MEMORY}"]
        for name, dtype, rows in self.buffers:
            if rows:
                lines.append(f"{name} = array_{dtype}_2d(block + {name}_at, ({rows}, {name}_length))")
            else:
                lines.append(f"{name} = array_{dtype}(block + {name}_at, {name}_length)")
        return lines + self.assignments

    def _library(self, dtypes: tuple[str, ...]) -> str | None:
        """The library function of these dtypes; passes its address, or 0."""
        from ..native.libraries import TABLE

        if not self.kernel.libraries:
            return None
        kinds = {computed_in(d) for d in dtypes}
        name = self.kernel.libraries.get(min(kinds)) if len(kinds) == 1 else None
        self.arguments.append(f"load_i64(load_i64(argv + 8 * n) + {8 * TABLE[name].index})" if name else "0")
        return name


def _product(sizes: list[str]) -> str:
    return " * ".join(sizes) or "1"


def _around(sizes: list[str], axis: int | None) -> list[str]:
    """The sizes of the three-axis view around ``axis``."""
    if axis is None:
        return ["1", _product(sizes), "1"]
    axis %= len(sizes)
    return [_product(sizes[:axis]), sizes[axis], _product(sizes[axis + 1 :])]
