"""A program as the loop reads it: the tables that the state points at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import numpy as np

from ..ops.demands import Demands, demands
from ..ops.implementation import CARD, HOST
from ..ops.kernels.cuda import has_kernel
from ..ops.kernels.reads import reads
from ..ops.native.collection import collection_put_off
from ..ops.native.layout import TAG_TENSOR, TENSOR
from ..ops.op import TypeRelError
from ..ops.ty import DTYPES
from . import launch_check
from .executable import Executable, PackedFunc
from .fallback import first_line, usable
from .kernels import library_table
from .layout import ARGV_WORDS, CUDA, FUNCTION_WORDS, N_DEVICES, PACKED_WORDS
from .signature import named_dims
from .source import ExecutableFormatError, RelayError
from .sync_reason import SYNC_REASONS, number_of
from .trust import is_own, is_trusted

if TYPE_CHECKING:
    from ..ops.kernels.cuda.source import CudaSource
    from .cuda.session import Session

_FOREVER = 1 << 60  # a reference count that never reaches 0: objects that live as long as the machine


def _demanded(number: int, packed: PackedFunc) -> Demands:
    with _described(number, packed):
        return demands(packed.group, CARD if packed.device == CUDA else HOST)


def _made(number: int, packed: PackedFunc, own: bool) -> tuple[PackedFunc, int]:
    """A kernel on the host that runs here, and its address.  ``own``: the description is this process's compiler's."""
    with nullcontext() if own else _described(number, packed):
        return usable(packed)


@contextmanager
def _described(number: int, packed: PackedFunc) -> Iterator[None]:
    """Turn any error that a stranger's description causes in a generator or a compiler into an ExecutableFormatError."""
    try:
        yield
    except (RelayError, MemoryError, OSError):
        raise
    except Exception as error:
        text = error.message if isinstance(error, TypeRelError) else f"{type(error).__name__}: {first_line(error)}"
        raise ExecutableFormatError(f"the executable does not verify: packed[{number}] ({packed.name}): {text}") from error


class Tables:
    """The tables of a program as the loop reads them.  Kept alive by the machine; nothing else holds their memory."""

    def __init__(self, exe: Executable, session: Session | None = None) -> None:
        self.session = session
        #: Where each function begins in the whole code.
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
        self._programs = [np.array(p.words(), np.int64) for p in exe.shape_funcs]
        self.shape_programs = np.array([p.ctypes.data for p in self._programs], np.int64)
        self.argv = np.zeros(ARGV_WORDS, np.int64)
        #: What launches of each packed function demand of their tensors; () where they are trusted.
        self.demands = () if is_trusted(exe) else tuple(_demanded(i, p) for i, p in enumerate(exe.packed))
        with collection_put_off():
            found = [_made(i, p, is_own(exe)) if p.device != CUDA else (p, 0) for i, p in enumerate(exe.packed)]
        self.libraries = library_table([p for p, _ in found])
        programs = [*exe.shape_funcs, *(d.program for d in self.demands if d.program is not None)]
        n_slots = max([len(p.loads) + len(p.rows) for p in programs] + [len(named_dims(f)) for f in exe.functions] + [1])
        self.slots = np.zeros(n_slots, np.int64)
        #: For each reason of a copy the number of its sync reason; how often the host waited for each of those.
        self.reason_kinds = np.array([number_of(reason) for reason in exe.reasons] or [0], np.int64)
        self.sync_counts = np.zeros(len(SYNC_REASONS), np.int64)
        self._packed(exe, [address for _, address in found])
        self._constants(exe)

    def _packed(self, exe: Executable, addresses: list[int]) -> None:
        self._rows = []
        self.packed = np.zeros(PACKED_WORDS * max(1, len(exe.packed)), np.int64)
        on_card = self._on_card(exe)
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
            launches = on_card.get(i, 0)
            address = int(launches != 0) if p.device == CUDA else addresses[i]
            checks = self._demand_words(self.demands[i]) if self.demands else 0
            words = address, p.device, row.ctypes.data, launches, workspaces, checks
            self.packed[PACKED_WORDS * i : PACKED_WORDS * (i + 1)] = words

    def _demand_words(self, demands: Demands) -> int:
        """The address of the words of ``demands``."""
        program = 0
        if demands.program is not None:
            self._programs.append(np.array(demands.program.words(), np.int64))
            program = self._programs[-1].ctypes.data
        self._rows.append(launch_check.words(demands, program))
        return int(self._rows[-1].ctypes.data)

    def _on_card(self, exe: Executable) -> dict[int, int]:
        """For each packed function of a card the address of its launches, 0 where they go through Python."""
        #: What the packed functions of a card, by number, are made of.
        self.sources: dict[int, CudaSource] = {}
        # a user's kernel in numpy works on copies (see ``python_kernels``)
        numbers = [i for i, p in enumerate(exe.packed) if p.device == CUDA and has_kernel(p.group)]
        if self.session is None or not numbers:
            assert not numbers
            return {}
        plans = self.session.plans([exe.packed[i].group for i in numbers])
        self.sources = {i: source for i, (_, source) in zip(numbers, plans, strict=True)}
        return {i: address for i, (address, _) in zip(numbers, plans, strict=True)}

    def _constants(self, exe: Executable) -> None:
        objects = np.zeros(max(1, len(exe.constants)), TENSOR)
        self.constants = np.zeros((max(1, len(exe.constants)), N_DEVICES), np.int64)
        self._held = [np.asarray(c, order="C") for c in exe.constants]
        for i, c in enumerate(self._held):
            o = objects[i]
            o["refcount"], o["tag"], o["data"], o["ndim"] = _FOREVER, TAG_TENSOR, c.ctypes.data, c.ndim
            o["dtype"] = DTYPES.index(c.dtype.name)
            o["shape"][: c.ndim] = c.shape
            self.constants[i, 0] = objects[i:].ctypes.data
        self._objects = objects
