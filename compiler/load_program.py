"""From a file to an executable: compile a program's text, or load a stored executable and check its settings."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ops.core.similar_names import did_you_mean
from ..vm.api.executable import Executable, load_bytes
from ..vm.bytecode.executable import VMFunction
from ..vm.bytecode.executable_file import MAGIC
from ..vm.device_table import DEVICES
from ..vm.diagnostics import codes
from ..vm.diagnostics.argument_errors import a_text
from ..vm.diagnostics.source import FileError, InputError, SourceText
from .compile import compile
from .inputs.array_files import read_weights
from .settings.config import Config
from .settings.targets import check_target

if TYPE_CHECKING:
    from .ir.expr import IRModule

#: The suffix of a stored executable.
SUFFIX = ".rvm"
#: The name of standard input, which holds a program's text or an executable.
STDIN = Path("-")


def is_executable(path: Path) -> bool:
    """Whether the file name is that of a stored executable."""
    return path.suffix == SUFFIX


def load(path: Path) -> Executable | SourceText | Path:
    """A stored executable, loaded; for a program's text its path, or the text itself if it comes from standard input.

    Raises FileError, ExecutableFormatError, ParseError.
    """
    if path == STDIN:
        return _from_stdin()
    return Executable.load(path) if is_executable(path) else path


def _from_stdin() -> Executable | SourceText:
    """The kind of program on standard input, by its first bytes."""
    name = "<stdin>"
    try:
        if sys.stdin is None:
            raise OSError("it is closed")
        data = sys.stdin.buffer.read()
    except OSError as error:
        raise FileError(f"cannot read standard input: {error.strerror or error}") from error
    from .text.parser import decode_source

    return load_bytes(data, name) if data.startswith(MAGIC) else decode_source(data, name)


def read_module(path: Path, params: Path | None = None) -> IRModule:
    """The module in a text file or of a model, with the weights of the file ``params`` as constants.

    Raises FileError, ParseError, ModelError, and InputError for a stored executable and for weights that do not fit.
    """
    from .lowered import as_module, bind_params

    found = path if is_executable(path) else load(path)
    if isinstance(found, Executable) or is_executable(path):
        message = f"{path} is an executable: the module it was compiled from is not in it"
        raise InputError(message, help="give the .relay or .onnx file")
    return bind_params(as_module(found), {} if params is None else read_weights(params))


def with_weights(path: Path, params: Path | None) -> Executable | SourceText | Path | IRModule:
    """As ``load``, with the weights of the file ``params`` as constants.  Raises as ``read_module``."""
    return load(path) if params is None else read_module(path, params)


def open_program(
    path: Path, device: str | None = None, config: Mapping[str, str] | None = None, params: Path | None = None
) -> Executable:
    """The executable of a file; ``device`` None: the executable's own target, for a program's text the host.

    ``params``: a file of weights, which become constants.

    Raises RelayError: for a file that is no program, unknown settings, and a stored executable with other settings.
    """
    settings: dict[str, Any] = dict(config or {})
    if device is not None:
        check_target(device)
    wanted = Config.of(**settings).texts()
    exe = with_weights(path, params)
    if not isinstance(exe, Executable):
        return compile(exe, device or DEVICES[0], **settings)
    if device is not None and device != exe.target:
        message = f"{path} was compiled for {exe.target!r}, not {device!r}"
        raise InputError(message, help="leave --device out, or compile it again")
    for key in settings:
        if exe.config.get(key) != wanted[key]:
            message = f"{path} was compiled with {key}={exe.config.get(key)}, not {key}={wanted[key]}"
            raise InputError(message, help=f"leave --config {key} out, or compile it again")
    return exe


def function_of(exe: Executable, name: str) -> VMFunction:
    """The function named ``name``.  Raises InputError that lists the functions."""
    names = [f.name for f in exe.functions]
    if a_text(name, "the function's name") not in names:
        listed = ", ".join(f"@{n}" for n in names)
        raise InputError(
            f"the program has no function @{name}{did_you_mean(name, names)}",
            help=f"its functions: {listed}",
            code=codes.Config.FUNCTION,
        )
    return exe.functions[names.index(name)]
