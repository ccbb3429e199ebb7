"""``relayvm compare MODEL --against RUNTIME``: each value of a model on two runtimes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...vm.device_table import DEVICES
from ...vm.thread_count import get_num_threads
from ..comparison.result_check import Tolerance
from ..inputs.given_inputs import Wanted
from .terminal.exit_codes import ExitCode
from .terminal.options import write_file
from .terminal.progress import compile_progress, round_progress
from .terminal.streams import standard_output

if TYPE_CHECKING:
    from ..comparison.against.node_comparison import NodeComparison
    from ..comparison.against.pass_bisection import PassBisection

AGAINST_HELP = (
    "Compare each value of an ONNX model with onnxruntime, with the reference of the package onnx, or with other settings "
    "(device=sim,opt_level=0); the results of a program of torch.export.save (.pt2) with torch or other settings, those of a "
    "text with other settings: the first node that differs, the largest differences, times. --a: the settings of the program."
)
BISECT_HELP = (
    "With --against: look for the pass of the compiler after which the results differ first, the functions that it changed, and "
    "the setting that leaves it out."
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
    bisect: bool,
    as_json: bool,
    json_out: Path | None,
) -> int:
    """Compare, print and write; the exit code.  Raises RelayError as ``compare_nodes``, UsageError for files but one model."""
    from ..comparison.against.bisection_text import bisection_text
    from ..comparison.against.node_comparison import compare_nodes
    from ..comparison.against.node_text import node_text
    from ..comparison.against.observed_model import ONNX, TEXT, TORCH
    from ..comparison.against.pass_bisection import bisect_passes
    from ..comparison.against.peers import peer_of, relayvm

    if len(files) != 1 or files[0].suffix not in (ONNX, TORCH, TEXT):
        raise click.UsageError("--against compares one model: give one .onnx, .pt2 or .relay file")
    own, other = relayvm(device or DEVICES[0], settings), peer_of(runtime, get_num_threads())
    if bisect:
        with compile_progress():
            passes = bisect_passes(files[0], own, settings, device or DEVICES[0], other, given, tolerance)
        return _answered(passes, bisection_text(passes), as_json, json_out)
    with compile_progress(), round_progress() as on_round:
        found = compare_nodes(files[0], own, other, given, tolerance, repeat, on_round)
    return _answered(found, node_text(found), as_json, json_out)


def _answered(found: NodeComparison | PassBisection, words: str, as_json: bool, json_out: Path | None) -> int:
    text = json.dumps(found.as_data(), indent=2)
    write_file(json_out, lambda: text)
    with standard_output():
        click.echo(text if as_json else words)
    return ExitCode.OK if found.agree else ExitCode.DIFFERENT
