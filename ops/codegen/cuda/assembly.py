"""Assemble the CUDA C and the launches of a call, a ``CudaSource``.

A kernel is declared once, with its parameters and their usual arguments.  Each launch then names the kernel and its blocks.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, Shape, const, dim, product
from ....shape_funcs.symbolic.dim_operations import all_, division, min_, not_, where
from ...core.tensor_types import HALVES, is_float
from .cuda_program import (
    Argument,
    CudaSource,
    Data,
    Extent,
    Fault,
    Launch,
    Operand,
    Scratch,
    Site,
    Size,
    Step,
    Word,
)

#: The largest number of blocks, below the grid limit of 2**31 - 1; blocks loop over any further work.
MAX_BLOCKS = 2**30


@frozen
class Parameter:
    """A kernel's parameter: ``kind`` is ``int64`` or a pointer type; ``argument`` is passed unless a launch overrides it."""

    kind: str
    name: str
    argument: Argument


#: The type of divisors, a text that precedes kernels with such parameters.
DIVISOR = r"""
// How an index is taken apart: by a word of the host's, multiplications and a shift (see dim.division).
struct Divisor {
  uint64 word;
  DEVICE int64 quotient(int64 n) const {
    const uint32 shift = uint32(word) & 63u;
    if (uint32(word) & 128u) return int64((__umul64hi(uint64(n) << 1, word & ~uint64(255)) + uint64(n)) >> shift);
    return int64((__umulhi(uint32(n), uint32(word >> 8)) + uint32(n)) >> shift);
  }
};
"""

Parameters = tuple[Parameter, ...]
_FAULT: Parameters = (Parameter("void*", "fault", Fault()), Parameter("int64", "site", Site()))


def size(name: str, value: Dim | int) -> Parameter:
    """An int64 parameter."""
    known = const(value)
    return Parameter("int64", name, Size(value) if known is None else Word(known))


def divisor(name: str, by: Dim | int, total: Dim | int) -> Parameter:
    """A parameter whose ``quotient`` divides numbers below ``total`` by ``by`` (see ``DIVISOR``)."""
    word = division(by, total)
    known = const(word)
    return Parameter("Divisor", name, Size(word) if known is None else Word(known))


def in_memory(dtype: str) -> str:
    """The type in CUDA C of an element in memory; the prelude has ``truth``, which converts to and from bool."""
    return "truth" if dtype == "bool" else dtype


def reads(name: str, tensor: Operand) -> Parameter:
    """A tensor that is read; a literal has no address (see ``element``)."""
    return Parameter(f"const {in_memory(tensor.dtype)}*", name, Word(0) if tensor.position is None else Data(tensor.position))


def writes(name: str, tensor: Operand) -> Parameter:
    """A tensor that is written."""
    assert tensor.position is not None, "a literal is no result"
    return Parameter(f"{in_memory(tensor.dtype)}*", name, Data(tensor.position))


def element(function: str, tensor: Operand) -> str:
    """The text of a device function ``function(address, at)``: an element of ``tensor``, or the literal."""
    body = literal(tensor.dtype, tensor.value) if tensor.position is None else "data[at]"
    return f"DEVICE {tensor.dtype} {function}(const {in_memory(tensor.dtype)}* data, int64 at) {{ return {body}; }}\n"


def literal(dtype: str, value: float | int | bool) -> str:
    """A constant of ``dtype`` in CUDA C, exact."""
    if dtype == "bool":
        return "true" if value else "false"
    if dtype in HALVES:
        return f"to_{dtype}({literal('float32', value)})"
    if not is_float(dtype):
        return f"{dtype}({int(value) % 2**64}ull)"
    # ctypes, not struct: struct rejects a float64 too large for float32, whose value is infinite
    number, word, end = (ctypes.c_float, "uint32", "u") if dtype == "float32" else (ctypes.c_double, "uint64", "ull")
    bits = int.from_bytes(bytes(number(value)), sys.byteorder)
    return f"same_bits<{dtype}>({word}({bits:#x}{end}))"


def around(shape: Shape, axis: int | None) -> tuple[Dim, Dim, Dim]:
    """The sizes before ``axis`` as one, of ``axis``, and after it as one; for None all elements as one axis."""
    if axis is None:
        return dim(1), product(shape), dim(1)
    axis %= len(shape)
    return product(shape[:axis]), shape[axis], product(shape[axis + 1 :])


def blocks(work: Dim | int, per_block: Dim | int = 1) -> Dim:
    """The number of blocks for ``work`` units of work; each block does ``per_block`` units at a time."""
    return min_((dim(work) + (per_block - 1)) // per_block, MAX_BLOCKS)


@dataclass
class Assembly:
    """A CudaSource under construction."""

    texts: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    sizes: list[Extent] = field(default_factory=list)
    kernels: dict[str, tuple[str, Parameters, int]] = field(default_factory=dict)  # text, parameters, threads per block
    allowed: Dim = field(default_factory=lambda: dim(1))  # 0 where a requirement or condition does not hold

    def text(self, *parts: str) -> None:
        """Add device code."""
        self.texts.extend(part for part in parts if part not in self.texts)

    def scratch(self, nbytes: Extent) -> Scratch:
        """A workspace of ``nbytes`` bytes, an argument of launches."""
        self.sizes.append(nbytes)
        return Scratch(len(self.sizes) - 1)

    def kernel(self, name: str, threads: int, parameters: Sequence[Parameter], body: str, resident: int = 1) -> None:
        """Declare a kernel with blocks of ``threads`` threads.

        ``resident``: the blocks that must fit a multiprocessor at once.  The compiler uses the registers that this leaves to each
        thread, to have more loads in flight; without a number it prefers as few as all threads of a full multiprocessor have.
        """
        assert name not in self.kernels and threads % 32 == 0, name
        declared = ", ".join(f"{p.kind} {p.name}" for p in parameters)
        bounds = f"__launch_bounds__({threads}{f', {resident}' if resident > 1 else ''})"
        statements = f"  BEGIN_KERNEL();\n{body.strip(chr(10))}\n"
        text = f'extern "C" __global__ void {bounds} {name}({declared}) {{\n{statements}}}\n'
        self.kernels[name] = text, tuple(parameters), threads

    def require(self, condition: Dim, status: int) -> None:
        """If ``condition`` is 0, the call fails with ``status``, and kernels launched later do not run."""
        name = f"refuse{status}"
        if name not in self.kernels:
            self.kernel(name, 32, _FAULT, f"  if (threadIdx.x == 0) fail(fault, {status}, site);")
        self.launch(name, not_(condition))
        self.only_if(condition)

    def only_if(self, condition: Dim) -> None:
        """Kernels launched later do not run if ``condition`` is 0."""
        self.allowed = all_(self.allowed, condition)

    def launch(
        self, name: str, grid: Extent, arguments: Mapping[str, Argument | Dim] | None = None, shared_bytes: Extent = 0
    ) -> None:
        """Add a launch of a declared kernel; ``arguments`` override the declared arguments by name.

        ``shared_bytes``: of dynamic shared memory.
        """
        _, parameters, threads = self.kernels[name]
        given = dict(arguments or {})
        passed = [given.pop(p.name, p.argument) for p in parameters]
        assert not given, f"{name} has no parameters {list(given)}"
        grid = where(self.allowed, grid, 0)
        if const(grid) == 0:
            return
        args = tuple(Size(a) if isinstance(a, Dim) else a for a in passed)
        self.steps.append(Launch(name, (grid, 1, 1), (threads, 1, 1), args, shared_bytes))

    def source(self) -> CudaSource:
        """The assembled source, without kernels that are never launched."""
        launched = {step.entry for step in self.steps if isinstance(step, Launch)}
        texts = [text for name, (text, _, _) in self.kernels.items() if name in launched]
        text = "\n".join([*self.texts, *texts]) if texts else ""
        return CudaSource(text, tuple(self.steps), tuple(self.sizes))
