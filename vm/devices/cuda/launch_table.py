"""Encode the launches of a packed function as words for machine code (``gpu_layout.PLAN_PROGRAM`` and the following)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ....ops.codegen.cuda.cuda_program import (
    Address,
    Argument,
    CudaSource,
    Data,
    Extent,
    Fault,
    Handle,
    Launch,
    LibraryCall,
    MatrixProduct,
    Scratch,
    Site,
    Size,
    Step,
    Word,
)
from ....ops.core.group import Group
from ....shape_funcs.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, axis_size, dim
from ....shape_funcs.symbolic.program import SIZE, Load, assemble
from .gpu_layout import (
    ARG_DATA,
    ARG_FAULT,
    ARG_SCRATCH,
    ARG_SITE,
    ARG_SLOT,
    ARG_WORD,
    KERNEL_ENTRY,
    LIBRARY_ENTRY,
    MAX_LAUNCH_WORDS,
    PRODUCT_ENTRY,
)


@dataclass
class Plan:
    """The words of one packed function's launches, and the memory that they point at."""

    words: np.ndarray
    n_scratch: int
    buffers: list[np.ndarray] = field(default_factory=list)


@frozen
class Symbols:
    """Lookups of addresses for a plan: kernels by name, library functions by name, handles by library, records of products."""

    kernel: Callable[[str], int]
    library: Callable[[str], int]
    handle: Callable[[str], int]
    product: Callable[[MatrixProduct, int, int], int]


def plan(group: Group, source: CudaSource, symbols: Symbols) -> Plan:
    """The plan of ``source``, which runs ``group``."""
    return _Encoder(group, source, symbols).plan()


class _Encoder:
    """Collects the sizes that the launches need, then encodes the words."""

    def __init__(self, group: Group, source: CudaSource, symbols: Symbols) -> None:
        self.source, self.symbols = source, symbols
        values = group.values()
        tensors = [*group.params, *(values[r] for r in group.results)]
        axes = [(k, axis, d) for k, t in enumerate(tensors) for axis, d in enumerate(t.shape)]
        # a size is read from the first tensor that has it, or from the axis that the source names
        self.loads: dict[Dim, Load] = {d: (k, SIZE, axis) for k, axis, d in reversed(axes)}
        self.loads |= {axis_size(k, axis): (k, SIZE, axis) for k, axis, _ in axes}
        self.buffers: list[np.ndarray] = []
        self.sizes: list[Dim] = []

    def plan(self) -> Plan:
        source = self.source
        for extent in (*source.scratch, *(e for s in source.steps for e in _extents(s))):
            self.sizes.append(dim(extent))
        program = assemble([tuple(self.sizes)], [], self.loads)
        self.slot = dict(zip(self.sizes, program.outputs[0], strict=True))
        words = np.array(program.words(), np.int64)
        slots = np.zeros(max(len(program.loads) + len(program.rows), 1), np.int64)
        self.buffers += [words, slots]
        head = [words.ctypes.data, slots.ctypes.data, 0, len(source.scratch), len(source.steps)]
        head += [self.slot[dim(n)] for n in source.scratch]
        body = [w for step in source.steps for w in self.step(step)]
        return Plan(np.array(head + body, np.int64), len(source.scratch), self.buffers)

    def step(self, step: Step) -> list[int]:
        args = arguments(step)
        assert len(args) <= MAX_LAUNCH_WORDS
        if isinstance(step, Launch):
            head = [KERNEL_ENTRY, self.symbols.kernel(step.entry), *(self.slot[dim(e)] for e in step.grid), *step.block]
            head.append(self.slot[dim(step.shared_bytes)])
        elif isinstance(step, LibraryCall):
            unless = self.slot[dim(step.unless)]
            head = [LIBRARY_ENTRY, self.symbols.library(step.function), unless, unless, unless, 0, 0, 0, unless]
        else:
            unless, (alpha, beta) = self.slot[dim(step.unless)], (self.argument(a)[1] for a in (step.alpha, step.beta))
            product = self.symbols.product(step, alpha, beta)
            head = [PRODUCT_ENTRY, product, unless, unless, unless, step.instead, 0, 0, unless]
        return [*head, len(args), *(w for a in args for w in self.argument(a))]

    def argument(self, a: Argument) -> tuple[int, int]:
        match a:
            case Data():
                return ARG_DATA, a.position
            case Size():
                return ARG_SLOT, self.slot[dim(a.dim)]
            case Word():
                return ARG_WORD, a.value
            case Scratch():
                return ARG_SCRATCH, a.index
            case Fault():
                return ARG_FAULT, 0
            case Site():
                return ARG_SITE, 0
            case Handle():
                return ARG_WORD, self.symbols.handle(a.library)
            case Address():
                constant = np.zeros((len(a.content) + 7) // 8, np.int64)
                constant.view(np.uint8)[: len(a.content)] = np.frombuffer(a.content, np.uint8)
                self.buffers.append(constant)
                return ARG_WORD, constant.ctypes.data
        raise AssertionError(a)


def arguments(step: Step) -> tuple[Argument, ...]:
    """The arguments of a step as words; of a product in the order of ``gpu_layout.PRODUCT_M`` and the following."""
    if not isinstance(step, MatrixProduct):
        return step.args
    sizes = (Size(n) for n in step.sizes)
    return (*sizes, step.a, step.b, step.added or step.out, step.out, step.bias or Word(0))


def _extents(step: Step) -> list[Extent]:
    sizes = [a.dim for a in arguments(step) if isinstance(a, Size)]
    return [*sizes, *step.grid, step.shared_bytes] if isinstance(step, Launch) else [*sizes, step.unless]
