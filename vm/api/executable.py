"""The executable of the public API: its data with the methods that inspect, save and load it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from ...ops.core.ndarray import NDArray
from ...ops.core.tensor_types import Type
from ..bytecode import executable_file, late_bound
from ..bytecode.atomic_file import write_whole
from ..bytecode.executable import ExecutableData
from ..bytecode.named_arrays import arrays_of, save_param_dict
from ..diagnostics.argument_errors import a_path, wrong
from ..diagnostics.source import FileError
from ..values.output_names import outputs_of

if TYPE_CHECKING:
    from ..inspection.explain import Explanation
    from .saved_cache import Loaded

_NO_PATH: Any = object()


class KernelLibrary:
    """The compiled kernels of an executable on this machine: ``exe.lib``.  An executable runs without: kernels are made of it."""

    def __init__(self, executable: Executable) -> None:
        self._executable = executable

    def export_library(self, file_name: str | os.PathLike[str]) -> None:
        """Write the kernels to a file, as ``Executable.save_cache`` with the kind ``kernels``."""
        self._executable.save_cache(file_name, "kernels")


class Executable(ExecutableData):
    """A compiled program.  Any number of virtual machines can share an executable, which only its late-bound constants change.

    ``shape_funcs``: the integer programs; ``shape_func_names`` has the name of the primitive of each program.
    ``reasons``: the reasons for the DeviceCopy and CopyBegin instructions.
    """

    def __reduce__(self) -> Any:
        """Pickle the bytes of the file: addresses are not portable."""
        return from_bytes, (executable_file.to_bytes(self),)

    @property
    def outputs(self) -> tuple[tuple[str, Type], ...]:
        """Names and types of the results of ``main``: those of a model, or ``result``, ``result.0``.  Raises as ``inputs``."""
        self.inputs  # noqa: B018  raises ConfigError for an executable without the function
        return tuple((output.name, output.type) for output in outputs_of(self.functions[self.function_index("main")]))

    @property
    def bytecode(self) -> str:
        """The functions of the ``disassembly``.  Raises EncodingError for code that does not decode."""
        from ..bytecode.disassembly import functions_text  # for people, as other reports: a run does without

        return functions_text(self)

    @property
    def primitives(self) -> str:
        """The kernels of the ``disassembly``, a line for each: types, device, implementation."""
        from ..bytecode.disassembly import kernels_text

        return kernels_text(self)

    @property
    def disassembly(self) -> str:
        """The disassembly of the bytecode and the tables.  Raises EncodingError for code that does not decode."""
        from ..bytecode.disassembly import disassembly

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
        from ..inspection.explain import explain

        return explain(self, shapes, dims, entry)

    @overload
    def save(self) -> tuple[bytes, KernelLibrary]: ...
    @overload
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def save(self, path: Any = _NO_PATH) -> Any:
        """Write the executable to a file (``.rvm``) atomically.  Raises FileError if the file cannot be written.

        Without a path, as in Relay, the bytes of that file and the ``lib``, for ``load_exec``.
        """
        if path is _NO_PATH:
            return executable_file.to_bytes(self), self.lib
        executable_file.save(self, a_path(path, "save: the file"))
        return None

    @property
    def lib(self) -> KernelLibrary:
        """The compiled kernels of the executable on this machine."""
        return KernelLibrary(self)

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: KernelLibrary | str | os.PathLike[str] | None = None) -> Executable:
        """The executable of ``save()``, verified.

        ``lib``: nothing, or the file of ``KernelLibrary.export_library``, whose kernels are then not compiled again (see
        ``load_cache``); a KernelLibrary has nothing to add.  Raises ExecutableFormatError for other bytes, and as ``load_cache``.
        """
        if not isinstance(bytecode, (bytes, bytearray)):
            raise wrong("load_exec: the bytecode", "bytes", bytecode, "Executable.load(path) reads a file")
        executable = load_bytes(bytes(bytecode), "load_exec")
        if not (lib is None or isinstance(lib, KernelLibrary)):
            executable.load_cache(a_path(lib, "load_exec: the library"), "kernels")
        return executable

    # ---- late-bound constants ----------------------------------------------------------------------------------------

    def move_late_bound_consts(self, path: str | os.PathLike[str], byte_limit: int) -> None:
        """Move all constants of at least ``byte_limit`` bytes to a file; the executable cannot run until they are loaded.

        The file has the format of ``relay.save_param_dict``.  Raises FileError if the file cannot be written; the executable is
        then unchanged.
        """
        moved = late_bound.large_constants(self, byte_limit)
        write_whole(a_path(path, "move_late_bound_consts: the file"), save_param_dict(moved))
        late_bound.take_out(self, moved)

    def get_late_bound_consts(self, byte_limit: int) -> dict[str, NDArray]:
        """Take all constants of at least ``byte_limit`` bytes out of the executable; their elements by name."""
        moved = late_bound.large_constants(self, byte_limit)
        late_bound.take_out(self, moved)
        return moved

    def load_late_bound_consts(self, path: str | os.PathLike[str]) -> None:
        """Load constants from the file of ``move_late_bound_consts``.

        Raises FileError if the file cannot be read, InputError for a file of another format and for other elements.
        """
        file = a_path(path, "load_late_bound_consts: the file")
        try:
            data = file.read_bytes()
        except (OSError, ValueError) as error:
            raise FileError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
        late_bound.put_back(self, arrays_of(data, f"{file}: the bytes"), str(file))

    def load_late_bound_consts_from_map(self, map: Mapping[str, Any]) -> None:
        """Load constants from the dict of ``get_late_bound_consts``.  Raises InputError for other elements."""
        late_bound.put_back(self, map, "load_late_bound_consts_from_map")

    def save_cache(self, path: str | os.PathLike[str], kind: str = "all") -> None:
        """Write the compiled kernels and the tuning records of the executable on this machine to a file.

        ``kind``: ``kernels`` (missing kernels are compiled first), ``tuning`` or ``all``.  Raises ConfigError for another
        ``kind``, FileError if the file cannot be written, RelayError if the kernel cache does not hold the kernels.
        """
        from . import saved_cache

        saved_cache.save_cache(self, a_path(path, "save_cache: the file"), kind)

    def load_cache(self, path: str | os.PathLike[str], kind: str = "all", strict: bool = False) -> Loaded:
        """Load the kernels and tuning records for this program and machine from a file that ``save_cache`` wrote.

        Later virtual machines and compilations use them.  Kernels are machine code: load them only from sources that you trust
        to run programs.  An entry that does not fit causes a warning that names the differences; with ``strict`` nothing is
        loaded and CacheMismatch is raised.  Raises ConfigError for an unknown ``kind``, FileError if the file cannot be read.
        """
        from . import saved_cache

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


def load_bytes(data: executable_file.Contents, name: str) -> Executable:
    """Deserialise and verify the contents of the file ``name``.  Raises ExecutableFormatError."""
    return executable_file.load_bytes(data, name, Executable)
