"""``relayvm profile``.  On a terminal the text has colours, and lines are cut to its width."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...vm.api.machine import VirtualMachine
from ...vm.report.profile_views import VIEWS
from ...vm.report.profiling import profile as measure
from ..inputs.given_inputs import make_inputs
from ..load_program import function_of, open_program
from .terminal.options import (
    config_option,
    device_option,
    export_options,
    file_argument,
    input_options,
    json_option,
    params_option,
    repeat_option,
    wanted,
    warmup_option,
    write_file,
)
from .terminal.progress import compile_progress, round_progress
from .terminal.streams import answer, standard_output

if TYPE_CHECKING:
    from rich.console import Console

#: Patterns of lines and their styles: the heading, the head of a table, copies and waits, comments of a program.
_STYLES = (
    (re.compile(r"^\S+: @"), "bold"),
    (re.compile(r"^\s*(Type|Time\(%\)|Calls) "), "bold dim"),
    (re.compile(r"\[memcpy DtoH\]|^\s*DtoH|\^ DtoH"), "red"),
    (re.compile(r"\[memcpy HtoD\]|^\s*HtoD|\^ HtoD"), "cyan"),
    (re.compile(r"\| +//"), "dim"),
)


def show(text: str) -> None:
    """Write the text to standard output."""
    if sys.stdout.isatty():
        from rich.console import Console

        draw(text, Console(highlight=False))
    else:
        sys.stdout.write(text + "\n")


def draw(text: str, console: Console) -> None:
    """Draw the text on a console of any width; the console handles colours and ``NO_COLOR``."""
    for line in text.splitlines():
        style = next((style for pattern, style in _STYLES if pattern.search(line)), "")
        console.print(line, style=style, markup=False, no_wrap=True, overflow="ellipsis")


view_option = click.option(
    "--view", type=click.Choice([*VIEWS]), default=next(iter(VIEWS)), show_default=True, help="The view to print."
)


@click.command("profile", short_help="Profile FILE: time, copies, memory.")
@file_argument
@input_options
@params_option
@device_option
@config_option
@repeat_option
@warmup_option
@view_option
@export_options
@json_option
def profile_command(
    file: Path,
    entry: str,
    params: Path | None,
    device: str | None,
    config: dict[str, str],
    repeat: int,
    warmup: int,
    view: str,
    as_json: bool,
    json_out_path: Path | None,
    csv_path: Path | None,
    markdown_path: Path | None,
    trace_path: Path | None,
    html_path: Path | None,
    **inputs: Any,
) -> None:
    """Profile several runs of FILE: kernels, copies with their reasons, waits, allocations, time."""
    with compile_progress():
        exe = open_program(file, device, config, params)
        arguments = make_inputs(function_of(exe, entry), wanted(**inputs))
        machine = VirtualMachine(exe)
    with round_progress() as on_round:
        found = measure(machine, arguments, repeat=repeat, warmup=warmup, entry=entry, on_round=on_round)
    write_file(json_out_path, found.to_json)
    write_file(csv_path, found.to_csv)
    write_file(markdown_path, found.to_markdown)
    write_file(trace_path, found.to_chrome_trace)
    write_file(html_path, found.to_html)
    if as_json:
        answer(found.as_data(), "", as_json)
    else:
        with standard_output():
            show(found.view(view))
