"""A loaded program: the tables that the machine's state points at."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...ops.core.implementation import GPU
from ...ops.core.tensor_types import DTYPES
from ...ops.native.blas import library_calls
from ...ops.native.compiled import kernel_store
from ...ops.native.object_layout import TAG_TENSOR, TENSOR
from ...shape_funcs.symbolic.program import ShapeProgram
from ..bytecode.executable import ExecutableData, LateBound
from ..bytecode.sync_reason import SYNC_REASONS, number_of
from ..bytecode.trusted import skips_checks
from ..device_table import CPU, DEVICE_TABLE, DEVICES, machine_of
from ..runtime.huge_pages import Moving, MovingMeanwhile
from ..runtime.kernels.prepared import KernelRow, prepared_for
from ..state.state_layout import ARGV_WORDS, FUNCTION_BYTES, N_DEVICES, PACKED_WORDS, SHAPE_PROGRAM_BYTES
from ..values.signature import named_dims

if TYPE_CHECKING:
    from ...ops.analysis.preconditions import Demands
    from ..devices.device_session import DeviceSession

_FOREVER = 1 << 60  # a reference count that never reaches 0: objects that live as long as the machine


#: The executables whose constants are moved while machines run.
_moving: weakref.WeakKeyDictionary[ExecutableData, MovingMeanwhile] = weakref.WeakKeyDictionary()


def _moving_meanwhile(exe: ExecutableData, held: Sequence[np.ndarray]) -> MovingMeanwhile | None:
    """The move of an executable's constants, which the first machine starts; None unless a file maps many."""
    if not MovingMeanwhile.suits(held):
        return None
    if exe not in _moving:
        own = weakref.ref(exe)

        def keep(moved: list[np.ndarray]) -> None:
            if (executable := own()) is not None:
                object.__setattr__(executable, "constants", tuple(moved))  # the next machine has the same memory

        _moving[exe] = MovingMeanwhile(held, keep)
    return _moving[exe]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_moving.clear)  # a forked child lacks the thread


def _demanded(exe: ExecutableData) -> tuple[Demands, ...]:
    from ..runtime.kernels.described_kernels import demands_of  # operators and code generators

    return demands_of(exe)


def _stored(kernels: Sequence[tuple[KernelRow, str]]) -> list[int] | None:
    """The addresses of kernels that are in the store, by the ids of their entries; None if one is not there."""
    addresses = []
    for row, entry in kernels:
        address = kernel_store.address_of_entry(entry, row.name)
        if address is None:
            return None
        addresses.append(address)
    return addresses


def library_table(rows: Sequence[KernelRow]) -> np.ndarray:
    """The addresses of the library functions that kernels call (0: not needed)."""
    table = np.zeros(len(library_calls.TABLE), np.int64)
    for name, address in library_calls.addresses(sorted({name for row in rows for name in row.libraries})).items():
        table[library_calls.TABLE[name].index] = address
    return table


class Tables:
    """The tables of a program as the loop reads them, kept alive by the machine; nothing else owns their memory.

    ``processes``: the number of processes that may compile kernels (see ``side_compilation``).
    """

    def __init__(self, exe: ExecutableData, session: DeviceSession | None = None, processes: int = 1) -> None:
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
        assert self.functions.nbytes == FUNCTION_BYTES * len(exe.functions)
        self._programs: list[np.ndarray] = []
        self.shape_programs = np.array([x for p in exe.shape_funcs for x in self._shape_program(p)], np.int64)
        assert self.shape_programs.nbytes == SHAPE_PROGRAM_BYTES * len(exe.shape_funcs)
        self.argv = np.zeros(ARGV_WORDS, np.int64)
        #: Preconditions of launches of each packed function on its tensors; () for a trusted executable.
        self.demands = () if skips_checks(exe) else _demanded(exe)
        held = [np.asarray(c, order="C") for c in exe.constants if not isinstance(c, LateBound)]
        assert len(held) == len(exe.constants), "late-bound constants are bound before"
        moving, meanwhile = None, None
        if exe.target == DEVICES[CPU]:
            meanwhile = _moving_meanwhile(exe, held) if processes > 1 else None
            moving = Moving(held, processes > 1) if meanwhile is None else None
        rows, addresses = self._kernels(exe, processes)
        self.libraries = library_table(rows)
        programs = [*exe.shape_funcs, *(d.program for d in self.demands if d.program is not None)]
        n_slots = max([len(p.loads) + len(p.rows) for p in programs] + [len(named_dims(f)) for f in exe.functions] + [1])
        self.slots = np.zeros(1 + n_slots, np.int64)
        #: For each reason of a copy the number of its sync reason; for each sync reason the number of waits of the host.
        self.reason_kinds = np.array([number_of(reason) for reason in exe.reasons] or [0], np.int64)
        self.sync_counts = np.zeros(len(SYNC_REASONS), np.int64)
        self._packed(exe, rows, addresses)
        if moving is not None:
            held = moving.result()
            object.__setattr__(exe, "constants", tuple(held))  # the next machine has the same memory
        self._constants(held)
        if meanwhile is not None and not meanwhile.tell(self._take):
            self._take([np.asarray(c) for c in exe.constants])  # moved since

    def _shape_program(self, program: ShapeProgram) -> tuple[int, int]:
        """The addresses of the words and of the slots of a program, each in memory of its own."""
        self._programs += [
            np.array(program.words(), np.int64),
            np.zeros(1 + len(program.loads) + len(program.rows), np.int64),
        ]
        words, slots = self._programs[-2:]
        return words.ctypes.data, slots.ctypes.data + 8

    def _kernels(self, exe: ExecutableData, processes: int) -> tuple[list[KernelRow], list[int]]:
        """The kernels as the cache of executables knows them, else from their descriptions."""
        known = prepared_for(exe)
        if known is not None and not self.demands:
            addresses = _stored(known.kernels)
            if addresses is not None:
                return [row for row, _ in known.kernels], addresses
        from ..runtime.kernels.described_kernels import obtained  # operators and code generators

        return obtained(exe, processes)

    def _packed(self, exe: ExecutableData, rows: Sequence[KernelRow], addresses: list[int]) -> None:
        self._rows = []
        self.packed = np.zeros(PACKED_WORDS * max(1, len(rows)), np.int64)
        on_gpu = self._on_gpu(exe)
        for i, row in enumerate(rows):
            self._rows.append(np.array(row.tensors, np.int64).reshape(-1, 3))
            launches = on_gpu.get(i, 0)
            address = int(launches != 0) if DEVICE_TABLE[row.device].machine == GPU else addresses[i]
            tensors = self._rows[-1].ctypes.data
            checks = self._demand_words(self.demands[i]) if self.demands else 0
            words = address, row.device, tensors, launches, row.workspaces, checks, *row.updated
            self.packed[PACKED_WORDS * i : PACKED_WORDS * (i + 1)] = words

    def _demand_words(self, demands: Demands) -> int:
        """The address of the words of ``demands``."""
        from ..runtime import launch_check  # not for trusted executables

        program = 0
        if demands.program is not None:
            self._programs.append(np.array(demands.program.words(), np.int64))
            program = self._programs[-1].ctypes.data
        self._rows.append(launch_check.words(demands, program))
        return int(self._rows[-1].ctypes.data)

    def _on_gpu(self, exe: ExecutableData) -> dict[int, int]:
        """For each packed function with a kernel of a GPU the address of its launches."""
        if machine_of(exe.target) != GPU:
            return {}
        from ..runtime.kernels.described_kernels import launched_on_gpu

        numbers = launched_on_gpu(exe)
        if self.session is None or not numbers:
            assert not numbers
            return {}
        return dict(zip(numbers, self.session.plans([exe.packed[i] for i in numbers]), strict=True))

    def _constants(self, held: list[np.ndarray]) -> None:
        objects = np.zeros(max(1, len(held)), TENSOR)
        self.constants = np.zeros((max(1, len(held)), N_DEVICES), np.int64)
        self._held = held
        for i, c in enumerate(self._held):
            o = objects[i]
            o["refcount"], o["tag"], o["data"], o["ndim"] = _FOREVER, TAG_TENSOR, c.ctypes.data, c.ndim
            o["dtype"] = DTYPES.index(c.dtype.name)
            o["shape"][: c.ndim] = c.shape
            self.constants[i, 0] = objects[i:].ctypes.data
        self._objects = objects

    def _take(self, moved: list[np.ndarray]) -> None:
        """Let the machine read constants in other memory from now on, also during a run: the elements are the same."""
        self._held = [*self._held, *moved]  # results and a run may read the old memory
        self._objects["data"][: len(moved)] = [c.ctypes.data for c in moved]
