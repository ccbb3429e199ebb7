"""``relayvm tune``: measure the implementations of a program's operators on this machine and store tuning records."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ...ops.core.implementation import OpCall
from ...ops.strategy.measured import bucket_of, bucket_text, static_shapes
from ...vm.device_table import DEVICES
from ...vm.inspection.figures import align, time_text
from ..load_program import read_module
from ..settings.config import Config
from ..settings.targets import check_target
from ..tuning.remember import Tuned, calls_at, tune
from ..tuning.tunable import Tunable, tunable
from .terminal.options import budget_option, config_option, device_option, file_argument, json_option, params_option, sizes_option
from .terminal.progress import compile_progress, trial_progress
from .terminal.streams import answer


@click.command("tune", short_help="Measure the implementations of FILE's operators.")
@file_argument
@sizes_option
@budget_option
@params_option
@device_option
@config_option
@json_option
def tune_command(
    file: Path,
    sizes: dict[str, tuple[int, ...]],
    budget: float | None,
    params: Path | None,
    device: str | None,
    config: dict[str, str],
    as_json: bool,
) -> None:
    """Measure the implementations of FILE's operators on this machine at each size, and store tuning records.

    Programs compiled later choose implementations by these records. Existing measurements are not repeated: after Ctrl-C or
    the end of the budget, the same command continues.
    """
    target = device or DEVICES[0]
    check_target(target)
    with compile_progress():
        found = tunable(read_module(file, params), Config.of(**config), target)
    calls = calls_at(found, sizes or None)
    done: dict[OpCall, Tuned] = {}
    try:
        with trial_progress(len(calls)) as on_trial:
            for tuned in tune(calls, budget, lambda call: on_trial(f"{call.op.name} {_bucket(call)}")):
                done[tuned.call] = tuned
    finally:  # also after Ctrl-C: finished measurements are stored
        _show([*done.values()], calls, [t for t in found if not _is_among(t, calls)], as_json)


def _bucket(call: OpCall) -> str:
    shapes = static_shapes(call)
    assert shapes is not None
    return bucket_text(bucket_of(shapes))


def _is_among(t: Tunable, calls: Sequence[OpCall]) -> bool:
    """Whether the call is measured at any size."""
    about = (t.call.op, t.call.attrs, t.call.dtypes, t.call.device)
    return any(about == (c.op, c.attrs, c.dtypes, c.device) for c in calls)


def _show(done: Sequence[Tuned], calls: Sequence[OpCall], unsized: Sequence[Tunable], as_json: bool) -> None:
    new = sum(t.is_new for t in done)
    data: dict[str, Any] = {
        "trials": new,
        "known": len(done) - new,
        "left": len(calls) - len(done),
        "unsized": [t.call.op.name for t in unsized],
        "calls": [_data(t) for t in done],
    }
    answer(data, "\n".join(_lines(data)), as_json)


def _data(t: Tuned) -> dict[str, Any]:
    return {
        "operator": t.call.op.name,
        "dtypes": list(t.call.dtypes),
        "bucket": [list(shape) for shape in t.bucket],
        "median_ns": {name: q.median for name, q in t.finding.ns.items()},
        "untuned": t.finding.untuned,
        "chosen": t.finding.chosen,
        "new": t.is_new,
    }


def _lines(data: dict[str, Any]) -> list[str]:
    rows = [("Operator", "Types", "Bucket", "Implementation", "Median", "Chosen")]
    for call in data["calls"]:
        about = (call["operator"], " ".join(call["dtypes"]), bucket_text(tuple(map(tuple, call["bucket"]))))
        for name, ns in call["median_ns"].items():
            why = "" if name != call["chosen"] else "yes" if name == call["untuned"] else f"yes, instead of {call['untuned']}"
            rows.append((*about, name, time_text(ns), why))
            about = ("", "", "")
    if not (data["calls"] or data["left"] or data["unsized"]):
        return ["no call of the program can be computed by several implementations"]
    counts = [f"{data['trials']} measured, {data['known']} known before, {data['left']} left"]
    if data["unsized"]:
        counts.append(f"not measured, because sizes are known only in a run: {', '.join(dict.fromkeys(data['unsized']))}")
    return [*([align(rows, left=(0, 1, 2, 3, 5))] if data["calls"] else []), *counts]
