"""``relayvm bench``: latency and throughput of a program at several sizes in mixed order."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import click

from ...vm.inspection.figures import align, time_text
from ...vm.report.size_mix import QUANTILES, SizeMix, size_mix
from ..inputs.given_inputs import Wanted, make_inputs
from ..inputs.random_inputs import Range
from ..load_program import function_of, open_program
from .terminal.options import (
    config_option,
    device_option,
    file_argument,
    input_options,
    json_option,
    params_option,
    seconds_option,
    sizes_option,
)
from .terminal.progress import compile_progress
from .terminal.streams import answer


@click.command("bench", short_help="Measure latency and throughput of FILE.")
@file_argument
@sizes_option
@input_options
@params_option
@device_option
@config_option
@seconds_option
@click.option("--warmup", type=click.IntRange(min=0), default=2, show_default=True, help="Unmeasured calls of each case before.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of a kernel on the CPU; default: as for every command.")
@click.option(
    "--callers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Machines that call at once, each in a thread: throughput, not latency.",
)
@json_option
def bench_command(
    file: Path,
    sizes: dict[str, tuple[int, ...]],
    entry: str,
    values: dict[str, Any],
    shapes: dict[str, tuple[int, ...]],
    dims: dict[str, int],
    ranges: dict[str, Range],
    seed: int,
    params: Path | None,
    device: str | None,
    config: dict[str, str],
    seconds: float,
    warmup: int,
    threads: int | None,
    callers: int,
    as_json: bool,
) -> None:
    """Call FILE for some seconds, at each size in mixed order: quantiles of the time of a call, calls a second.

    --shapes n=1,16,256 gives a case for each size, several options for all combinations.  The number of kernels that were
    compiled while measured is 0 if all sizes share the program's kernels.
    """
    from ...vm.api.machine import VirtualMachine
    from ...vm.thread_count import set_num_threads

    if threads is not None:
        set_num_threads(threads)
    with compile_progress():
        exe = open_program(file, device, config, params)
        function = function_of(exe, entry)
        cases = {}
        for chosen in itertools.product(*sizes.values()):
            own = dict(zip(sizes, chosen, strict=True))
            name = ", ".join(f"{k}={n}" for k, n in own.items()) or entry
            cases[name] = make_inputs(function, Wanted(values, shapes, {**dims, **own}, seed, ranges))
        machines = [VirtualMachine(exe) for _ in range(callers)]
    found = size_mix(machines, cases, seconds, warmup, entry)
    data = {"file": str(file), "device": exe.target, "config": dict(exe.config), **found.as_data()}
    answer(data, bench_text(found), as_json)


def bench_text(found: SizeMix) -> str:
    """The quantiles of each case, and the figures of all."""
    header = ("Case", "Calls", *(f"p{round(100 * part)}" for part in QUANTILES), "min", "max")
    rows = [
        (
            c.name,
            str(len(c.times_ns)),
            *(time_text(c.quantile_ns(part)) for part in QUANTILES),
            *map(time_text, (c.times_ns[0], c.times_ns[-1])),
        )
        for c in found.cases
    ]
    at_once = f", {found.callers} callers at once" if found.callers > 1 else ""
    total = f"{found.per_second:.1f} calls/s{at_once} in {found.seconds:.1f} s; {found.compiled} kernels compiled while measured"
    return f"{align([header, *rows], (0,))}\n{total}"
