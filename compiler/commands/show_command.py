"""``relayvm show``: a program as a graph, as text, data, or a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...vm.diagnostics.source import FileError, InputError
from ...vm.report.profile_report import Profile
from ..load_program import function_of, open_program
from ..shown_program import ShownProgram
from .terminal.options import (
    config_option,
    device_option,
    file_argument,
    input_options,
    json_option,
    params_option,
    repeat_option,
    wanted,
    write_file,
)
from .terminal.progress import compile_progress, round_progress
from .terminal.streams import answer

if TYPE_CHECKING:
    from ...vm.api.executable import Executable


@click.command("show", short_help="Show FILE as a graph.")
@file_argument
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write one page with the graph (relayvm[show]).")
@click.option("--run", "measured", is_flag=True, help="Measure runs: the times of the nodes.")
@click.option(
    "--profile",
    "profile_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take the times from a profile of the same program, which `relayvm profile --json-out` wrote.",
)
@input_options
@params_option
@device_option
@config_option
@repeat_option
@json_option
def show_command(
    file: Path,
    html: Path | None,
    measured: bool,
    profile_path: Path | None,
    entry: str,
    params: Path | None,
    device: str | None,
    config: dict[str, str],
    repeat: int,
    as_json: bool,
    **inputs: Any,
) -> None:
    """Show FILE as a graph: kernels, copies and calls, and the values between them, in scopes that can be folded.

    Scopes are the functions of the program and the names of a model's nodes, /encoder/layer.0/...; long lists are divided into
    parts.
    """
    if measured and profile_path is not None:
        raise click.UsageError("--run measures the times that --profile reads: give one of them")
    with compile_progress():
        exe = open_program(file, device, config, params)
        function_of(exe, entry)
    if profile_path is not None:
        found: Profile | None = _read_profile(profile_path, exe, entry)
    else:
        found = _measured(exe, entry, repeat, inputs) if measured else None
    shown = ShownProgram(exe, entry, found)
    write_file(html, lambda: shown.page(file.name))
    answer(shown.data(), shown.text(), as_json)


def _measured(exe: Executable, entry: str, repeat: int, inputs: dict[str, Any]) -> Profile:
    from ...vm.api.machine import VirtualMachine
    from ...vm.report.profiling import profile
    from ..inputs.given_inputs import make_inputs

    with compile_progress():
        arguments = make_inputs(function_of(exe, entry), wanted(**inputs))
        machine = VirtualMachine(exe)
    with round_progress() as on_round:
        return profile(machine, arguments, repeat=repeat, entry=entry, on_round=on_round)


def _read_profile(path: Path, exe: Executable, entry: str) -> Profile:
    """The profile in a file.  Raises FileError, and InputError for another program's."""
    try:
        found = Profile.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no profile: it is not text") from error
    if (found.entry, found.device) != (entry, exe.target):
        message = f"{path} is a profile of @{found.entry} on {found.device}, not of @{entry} on {exe.target}"
        raise InputError(message, help="give the --entry and --device of the profile")
    return found
