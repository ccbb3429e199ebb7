"""The executable of the public API: its data with the methods that inspect, save and load it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..bytecode import executable_file
from ..bytecode.disassembly import disassembly
from ..bytecode.executable import ExecutableData
from ..inspection.explain import Explanation, explain
from . import saved_cache
from .argument_errors import a_path
from .saved_cache import Loaded


class Executable(ExecutableData):
    """A compiled program.  Executables are immutable; any number of virtual machines can share one executable.

    ``shape_funcs``: the integer programs; ``shape_func_names`` has the name of the primitive of each program.
    ``reasons``: the reasons for the DeviceCopy and CopyBegin instructions.
    """

    @property
    def disassembly(self) -> str:
        """The disassembly of the bytecode and the tables.  Raises EncodingError for code that does not decode."""
        return disassembly(self)

    def explain(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        dims: Mapping[str, int] | None = None,
        entry: str = "main",
    ) -> Explanation:
        """Explain the executable: copies with reasons and remedies, and the device of each kernel.

        ``shapes`` by parameter and ``dims`` by name make bytes exact.  Raises InputError if they do not fit the function.
        """
        return explain(self, shapes, dims, entry)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the executable to a file (``.rvm``) atomically.  Raises FileError if the file cannot be written."""
        executable_file.save(self, a_path(path, "save: the file"))

    def save_cache(self, path: str | os.PathLike[str], kind: str = "all") -> None:
        """Write the compiled kernels and the tuning records of the executable on this machine to a file.

        ``kind``: ``kernels`` (missing kernels are compiled first), ``tuning`` or ``all``.  Raises ConfigError for another
        ``kind``, FileError if the file cannot be written, RelayError if the kernel cache does not hold the kernels.
        """
        saved_cache.save_cache(self, a_path(path, "save_cache: the file"), kind)

    def load_cache(self, path: str | os.PathLike[str], kind: str = "all", strict: bool = False) -> Loaded:
        """Load the kernels and tuning records for this program and machine from a file that ``save_cache`` wrote.

        Later virtual machines and compilations use them.  Kernels are machine code: load them only from sources that you trust
        to run programs.  An entry that does not fit causes a warning that names the differences; with ``strict`` nothing is
        loaded and CacheMismatch is raised.  Raises ConfigError for an unknown ``kind``, FileError if the file cannot be read.
        """
        return saved_cache.load_cache(self, a_path(path, "load_cache: the file"), kind, strict)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Executable:
        """Load and verify the executable in a file.

        Raises ExecutableFormatError for a damaged file or a file of another kind, FileError if the file cannot be read.
        """
        return executable_file.load(a_path(path, "load: the file"), Executable)


def from_bytes(data: bytes) -> Executable:
    """Deserialise an executable without ``verify``.  Raises ExecutableFormatError, see ``executable_file``."""
    return executable_file.from_bytes(data, Executable)


def load_bytes(data: bytes, name: str) -> Executable:
    """Deserialise and verify the contents of the file ``name``.  Raises ExecutableFormatError."""
    return executable_file.load_bytes(data, name, Executable)
