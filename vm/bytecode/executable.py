"""Executables: compiled programs as plain data.  Kernels are stored as descriptions, not as machine code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.adt_types import AdtDefinition, TypeCall
from ...ops.core.copy_reason import CopyReason
from ...ops.core.group import Group
from ...ops.core.tensor_types import Type
from ...shape_funcs.symbolic.dim import ANY, Dim
from ...shape_funcs.symbolic.program import ShapeProgram
from ..device_table import DEVICE_TABLE
from ..diagnostics import codes
from ..diagnostics.argument_errors import UnknownName, a_text
from ..diagnostics.python_source import here
from ..diagnostics.source import ConfigError, SourceText
from . import isa
from .operand_kinds import Role


@frozen
class MemoryNote:
    """Debug information on the memory of the instruction at ``pc``, which defines memory; for people.

    ``name``: the name of the tensor, or of the value that may be in the storage.  ``nbytes``: the size of the storage, a portable
    dim (see ``size_expressions``).  ``why``: the reason why no existing storage is reused; "" if reuse was not considered.
    """

    pc: int
    name: str = ""
    nbytes: Dim = ANY
    why: str = ""


@frozen
class VMFunction:
    """A function in bytecode.

    ``params``: names and types; registers 0, 1, ... hold the arguments on entry.  ``spans``: ``(pc, source, start, end)`` in
    order of pc: the instructions from ``pc`` up to the next entry come from the characters ``start`` to ``end`` of the source
    with this number.  ``devices``: the device number of each parameter; () if all parameters are on the target.  ``notes``:
    debug information on memory, in order of pc.  ``output_names``: the name of the result, or of each field of the tuple that the
    result is; () if the program gives none (see ``output_names``).  ``defaults``: the values of the last parameters where a call
    gives none.
    """

    name: str
    params: tuple[tuple[str, Type], ...]
    result: Type
    n_registers: int
    code: np.ndarray
    spans: tuple[tuple[int, int, int, int], ...] = ()
    devices: tuple[int, ...] = ()
    notes: tuple[MemoryNote, ...] = ()
    output_names: tuple[str, ...] = ()
    defaults: tuple[np.ndarray, ...] = ()

    def device_of(self, param: int, target: int) -> int:
        """The device number of a parameter; ``target`` is the number of the executable's target device."""
        return self.devices[param] if self.devices else target


@frozen
class PackedFunc:
    """A kernel: the description that it is generated from, the number of its device, and its numbers of inputs and outputs.

    ``because``: the reason for the choice of the implementation; "" if the operator has only one implementation.
    """

    group: Group
    device: int
    n_inputs: int
    n_outputs: int
    because: str = ""

    @property
    def formats(self) -> str:
        """The dtypes of the inputs, each once, and of the results: ``uint8, int8 -> int32``."""
        values = self.group.values()
        both = self.group.params, [values[n] for n in self.group.results]
        inputs, results = (dict.fromkeys(t.dtype for t in tensors) for tensors in both)
        return f"{', '.join(inputs)} -> {', '.join(results)}".lstrip()

    @property
    def name(self) -> str:
        return self.group.name

    @property
    def machine(self) -> str:
        """HOST or GPU: the machine whose kernel it is."""
        return DEVICE_TABLE[self.device].machine


@frozen
class LateBound:
    """A constant whose elements are not in the executable (see ``late_bound``).  ``digest``: their SHA-256 in hexadecimal."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    digest: str

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes in the executable: none."""
        return 0


@frozen
class FloatProduct:
    """A product of dequantised tensors that is computed with floats: its operator, its place, and the reason."""

    op: str
    place: str
    because: str


@frozen(eq=False)
class ExecutableData:
    """The tables of a compiled program; ``api.executable.Executable`` adds the methods of later stages.

    ``shape_funcs``: the integer programs; ``shape_func_names`` has the name of the primitive of each program.
    ``reasons``: the reasons for the DeviceCopy and CopyBegin instructions.
    ``adts``: the type definitions of the functions' types.  ``host_fields``: per instance of an ADT (``instance_name``) and
    constructor the numbers of the tensors in the fields (``own_tensors``) that are on the host.  ``float_products``: the products
    of quantised tensors without integers.  ``constants`` alone changes, by ``late_bound``, and its memory by the first machine
    (``huge_pages``).
    """

    functions: tuple[VMFunction, ...]
    constants: tuple[np.ndarray | LateBound, ...]
    packed: Sequence[PackedFunc]
    shape_funcs: tuple[ShapeProgram, ...]
    shape_func_names: tuple[str, ...]
    reasons: tuple[CopyReason, ...]
    target: str
    config: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[SourceText, ...] = ()
    adts: tuple[AdtDefinition, ...] = ()
    host_fields: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    float_products: tuple[FloatProduct, ...] = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __repr__(self) -> str:
        names = ", ".join(f"@{f.name}" for f in self.functions[:3]) + (", ..." if len(self.functions) > 3 else "")
        kernels = f"{len(self.packed)} kernel{'' if len(self.packed) == 1 else 's'}"
        return f"<Executable for {self.target}: {names}; {kernels}, {sum(c.nbytes for c in self.constants)} bytes of constants>"

    def adt(self, ty: TypeCall) -> AdtDefinition:
        """The definition of an ADT's type."""
        return next(a for a in self.adts if a.name == ty.func.name)

    def function_index(self, name: str) -> int:
        """The number of the function called ``name``.  Raises UnknownName, a KeyError, if there is no such function."""
        a_text(name, "function_index: the name")
        for i, f in enumerate(self.functions):
            if f.name == name:
                return i
        listed = ", ".join("@" + f.name for f in self.functions)
        raise UnknownName(f"the executable has no function {name!r}", here(), help=f"its functions: {listed}")

    @property
    def inputs(self) -> tuple[tuple[str, Type], ...]:
        """Names and types of the parameters of ``main``.  Raises ConfigError when there is no ``main``."""
        for f in self.functions:
            if f.name == "main":
                return f.params
        raise ConfigError(
            "the executable has no @main",
            help=f"its functions: {', '.join('@' + f.name for f in self.functions)}",
            code=codes.Config.FUNCTION,
        )

    @property
    def globals(self) -> list[str]:
        """The names of the functions, by number."""
        return [f.name for f in self.functions]

    def get_function_params(self, func_name: str) -> list[str]:
        """The names of a function's parameters.  Raises UnknownName, a KeyError."""
        return [name for name, _ in self.functions[self.function_index(func_name)].params]

    def get_function_arity(self, func_name: str) -> int:
        """The number of a function's parameters.  Raises UnknownName, a KeyError."""
        return len(self.get_function_params(func_name))

    @property
    def primitive_ops(self) -> tuple[str, ...]:
        """The names of the kernels, by number."""
        return tuple(p.name for p in self.packed)

    @property
    def stats(self) -> dict[str, int]:
        """Numbers of functions, instructions, kernels, shape functions, constants and copies; bytes of code and constants.

        Device copies are counted statically: one per instruction in the code.
        """
        instructions = [i for f in self.functions for _, i in isa.disassemble(f.code)]
        return {
            "functions": len(self.functions),
            "instructions": len(instructions),
            "kernels": len(self.packed),
            "shape_funcs": len(self.shape_funcs),
            "constants": len(self.constants),
            "device_copies": sum(Role.REASON in i.roles for i in instructions),
            "code_bytes": sum(f.code.nbytes for f in self.functions),
            "constant_bytes": sum(c.nbytes for c in self.constants),
        }
