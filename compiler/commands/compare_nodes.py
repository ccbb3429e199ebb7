"""``relayvm compare MODEL --against RUNTIME``: each value of a model on two runtimes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from ...vm.device_table import DEVICES
from ...vm.thread_count import get_num_threads
from ..comparison.result_check import Tolerance
from ..inputs.given_inputs import Wanted
from .terminal.exit_codes import ExitCode
from .terminal.options import write_file
from .terminal.progress import compile_progress, round_progress
from .terminal.streams import standard_output

AGAINST_HELP = (
    "Compare each value of an ONNX model with onnxruntime, with the reference of the package onnx, or with other settings "
    "(device=sim,opt_level=0): the first node that differs, the largest differences, times. --a: the settings of the program."
)


def against(
    files: tuple[Path, ...],
    runtime: str,
    settings: Mapping[str, str],
    device: str | None,
    given: Wanted,
    tolerance: Tolerance,
    repeat: int,
    *,
    as_json: bool,
    json_out: Path | None,
) -> int:
    """Compare, print and write; the exit code.  Raises RelayError as ``compare_nodes``, UsageError for files but one model."""
    from ..comparison.against.node_comparison import compare_nodes
    from ..comparison.against.node_text import node_text
    from ..comparison.against.peers import peer_of, relayvm

    if len(files) != 1 or files[0].suffix != ".onnx":
        raise click.UsageError("--against compares the nodes of one ONNX model: give one .onnx file")
    own, other = relayvm(device or DEVICES[0], settings), peer_of(runtime, get_num_threads())
    with compile_progress(), round_progress() as on_round:
        found = compare_nodes(files[0], own, other, given, tolerance, repeat, on_round)
    text = json.dumps(found.as_data(), indent=2)
    write_file(json_out, lambda: text)
    with standard_output():
        click.echo(text if as_json else node_text(found))
    return ExitCode.OK if found.agree else ExitCode.DIFFERENT
