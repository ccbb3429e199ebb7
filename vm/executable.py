"""An executable: everything a machine needs to run a program, as data.  No code: kernels are descriptions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ops.group import Group
from ..ops.ty import Type
from ..shape_funcs.dims import ANY, Dim
from ..shape_funcs.program import ShapeProgram
from . import codes
from .copy_reason import CopyReason
from .given import UnknownName, a_path, a_text
from .python_place import here
from .source import ConfigError, SourceText

if TYPE_CHECKING:
    from .explain import Explanation
    from .saved_cache import Loaded

#: Device names by number, as instructions hold them.  0 is always the host.
DEVICES = ("cpu", "sim", "cuda")


@dataclass(frozen=True)
class MemoryNote:
    """What the code does not say of the instruction at ``pc``, one of ``isa.NOTED``; for people.

    ``name``: of a tensor; of a storage that may be that of a value, the value's.  ``nbytes``: of a storage, a portable dim (see
    ``sizes``).  ``why``: what kept a storage from being one that was there, "" where nothing was asked.
    """

    pc: int
    name: str = ""
    nbytes: Dim = ANY
    why: str = ""


@dataclass(frozen=True)
class VMFunction:
    """A function in bytecode.

    ``params``: names and types, held by registers 0, 1, ... on entry.  ``spans``: ``(pc, source, start, end)`` in order
    of pc: the instruction at ``pc`` and those after it, up to the next entry, come from these characters of that source.
    ``devices``: per parameter the number of the device that it is taken on; () where all are taken on the target.
    ``notes``: on its memory, in order of pc.
    """

    name: str
    params: tuple[tuple[str, Type], ...]
    result: Type
    n_registers: int
    code: np.ndarray
    spans: tuple[tuple[int, int, int, int], ...] = ()
    devices: tuple[int, ...] = ()
    notes: tuple[MemoryNote, ...] = ()

    def device_of(self, param: int, target: int) -> int:
        """The number of the device that a parameter is taken on; ``target`` is that of the executable."""
        return self.devices[param] if self.devices else target


@dataclass(frozen=True)
class PackedFunc:
    """A kernel: the description it is generated from, the device it runs on, its arguments' number, and why it is this
    implementation of its operator ("" where there is one only)."""

    group: Group
    device: int
    n_inputs: int
    n_outputs: int
    because: str = ""

    @property
    def name(self) -> str:
        return self.group.name


@dataclass(frozen=True, eq=False)
class Executable:
    """A compiled program.  Immutable; any number of virtual machines share it.

    ``shape_funcs``: the integer programs, each with the name of the primitive it belongs to in ``shape_func_names``.
    ``reasons``: why each DeviceCopy and CopyBegin is there.
    """

    functions: tuple[VMFunction, ...]
    constants: tuple[np.ndarray, ...]
    packed: tuple[PackedFunc, ...]
    shape_funcs: tuple[ShapeProgram, ...]
    shape_func_names: tuple[str, ...]
    reasons: tuple[CopyReason, ...]
    target: str
    config: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[SourceText, ...] = ()

    def __copy__(self) -> Executable:
        return self

    def __deepcopy__(self, memo: Any) -> Executable:
        return self

    def __reduce__(self) -> Any:
        from .file import to_bytes
        from .pickling import executable_of

        return executable_of, (to_bytes(self),)

    def __repr__(self) -> str:
        names = ", ".join(f"@{f.name}" for f in self.functions[:3]) + (", ..." if len(self.functions) > 3 else "")
        kernels = f"{len(self.packed)} kernel{'' if len(self.packed) == 1 else 's'}"
        return f"<Executable for {self.target}: {names}; {kernels}, {sum(c.nbytes for c in self.constants)} bytes of constants>"

    def function_index(self, name: str) -> int:
        """The number of the function called ``name``.  Raises UnknownName, a KeyError."""
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
    def primitive_ops(self) -> tuple[str, ...]:
        """The names of its kernels, by number."""
        return tuple(p.name for p in self.packed)

    @property
    def stats(self) -> dict[str, int]:
        """How many functions, instructions, kernels, shape functions, constants and device copies (by the instructions in
        the code, not by how often they run) there are, and the bytes of code and constants."""
        from . import isa

        instructions = [i for f in self.functions for _, i in isa.disassemble(f.code)]
        return {
            "functions": len(self.functions),
            "instructions": len(instructions),
            "kernels": len(self.packed),
            "shape_funcs": len(self.shape_funcs),
            "constants": len(self.constants),
            "device_copies": sum(isinstance(i, (isa.DeviceCopy, isa.CopyBegin)) for i in instructions),
            "code_bytes": sum(f.code.nbytes for f in self.functions),
            "constant_bytes": sum(c.nbytes for c in self.constants),
        }

    @property
    def disassembly(self) -> str:
        """The bytecode and the tables as text for people.  Raises EncodingError for code that does not decode."""
        from .disassembly import disassembly

        return disassembly(self)

    def explain(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        dims: Mapping[str, int] | None = None,
        entry: str = "main",
    ) -> Explanation:
        """Every place at which a run may copy, with its reason and what would remove it; and where each kernel runs.

        ``shapes`` by parameter and ``dims`` by name make bytes exact.  Raises InputError where they do not fit the function.
        """
        from .explain import explain

        return explain(self, shapes, dims, entry)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the executable into a file (``.rvm``), whole or not at all.  Raises FileError when that fails."""
        from .file import save

        save(self, a_path(path, "save: the file"))

    def save_cache(self, path: str | os.PathLike[str], kind: str = "all") -> None:
        """Write what is compiled and measured for the executable on this machine into a file.

        ``kind``: ``kernels`` (they are compiled if they are not yet), ``tuning`` or ``all``.  Raises ConfigError for another
        one, FileError where the file cannot be written, RelayError where the kernels are not kept here.
        """
        from .saved_cache import save_cache

        save_cache(self, a_path(path, "save_cache: the file"), kind)

    def load_cache(self, path: str | os.PathLike[str], kind: str = "all", strict: bool = False) -> Loaded:
        """Take from a file that ``save_cache`` wrote what is for this program and machine; machines made and programs compiled
        from now on use it.  Kernels are machine code: load them only from where you would run a program from.

        What cannot be used is a warning that names what differs; with ``strict`` nothing is taken, and CacheMismatch raised.
        Raises ConfigError for another ``kind``, FileError where the file cannot be read.
        """
        from .saved_cache import load_cache

        return load_cache(self, a_path(path, "load_cache: the file"), kind, strict)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Executable:
        """The executable in a file, verified.  Raises ExecutableFormatError for any other file, and a damaged one; FileError."""
        from .file import load

        return load(a_path(path, "load: the file"))
