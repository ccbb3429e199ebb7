"""Command line: ``relayvm run|compile|convert|dump|show|explain|profile|bench|compare|serve|tune|cache|ops|isa|env``.

Data goes to standard output, messages and progress to standard error.  Exit codes: see ``exit_codes``.
"""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import click

from ...ops.core.similar_names import did_you_mean
from ...vm.diagnostics.printable import printable
from ...vm.diagnostics.source import FileError, InputError
from ..load_program import is_executable, open_program
from .run_command import run_command
from .terminal.error_output import tell, wants_json
from .terminal.exit_codes import ExitCode, listed
from .terminal.options import (
    config_option,
    device_option,
    file_argument,
    json_option,
    params_option,
    size_options,
)
from .terminal.progress import compile_progress
from .terminal.streams import answer, complain, discard_output, prepare_streams, standard_output

#: Error numbers of a standard output that accepts no more data; a broken pipe is no error.
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


# ---- entry point ---------------------------------------------------------------------------------------------------------


def main(args: Sequence[str] | None = None) -> int:
    """Run a command line (``sys.argv`` when None) and return the exit code.  Never raises: ``error_output`` reports errors."""
    prepare_streams()
    streams = sys.stdout, sys.stderr
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            code = command.main(args=None if args is None else list(args), prog_name="relayvm", standalone_mode=False)
            with standard_output():
                return code if isinstance(code, int) else ExitCode.OK
        except SystemExit:
            if sys.stdout is streams[0]:
                raise  # click answered a shell's completion
            # click's help met a broken pipe: click wrapped the streams, and would end with 1
            sys.stdout, sys.stderr = streams
            discard_output()
            return ExitCode.OK
        except BaseException as caught:
            error: BaseException = caught
            if isinstance(caught, OSError) and caught.filename is None and caught.errno in _OUTPUT_ERRORS:  # click's own help
                discard_output()
                error = FileError(f"cannot write to standard output: {caught.strerror}")
            return tell(error, wants_json(sys.argv[1:] if args is None else args))


def _show_warning(message: Any, category: Any, *_: Any, **__: Any) -> None:
    complain(f"warning: {printable(str(message))}")


def _bench() -> click.Command:
    from .bench_command import bench_command as found

    return found


def _cache() -> click.Command:
    from .cache_command import cache_command as found

    return found


def _compare() -> click.Command:
    from .compare_command import compare_command as found

    return found


def _convert() -> click.Command:
    from .convert_command import convert_command as found

    return found


def _dump() -> click.Command:
    from .dump_command import dump_command as found

    return found


def _profile() -> click.Command:
    from .profile_command import profile_command as found

    return found


def _serve() -> click.Command:
    from ...serving.command import serve_command as found

    return found


def _show() -> click.Command:
    from .show_command import show_command as found

    return found


def _tune() -> click.Command:
    from .tune_command import tune_command as found

    return found


class _Commands(click.Group):
    """The commands.  Those in files of their own are imported by a command line that names them, or lists all."""

    LATE: ClassVar = {
        "bench": _bench,
        "cache": _cache,
        "compare": _compare,
        "convert": _convert,
        "dump": _dump,
        "profile": _profile,
        "serve": _serve,
        "show": _show,
        "tune": _tune,
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *self.LATE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        late = self.LATE.get(cmd_name)
        return super().get_command(ctx, cmd_name) if late is None else late()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=f"\b\nExit codes:\n{listed()}",
)
@click.version_option(None, "--version", package_name="relayvm", prog_name="relayvm")
def command() -> None:
    """Compile and run tensor programs whose shapes are known only at run time.

    FILE is a program in Relay's text format (.relay), a model (.onnx), or an executable (.rvm) that `relayvm compile` wrote, or -
    to read a text or an executable from standard input.
    """


# ---- programs --------------------------------------------------------------------------------------------------------------


command.add_command(run_command)


@command.command("compile")
@file_argument
@click.option("-o", "out", type=click.Path(path_type=Path), required=True, metavar="MODEL.rvm", help="The executable to write.")
@params_option
@device_option
@config_option
@json_option
def compile_command(
    file: Path, out: Path, params: Path | None, device: str | None, config: dict[str, str], as_json: bool
) -> None:
    """Compile FILE to an executable: data, not code; one file."""
    if is_executable(file):
        raise InputError(f"{file} is an executable already", help="give the .relay or .onnx file")
    if not is_executable(out):
        raise click.BadParameter(f"{out} must end in .rvm", param_hint="'-o'")
    with compile_progress():
        exe = open_program(file, device, config, params)
    exe.save(out)
    data = {
        "file": str(out),
        "bytes": out.stat().st_size,
        "target": exe.target,
        "config": dict(exe.config),
        "functions": [f.name for f in exe.functions],
        "kernels": [p.name for p in exe.packed],
    }
    text = f"{out}: {data['bytes']} bytes for {exe.target}; {len(exe.functions)} functions, {len(exe.packed)} kernels"
    answer(data, text, as_json)


@command.command(short_help="Explain the copies of FILE.")
@file_argument
@size_options
@params_option
@device_option
@config_option
@json_option
def explain(
    file: Path,
    entry: str,
    shapes: dict[str, tuple[int, ...]],
    dims: dict[str, int],
    params: Path | None,
    device: str | None,
    config: dict[str, str],
    as_json: bool,
) -> None:
    """Explain every copy of FILE: tensor, reason, source line, and the change that would remove the copy.

    Also the placement of each kernel, and the tensors in each storage.  With sizes the bytes are exact.
    """
    with compile_progress():
        found = open_program(file, device, config, params).explain(shapes, dims, entry)
    answer(found.as_data(), str(found), as_json)


# ---- reference --------------------------------------------------------------------------------------------------------------


@command.command()
@click.argument("name", required=False)
@json_option
def ops(name: str | None, as_json: bool) -> None:
    """List the operators, then the functions that build calls of them, or show NAME."""
    from ..operator_docs.composition_pages import composed, composed_data, composed_signature, composed_text
    from ..operator_docs.operator_pages import as_data, operator, operator_text, operators, signature

    if name is None:
        text = "\n".join([*map(signature, operators()), *map(composed_signature, composed())])
        answer([*map(as_data, operators()), *map(composed_data, composed())], text, as_json)
    elif name in composed():
        answer([composed_data(name)], composed_text(name), as_json)
    else:
        answer([as_data(operator(name))], operator_text(operator(name)), as_json)


@command.command()
@click.argument("name", required=False)
@json_option
def isa(name: str | None, as_json: bool) -> None:
    """List the instructions, or show NAME."""
    from ...vm.bytecode.isa import INSTRUCTIONS

    known = {cls.__name__: cls for _, cls in sorted(INSTRUCTIONS.items())}
    if name is not None and name.lower() not in map(str.lower, known):
        raise InputError(f"there is no instruction {name}{did_you_mean(name, known)}", help="`relayvm isa` lists them")
    found = [cls for k, cls in known.items() if name is None or k.lower() == name.lower()]
    data = [
        {"name": c.__name__, "opcode": c.opcode, "operands": {n: k.name for n, k in c.operands.items()}, "doc": _doc(c)}
        for c in found
    ]
    lines = [f"{d['opcode']:>3}  {d['name']:<17} {' '.join(c.operands)}" for d, c in zip(data, found, strict=True)]
    answer(data, "\n".join(lines) if name is None else f"{lines[0]}\n\n{data[0]['doc']}", as_json)


def _doc(instruction: type) -> str:
    import inspect

    return inspect.getdoc(instruction) or ""


@command.command()
@json_option
def env(as_json: bool) -> None:
    """Show versions, devices and the folder of compiled kernels."""
    from .environment import environment, environment_text

    data = environment()
    answer(data, environment_text(data), as_json)
