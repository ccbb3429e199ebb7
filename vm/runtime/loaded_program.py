"""A loaded program: the tables that the machine's state points at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import numpy as np

from ...ops.analysis.preconditions import Demands, demands
from ...ops.analysis.uses import reads
from ...ops.codegen.cuda import has_kernel
from ...ops.core.op import TypeRelError
from ...ops.core.tensor_types import DTYPES
from ...ops.native.jit.gc_pause import collection_paused
from ...ops.native.object_layout import TAG_TENSOR, TENSOR
from ...ops.strategy.implementation import GPU, HOST
from ...shape_funcs.symbolic.program import ShapeProgram
from ..bytecode.executable import ExecutableData, LateBound, PackedFunc
from ..bytecode.signature import named_dims
from ..bytecode.sync_reason import SYNC_REASONS, number_of
from ..bytecode.trusted import is_compiled_here, skips_checks
from ..diagnostics.source import ExecutableFormatError, RelayError
from . import launch_check
from .kernels.fallback import first_line, usable
from .kernels.kernel_addresses import library_table
from .kernels.side_compilation import companions
from .state_layout import ARGV_WORDS, CUDA, FUNCTION_WORDS, N_DEVICES, PACKED_WORDS, SHAPE_PROGRAM_WORDS

if TYPE_CHECKING:
    from ..devices.cuda.session import Session

_FOREVER = 1 << 60  # a reference count that never reaches 0: objects that live as long as the machine


def _demanded(number: int, packed: PackedFunc) -> Demands:
    with _described(number, packed):
        return demands(packed.group, GPU if packed.device == CUDA else HOST)


def _made(number: int, packed: PackedFunc, own: bool) -> tuple[PackedFunc, int]:
    """A kernel on the host that is usable here, and its address.  ``own``: this process's compiler made the description."""
    with nullcontext() if own else _described(number, packed):
        return usable(packed)


@contextmanager
def _described(number: int, packed: PackedFunc) -> Iterator[None]:
    """Convert any error that a foreign description causes in a generator or a compiler to an ExecutableFormatError."""
    try:
        yield
    except (RelayError, MemoryError, OSError):
        raise
    except Exception as error:
        text = error.message if isinstance(error, TypeRelError) else f"{type(error).__name__}: {first_line(error)}"
        raise ExecutableFormatError(f"the executable does not verify: packed[{number}] ({packed.name}): {text}") from error


def _updated(packed: PackedFunc) -> tuple[int, int]:
    """The positions of a parameter and of the result written over it, if only some elements are accessed; -1, -1 if none is."""
    group = packed.group
    kernel = group.kernel_on(GPU if packed.device == CUDA else HOST) if group.nodes[0].operator.kernels else None
    for param, result in group.in_place:
        if kernel is not None and kernel.updates(group.nodes[0].attrs):
            return param, len(group.params) + result
    return -1, -1


class Tables:
    """The tables of a program as the loop reads them, kept alive by the machine; nothing else owns their memory.

    ``processes``: the number of processes that may compile kernels (see ``side_compilation``).
    """

    def __init__(self, exe: ExecutableData, session: Session | None = None, processes: int = 1) -> None:
        self.session = session
        #: First word of each function in the whole code.
        self.starts, at = [], 0
        for f in exe.functions:
            self.starts.append(at)
            at += len(f.code)
        self.code = np.concatenate([f.code for f in exe.functions] or [np.zeros(1, np.int64)]).astype(np.int64)
        self.functions = np.array(
            [x for start, f in zip(self.starts, exe.functions, strict=True) for x in (start, f.n_registers, len(f.params))],
            np.int64,
        )
        assert len(self.functions) == FUNCTION_WORDS * len(exe.functions)
        self._programs: list[np.ndarray] = []
        self.shape_programs = np.array([x for p in exe.shape_funcs for x in self._shape_program(p)], np.int64)
        assert len(self.shape_programs) == SHAPE_PROGRAM_WORDS * len(exe.shape_funcs)
        self.argv = np.zeros(ARGV_WORDS, np.int64)
        #: Preconditions of launches of each packed function on its tensors; () for a trusted executable.
        self.demands = () if skips_checks(exe) else tuple(_demanded(i, p) for i, p in enumerate(exe.packed))
        groups = [p.group for p in exe.packed if p.device != CUDA]
        with collection_paused(), companions(groups, processes):
            found = [_made(i, p, is_compiled_here(exe)) if p.device != CUDA else (p, 0) for i, p in enumerate(exe.packed)]
        self.libraries = library_table([p for p, _ in found])
        programs = [*exe.shape_funcs, *(d.program for d in self.demands if d.program is not None)]
        n_slots = max([len(p.loads) + len(p.rows) for p in programs] + [len(named_dims(f)) for f in exe.functions] + [1])
        self.slots = np.zeros(1 + n_slots, np.int64)
        #: For each reason of a copy the number of its sync reason; for each sync reason the number of waits of the host.
        self.reason_kinds = np.array([number_of(reason) for reason in exe.reasons] or [0], np.int64)
        self.sync_counts = np.zeros(len(SYNC_REASONS), np.int64)
        self._packed(exe, [address for _, address in found])
        self._constants(exe)

    def _shape_program(self, program: ShapeProgram) -> tuple[int, int]:
        """The addresses of the words and of the slots of a program, each in memory of its own."""
        self._programs += [
            np.array(program.words(), np.int64),
            np.zeros(1 + len(program.loads) + len(program.rows), np.int64),
        ]
        words, slots = self._programs[-2:]
        return words.ctypes.data, slots.ctypes.data + 8

    def _packed(self, exe: ExecutableData, addresses: list[int]) -> None:
        self._rows = []
        self.packed = np.zeros(PACKED_WORDS * max(1, len(exe.packed)), np.int64)
        on_gpu = self._on_gpu(exe)
        for i, p in enumerate(exe.packed):
            values = p.group.values()
            tensors = [*p.group.params, *(values[r] for r in p.group.results)]
            types = [(len(t.shape), DTYPES.index(t.dtype)) for t in tensors]
            workspaces = int(p.group.workspace)
            types += [(1, DTYPES.index("int64"))] * (p.n_inputs + p.n_outputs - workspaces - len(tensors))  # the counts
            types += [(1, DTYPES.index("uint8"))] * workspaces
            devices = [p.device if read else -1 for read in reads(p.group)] + [p.device] * p.n_outputs
            row = np.array([(*ty, device) for ty, device in zip(types, devices, strict=True)], np.int64)
            self._rows.append(row)
            launches = on_gpu.get(i, 0)
            address = int(launches != 0) if p.device == CUDA else addresses[i]
            checks = self._demand_words(self.demands[i]) if self.demands else 0
            words = address, p.device, row.ctypes.data, launches, workspaces, checks, *_updated(p)
            self.packed[PACKED_WORDS * i : PACKED_WORDS * (i + 1)] = words

    def _demand_words(self, demands: Demands) -> int:
        """The address of the words of ``demands``."""
        program = 0
        if demands.program is not None:
            self._programs.append(np.array(demands.program.words(), np.int64))
            program = self._programs[-1].ctypes.data
        self._rows.append(launch_check.words(demands, program))
        return int(self._rows[-1].ctypes.data)

    def _on_gpu(self, exe: ExecutableData) -> dict[int, int]:
        """For each packed function of a GPU the address of its launches."""
        # a user's kernel in numpy works on copies (see ``python_kernels``)
        numbers = [i for i, p in enumerate(exe.packed) if p.device == CUDA and has_kernel(p.group)]
        if self.session is None or not numbers:
            assert not numbers
            return {}
        return dict(zip(numbers, self.session.plans([exe.packed[i].group for i in numbers]), strict=True))

    def _constants(self, exe: ExecutableData) -> None:
        objects = np.zeros(max(1, len(exe.constants)), TENSOR)
        self.constants = np.zeros((max(1, len(exe.constants)), N_DEVICES), np.int64)
        self._held = [np.asarray(c, order="C") for c in exe.constants if not isinstance(c, LateBound)]
        assert len(self._held) == len(exe.constants), "late-bound constants are bound before"
        for i, c in enumerate(self._held):
            o = objects[i]
            o["refcount"], o["tag"], o["data"], o["ndim"] = _FOREVER, TAG_TENSOR, c.ctypes.data, c.ndim
            o["dtype"] = DTYPES.index(c.dtype.name)
            o["shape"][: c.ndim] = c.shape
            self.constants[i, 0] = objects[i:].ctypes.data
        self._objects = objects
