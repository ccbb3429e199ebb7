"""An executable: everything a machine needs to run a program, as data.  No code: kernels are descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..ops.group import Group
from ..ops.ty import Type
from ..shape_funcs.program import ShapeProgram
from .source import SourceText

#: Device names by number, as instructions hold them.  0 is always the host.
DEVICES = ("cpu", "sim")


@dataclass(frozen=True)
class VMFunction:
    """A function in bytecode.

    ``params``: names and types, held by registers 0, 1, ... on entry.  ``spans``: ``(pc, source, start, end)`` in order
    of pc: the instruction at ``pc`` and those after it, up to the next entry, come from these characters of that source.
    """

    name: str
    params: tuple[tuple[str, Type], ...]
    result: Type
    n_registers: int
    code: np.ndarray
    spans: tuple[tuple[int, int, int, int], ...] = ()


@dataclass(frozen=True)
class PackedFunc:
    """A kernel: the description it is generated from, the device it runs on, and its arguments' number."""

    group: Group
    device: int
    n_inputs: int
    n_outputs: int

    @property
    def name(self) -> str:
        return self.group.name


@dataclass(frozen=True, eq=False)
class Executable:
    """A compiled program.  Immutable; any number of virtual machines share it.

    ``shape_funcs``: the integer programs, each with the name of the primitive it belongs to in ``shape_func_names``.
    ``reasons``: why each DeviceCopy is there.
    """

    functions: tuple[VMFunction, ...]
    constants: tuple[np.ndarray, ...]
    packed: tuple[PackedFunc, ...]
    shape_funcs: tuple[ShapeProgram, ...]
    shape_func_names: tuple[str, ...]
    reasons: tuple[str, ...]
    target: str
    config: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[SourceText, ...] = ()

    def function_index(self, name: str) -> int:
        """The number of the function called ``name``.  Raises KeyError."""
        for i, f in enumerate(self.functions):
            if f.name == name:
                return i
        raise KeyError(name)
