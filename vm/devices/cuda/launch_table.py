"""Encode the launches of a packed function as words for machine code (``gpu_layout.PLAN_PROGRAM`` and the following).

A step has its queue entry with all words that are known.  Machine code stores the words that depend on sizes when the sizes
change, and the addresses at each launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....ops.codegen.cuda.cuda_program import (
    Address,
    Argument,
    Convolution,
    CudaSource,
    Data,
    Fault,
    Handle,
    Launch,
    MatrixProduct,
    Scratch,
    Site,
    Size,
    Step,
    Turns,
    Word,
)
from ....ops.core.group import Group
from ....shape_funcs.symbolic.dim import Dim, axis_size, const, dim
from ....shape_funcs.symbolic.program import SIZE, Load, assemble
from ...state.gpu_layout import (
    CONVOLUTION_ENTRY,
    ENTRY_ARGS,
    ENTRY_GRID,
    ENTRY_KIND,
    ENTRY_N_ARGS,
    ENTRY_WORDS,
    KERNEL_ENTRY,
    LIBRARY_ENTRY,
    MAX_LAUNCH_WORDS,
    PRODUCT_A,
    PRODUCT_ADDED,
    PRODUCT_ALL,
    PRODUCT_B,
    PRODUCT_BIAS,
    PRODUCT_ENTRY,
    PRODUCT_OUT,
    PRODUCT_RECORD,
    PRODUCT_SIZES,
    PRODUCT_UNLESS,
    PRODUCT_WORDS,
    STEP_PATCHES,
    TURNS_ENTRY,
    TURNS_ITEMS,
)
from .cudnn.layout import (
    CONVOLUTION_ALL,
    CONVOLUTION_DATA,
    CONVOLUTION_OUT,
    CONVOLUTION_RECORD,
    CONVOLUTION_SIZES,
    CONVOLUTION_UNLESS,
    CONVOLUTION_WEIGHT,
    CONVOLUTION_WORDS,
)

_NOTHING = Word(0)


@dataclass
class Plan:
    """The words of one packed function's launches, and the memory that they point at."""

    words: np.ndarray
    n_scratch: int
    buffers: list[np.ndarray] = field(default_factory=list)


@frozen
class Symbols:
    """Lookups of addresses for a plan: kernels by name, library functions by name, handles by library, records of products and
    of convolutions; the address of the fault word."""

    kernel: Callable[[str], int]
    library: Callable[[str], int]
    handle: Callable[[str], int]
    product: Callable[[MatrixProduct, int, int], int]
    convolution: Callable[[Convolution], int]
    fault: int


def plan(group: Group, source: CudaSource, symbols: Symbols) -> Plan:
    """The plan of ``source``, which runs ``group``."""
    return _Encoder(group, source, symbols).plan()


def product_entry(step: MatrixProduct, record: int) -> tuple[Argument, ...]:
    """The entry of a product and the words behind it; zeros where machine code stores the row of the table."""
    given: dict[int, Argument] = {
        ENTRY_WORDS: Word(PRODUCT_WORDS),
        ENTRY_KIND: Word(PRODUCT_ENTRY),
        ENTRY_N_ARGS: Word(PRODUCT_WORDS - ENTRY_ARGS),
        PRODUCT_A: step.a,
        PRODUCT_B: step.b,
        PRODUCT_ADDED: step.added or step.out,
        PRODUCT_OUT: step.out,
        PRODUCT_BIAS: step.bias or _NOTHING,
        PRODUCT_UNLESS: Size(step.unless),
        PRODUCT_RECORD: Word(record),
        **{PRODUCT_SIZES + k: Size(n) for k, n in enumerate(step.sizes)},
    }
    return tuple(given.get(k, _NOTHING) for k in range(PRODUCT_ALL))


def convolution_entry(step: Convolution, record: int) -> tuple[Argument, ...]:
    """The entry of a convolution and the words behind it; zeros where machine code stores the row of the table."""
    given: dict[int, Argument] = {
        ENTRY_WORDS: Word(CONVOLUTION_WORDS),
        ENTRY_KIND: Word(CONVOLUTION_ENTRY),
        ENTRY_N_ARGS: Word(CONVOLUTION_WORDS - ENTRY_ARGS),
        CONVOLUTION_DATA: step.data,
        CONVOLUTION_WEIGHT: step.weight,
        CONVOLUTION_OUT: step.out,
        CONVOLUTION_UNLESS: Size(step.unless),
        CONVOLUTION_RECORD: Word(record),
        **{CONVOLUTION_SIZES + k: Size(n) for k, n in enumerate(step.sizes)},
    }
    return tuple(given.get(k, _NOTHING) for k in range(CONVOLUTION_ALL))


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

    def plan(self) -> Plan:
        source = self.source
        entries = [self.entry(step) for step in source.steps]
        decided = (a.dim for entry in entries for a in entry if isinstance(a, Size))
        moved = (a.item_bytes for entry in entries for a in entry if isinstance(a, Data) and const(a.item_bytes) != 0)
        sizes = [*map(dim, (*source.scratch, *moved)), *(d for d in map(dim, decided) if const(d) is None)]
        program = assemble([tuple(sizes)], [], self.loads)
        self.slot = dict(zip(sizes, program.outputs[0], strict=True))
        words = np.array(program.words(), np.int64)
        slots = np.zeros(1 + len(program.loads) + len(program.rows), np.int64)
        self.buffers += [words, slots]
        head = [words.ctypes.data, slots.ctypes.data + 8, 0, len(source.scratch), len(source.steps)]
        head += [self.slot[dim(n)] for n in source.scratch]
        body = [w for step, entry in zip(source.steps, entries, strict=True) for w in self.step(step, entry)]
        return Plan(np.array(head + body, np.int64), len(source.scratch), self.buffers)

    def entry(self, step: Step) -> tuple[Argument, ...]:
        """The queue entry of a step."""
        if isinstance(step, MatrixProduct):
            alpha, beta = (self.constant(a) for a in (step.alpha, step.beta))
            return product_entry(step, self.symbols.product(step, alpha, beta))
        if isinstance(step, Convolution):
            return convolution_entry(step, self.symbols.convolution(step))
        if isinstance(step, Turns):
            return Word(ENTRY_ARGS), Word(TURNS_ENTRY), _NOTHING, Size(step.total), Size(step.per), *[_NOTHING] * 6
        assert len(step.args) <= MAX_LAUNCH_WORDS
        head: tuple[Argument, ...]
        if isinstance(step, Launch):
            grid, block = tuple(map(Size, step.grid)), tuple(map(Word, step.block))
            head = Word(KERNEL_ENTRY), Word(self.symbols.kernel(step.entry)), *grid, *block, Size(step.shared_bytes)
        else:
            function = Word(self.symbols.library(step.function))
            head = Word(LIBRARY_ENTRY), function, Size(step.unless), *[_NOTHING] * 6
        return Word(ENTRY_ARGS + len(step.args)), *head, Word(len(step.args)), *step.args

    def step(self, step: Step, entry: tuple[Argument, ...]) -> list[int]:
        """The words of a step with this entry."""
        words: list[int] = []
        patches: tuple[list[int], ...] = ([], [], [], [], [])  # of sizes, data, workspaces, sites, items of turns
        for place, a in enumerate(entry):
            words.append(0)
            match a:
                case Size():
                    known = const(a.dim)
                    if known is None:
                        patches[0].extend((place, self.slot[dim(a.dim)]))
                    else:
                        words[-1] = known
                case Data():
                    patches[1].extend((place, a.position))
                    if const(a.item_bytes) != 0:
                        patches[4].extend((place, self.slot[dim(a.item_bytes)]))
                case Scratch():
                    patches[2].extend((place, a.index))
                case Site():
                    patches[3].extend((place, 0))
                case _:
                    words[-1] = self.constant(a)
        at = STEP_PATCHES + sum(map(len, patches))
        if isinstance(step, MatrixProduct):
            instead, gate = step.instead, (PRODUCT_UNLESS, 1)
        elif isinstance(step, Convolution):
            instead, gate = step.instead, (CONVOLUTION_UNLESS, 1)
        elif isinstance(step, Turns):
            instead, gate = step.n_steps, (TURNS_ITEMS, 2)
        else:
            instead, gate = 0, (ENTRY_GRID, 3 if isinstance(step, Launch) else 1)
        head = [at + len(words), 0, 0, instead, *gate, at, *(len(p) // 2 for p in patches)]
        return [*head, *(w for p in patches for w in p), *words]

    def constant(self, a: Argument) -> int:
        """An argument that is the same in each launch."""
        match a:
            case Word():
                return a.value
            case Fault():
                return self.symbols.fault
            case Handle():
                return self.symbols.handle(a.library)
            case Address():
                constant = np.zeros((len(a.content) + 7) // 8, np.int64)
                constant.view(np.uint8)[: len(a.content)] = np.frombuffer(a.content, np.uint8)
                self.buffers.append(constant)
                return constant.ctypes.data
        raise AssertionError(a)
