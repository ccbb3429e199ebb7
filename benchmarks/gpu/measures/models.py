"""Two whole programs in several modes of data dependence and device placement: transfers and their time."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.compiler.comparison.run_comparison import compare_sides
from relayvm.compiler.inputs.given_inputs import Wanted
from relayvm.vm.report.profile_report import Profile
from relayvm.vm.runtime.tracing.trace_events import DTOH

from ..figures import Recorder, Spread
from ..machines import ROOT
from ..scale import Scale

SIDES = {
    "op": {"data_dependence": "op", "place": "off"},
    "input": {"data_dependence": "input", "place": "off"},
    "input_place": {"data_dependence": "input", "place": "on"},
}
_EXAMPLES = ROOT / "examples"


def measure(record: Recorder, scale: Scale) -> None:
    """The tails of two detectors: copies to the host, their bytes and time, waits by reason, whole time, and the profiles."""
    for name in INPUTS:
        with record.task(name):
            _compare(record, scale, name, INPUTS[name](scale))


def _detections(scale: Scale) -> dict[str, np.ndarray]:
    from detection_reference import candidates

    boxes, logits = candidates(scale.candidates)
    return {"boxes": boxes, "logits": logits}


def _anchors(scale: Scale) -> dict[str, np.ndarray]:
    from mask_rcnn_tail import inputs

    found: dict[str, np.ndarray] = inputs(*scale.anchors)
    return found


sys.path.insert(0, str(_EXAMPLES))
#: The inputs of each program, by its name.
INPUTS: dict[str, Callable[[Scale], dict[str, np.ndarray]]] = {"detection_tail": _detections, "mask_rcnn_tail": _anchors}


def _module(name: str) -> Any:
    text = (_EXAMPLES / f"{name}.relay").read_text(encoding="utf-8")
    return relay.parse(text, source_name=f"{name}.relay")


def whole_programs(scale: Scale) -> dict[str, Callable[[], None]]:
    """For each program what runs each of its sides once."""

    def run(name: str) -> None:
        for config in SIDES.values():
            for tensor in relay.VirtualMachine(relay.compile(_module(name), target="cuda", **config)).run(**INPUTS[name](scale)):
                tensor.numpy()

    return {name: functools.partial(run, name) for name in INPUTS}


def _compare(record: Recorder, scale: Scale, name: str, inputs: Mapping[str, np.ndarray]) -> None:
    module = _module(name)
    sides: dict[str, tuple[Any, Mapping[str, Any]]] = {side: (module, config) for side, config in SIDES.items()}
    # raises where the sides' results do not agree
    found = compare_sides(sides, Wanted(dict(inputs)), device="cuda", repeat=scale.repeat)
    for side, profile in zip(found.sides, found.cases[0].profiles, strict=True):
        _figures(record, name, side, profile)
        record.facts(**{f"{name}, {side}: waits by reason": _waits(module, SIDES[side], inputs)})
        record.text(f"{name}, {side}", profile.view())
    record.text(f"{name}: compared", str(found))


def _figures(record: Recorder, name: str, side: str, profile: Profile) -> None:
    record.figure(f"{name}: whole time", side, "µs", Spread.of(profile.run_ns).per(1000))
    for counter in ("dtoh_copies", "dtoh_bytes", "htod_copies", "htod_bytes", "syncs", "launches"):
        record.figure(f"{name}: {counter}", side, "a run", Spread.of([c[counter] for c in profile.counters]))
    record.figure(f"{name}: DtoH time", side, "µs a run", profile.total(DTOH).total_ns / 1000 / profile.runs)


def _waits(module: Any, config: Mapping[str, str], inputs: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The reasons of the host's waits, in the second run of a machine and in reading its results."""
    vm = relay.VirtualMachine(relay.compile(module, target="cuda", **config))
    vm.run(**inputs)
    vm.reset_counters()
    for tensor in vm.run(**inputs):
        tensor.numpy()
    return vm.sync_reasons
