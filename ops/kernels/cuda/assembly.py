"""Puts a ``CudaSource`` together: each kernel is declared once, with its parameters and what is passed for them."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....shape_funcs.dims import Dim, Shape, all_, const, dim, min_, not_, product, where
from ...ty import HALVES, is_float
from .source import Argument, CudaSource, Data, Extent, Fault, Launch, LibraryCall, Operand, Scratch, Site, Size, Word

#: A kernel's blocks take turns at its work beyond so many of them: the limit of a grid is 2**31 - 1.
MAX_BLOCKS = 2**30


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: ``kind`` is ``int64`` or a pointer type; ``argument`` is what is passed unless a launch says
    otherwise."""

    kind: str
    name: str
    argument: Argument


Parameters = tuple[Parameter, ...]
_FAULT: Parameters = (Parameter("void*", "fault", Fault()), Parameter("int64", "site", Site()))


def size(name: str, value: Dim | int) -> Parameter:
    """An int64 parameter."""
    known = const(value)
    return Parameter("int64", name, Size(value) if known is None else Word(known))


def reads(name: str, tensor: Operand) -> Parameter:
    """A tensor that is read; a literal has no address, see ``element``."""
    return Parameter(f"const {tensor.dtype}*", name, Word(0) if tensor.position is None else Data(tensor.position))


def writes(name: str, tensor: Operand) -> Parameter:
    """A tensor that is written."""
    assert tensor.position is not None, "a literal is no result"
    return Parameter(f"{tensor.dtype}*", name, Data(tensor.position))


def element(function: str, tensor: Operand) -> str:
    """The text of a device function ``function(address, at)``: an element of ``tensor``, also where that is a literal."""
    body = literal(tensor.dtype, tensor.value) if tensor.position is None else "data[at]"
    return f"DEVICE {tensor.dtype} {function}(const {tensor.dtype}* data, int64 at) {{ return {body}; }}\n"


def literal(dtype: str, value: float | int | bool) -> str:
    """A constant of ``dtype`` in CUDA C, exact."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in HALVES:
        return f"to_{dtype}({literal('float32', value)})"
    if not is_float(dtype):
        return f"{dtype}({int(value) % 2**64}ull)"
    # not struct, which refuses a float64 that is too large for a float32: that is infinite
    number, word, end = (ctypes.c_float, "uint32", "u") if dtype == "float32" else (ctypes.c_double, "uint64", "ull")
    bits = int.from_bytes(bytes(number(value)), sys.byteorder)
    return f"same_bits<{dtype}>({word}({bits:#x}{end}))"


def around(shape: Shape, axis: int | None) -> tuple[Dim, Dim, Dim]:
    """The sizes before ``axis`` as one, that of the axis, those after it as one; all elements as one axis for None."""
    if axis is None:
        return dim(1), product(shape), dim(1)
    axis %= len(shape)
    return product(shape[:axis]), shape[axis], product(shape[axis + 1 :])


def blocks(work: Dim | int, per_block: int = 1) -> Dim:
    """How many blocks do ``work``: each takes ``per_block`` of it at a time."""
    return min_((dim(work) + (per_block - 1)) // per_block, MAX_BLOCKS)


@dataclass
class Assembly:
    """A CudaSource in the making."""

    texts: list[str] = field(default_factory=list)
    steps: list[Launch | LibraryCall] = field(default_factory=list)
    sizes: list[Extent] = field(default_factory=list)
    kernels: dict[str, tuple[str, Parameters, int]] = field(default_factory=dict)  # text, parameters, threads of a block
    allowed: Dim = field(default_factory=lambda: dim(1))  # 0 where a requirement does not hold

    def text(self, *parts: str) -> None:
        """Add device code."""
        self.texts.extend(part for part in parts if part not in self.texts)

    def scratch(self, nbytes: Extent) -> Scratch:
        """A workspace."""
        self.sizes.append(nbytes)
        return Scratch(len(self.sizes) - 1)

    def kernel(self, name: str, threads: int, parameters: Sequence[Parameter], body: str) -> None:
        """Declare a kernel that runs in blocks of ``threads``."""
        assert name not in self.kernels and threads % 32 == 0, name
        declared = ", ".join(f"{p.kind} {p.name}" for p in parameters)
        text = f'extern "C" __global__ void __launch_bounds__({threads}) {name}({declared}) {{\n{body.strip(chr(10))}\n}}\n'
        self.kernels[name] = text, tuple(parameters), threads

    def require(self, condition: Dim, status: int) -> None:
        """Where ``condition`` is 0 the call fails with ``status``, and no kernel launched after this runs."""
        name = f"refuse{status}"
        if name not in self.kernels:
            self.kernel(name, 32, _FAULT, f"  if (threadIdx.x == 0) fail(fault, {status}, site);")
        self.launch(name, not_(condition))
        self.allowed = all_(self.allowed, condition)

    def launch(self, name: str, grid: Extent, arguments: Mapping[str, Argument | Dim] | None = None) -> None:
        """One launch of a declared kernel; ``arguments`` by name take the place of the declared ones."""
        _, parameters, threads = self.kernels[name]
        given = dict(arguments or {})
        passed = [given.pop(p.name, p.argument) for p in parameters]
        assert not given, f"{name} has no parameters {list(given)}"
        grid = where(self.allowed, grid, 0)
        if const(grid) == 0:
            return
        args = tuple(Size(a) if isinstance(a, Dim) else a for a in passed)
        self.steps.append(Launch(name, (grid, 1, 1), (threads, 1, 1), args))

    def source(self) -> CudaSource:
        """What was put together, without the kernels that are never launched."""
        launched = {step.entry for step in self.steps if isinstance(step, Launch)}
        texts = [text for name, (text, _, _) in self.kernels.items() if name in launched]
        text = "\n".join([*self.texts, *texts]) if texts else ""
        return CudaSource(text, tuple(self.steps), tuple(self.sizes))
