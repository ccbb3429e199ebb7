"""``relayvm run``: run a program once; print, write and check its results."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from ..comparison.result_check import Tolerance
from ..inputs.given_inputs import begin_inputs
from ..load_program import function_of, open_program
from .expected import Expected
from .terminal.exit_codes import ExitCode
from .terminal.options import (
    config_option,
    device_option,
    expected_options,
    file_argument,
    input_options,
    json_option,
    params_option,
    wanted,
)
from .terminal.progress import compile_progress
from .terminal.streams import answer, complain


@click.command("run")
@file_argument
@input_options
@params_option
@device_option
@config_option
@click.option(
    "-o",
    "out",
    type=click.Path(path_type=Path),
    metavar="OUT.npz",
    help="Write the results to this file; OUT.npy for a single result.",
)
@expected_options()
@json_option
def run_command(
    file: Path,
    entry: str,
    params: Path | None,
    device: str | None,
    config: dict[str, str],
    out: Path | None,
    expected: Path | None,
    rtol: dict[str, float],
    atol: dict[str, float],
    as_json: bool,
    **inputs: Any,
) -> int:
    """Run FILE once: results, counters, time.  Inputs that are not given have their defaults, or are random, from the seed."""
    from .summary import check_output, results, save

    if expected is None and (rtol or atol):
        raise click.UsageError("--rtol and --atol say how near the results must be to --expected")
    began = time.perf_counter()
    with compile_progress():
        exe = open_program(file, device, config, params)
        function = function_of(exe, entry)
        if out is not None:
            check_output(out, function.result)
        check = None if expected is None else Expected(expected, function, Tolerance(rtol, atol))
        waiting = begin_inputs(function, wanted(**inputs))
        from ...vm.api.machine import VirtualMachine  # while threads draw the inputs
        from ...vm.report.completion import finish

        machine = VirtualMachine(exe)
        arguments = waiting()
    prepared = time.perf_counter()
    value = machine[entry](*arguments)
    finish(machine)
    ran = time.perf_counter()
    counters, found = dict(machine.counters), list(results(value, function))
    if out is not None:
        save(found, out)
    data = {
        "entry": entry,
        "device": exe.target,
        "config": dict(exe.config),
        "results": [r.as_data() for r in found],
        "counters": counters,
        "kernel_compiles": machine.kernel_compiles,
        "seconds": {"prepare": prepared - began, "run": ran - prepared},
    }
    lines = [*map(str, found), _run_text(data)]
    if check is None:
        answer(data, "\n".join(lines), as_json)
        return ExitCode.OK
    verdict = check.verdict(value)
    agree = [] if verdict.mismatches else [f"The results are those of {expected}: {verdict.within}."]
    answer(data | {"expected": verdict.as_data()}, "\n".join([*lines, *agree]), as_json)
    if verdict.mismatches and as_json:  # the answer has the differences; a second JSON object would be invalid
        complain(str(verdict.error("the run")))
        return ExitCode.UNEXPECTED
    verdict.demand("the run")
    return ExitCode.OK


def _run_text(data: dict[str, Any]) -> str:
    from ...vm.inspection.figures import time_text

    times = {k: time_text(1e9 * s) for k, s in data["seconds"].items()}
    counted = ", ".join(f"{k} {v}" for k, v in data["counters"].items() if v)
    compiled = f"{data['kernel_compiles']} kernels compiled"
    return f"@{data['entry']} on {data['device']}: {times['run']}, after {times['prepare']} to prepare, {compiled}\n{counted}"
