"""A program as the loop reads it: the tables that the state points at."""

from __future__ import annotations

import numpy as np

from ..ops.native.layout import TAG_TENSOR, TENSOR
from ..ops.ty import DTYPES
from .executable import Executable
from .kernels import kernel_address, library_table
from .layout import ARGV_WORDS, FUNCTION_WORDS, N_DEVICES, PACKED_WORDS
from .signature import named_dims

_FOREVER = 1 << 60  # a reference count that never reaches 0: objects that live as long as the machine


class Tables:
    """The tables of a program as the loop reads them.  Kept alive by the machine; nothing else holds their memory."""

    def __init__(self, exe: Executable) -> None:
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
        n_slots = max([len(p.loads) + len(p.rows) for p in exe.shape_funcs] + [len(named_dims(f)) for f in exe.functions] + [1])
        self.slots = np.zeros(n_slots, np.int64)
        self.argv = np.zeros(ARGV_WORDS, np.int64)
        self.libraries = library_table(exe)
        self._packed(exe)
        self._constants(exe)

    def _packed(self, exe: Executable) -> None:
        self._rows = []
        self.packed = np.zeros(PACKED_WORDS * max(1, len(exe.packed)), np.int64)
        for i, p in enumerate(exe.packed):
            values = p.group.values()
            tensors = [*p.group.params, *(values[r] for r in p.group.results)]
            counts = [(1, DTYPES.index("int64"))] * (p.n_inputs + p.n_outputs - len(tensors))
            row = np.array([*((len(t.shape), DTYPES.index(t.dtype)) for t in tensors), *counts], np.int64)
            self._rows.append(row)
            self.packed[PACKED_WORDS * i : PACKED_WORDS * (i + 1)] = kernel_address(p.group), p.device, row.ctypes.data

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
