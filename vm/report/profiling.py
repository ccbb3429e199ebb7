"""Measurement of runs of a program: untraced runs are timed, and as many traced runs record the events."""

from __future__ import annotations

import functools
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...ops.native.cache.installed_version import installed_version
from ..diagnostics.argument_errors import a_count, a_sequence, wrong
from ..diagnostics.source import InputError
from ..state.state_layout import COUNTERS, GRAPH_COUNTERS
from .completion import finish
from .profile_memory import storage_contents
from .profile_report import Profile
from .profile_rows import Positions, Trace, reasons, rows, samples_of, sites, timeline
from .series import series_of

if TYPE_CHECKING:
    from ..machine.machine_core import MachineCore

#: Name of the counter with a high-water mark; all other counters are cumulative.
_PEAK = "peak_bytes"


class Collector(Protocol):
    """User-defined measurement of timed runs."""

    def start(self) -> None:
        """Start the measurement, before a timed run."""

    def stop(self) -> Mapping[str, float]:
        """Stop the measurement, after a timed run; figures by name."""


class Sampler:
    """Measurement of a function of a machine, run by run, so that several machines can be measured alternately."""

    def __init__(
        self,
        machine: MachineCore,
        args: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
        entry: str = "main",
        collectors: Sequence[Collector] = (),
    ) -> None:
        self.machine, self.args, self.named, self.entry = machine, tuple(args), dict(named or {}), entry
        self.collectors = tuple(collectors)
        self._call = machine[entry]
        self.warmup = 0
        self.run_ns: list[int] = []
        self.counters: list[dict[str, int]] = []
        self._graphs: dict[str, int] = {}
        self.metrics: list[dict[str, float]] = []
        self.traces: list[Trace] = []

    def move_to(self, machine: MachineCore) -> None:
        """Continue on another machine of the same executable; earlier measurements are kept."""
        self.machine, self._call = machine, machine[self.entry]

    def run(self) -> Any:
        """Run once without measurement and synchronise; the result of the run."""
        result = self._call(*self.args, **self.named)
        finish(self.machine)
        return result

    def warm_up(self, runs: int) -> None:
        """Run ``runs`` times without measurement."""
        for _ in range(runs):
            self.run()
        self.warmup += runs

    def time(self) -> None:
        """Run once untraced and measure the time until the device has finished."""
        before = self.machine.count()
        for collector in self.collectors:
            collector.start()
        start = time.perf_counter_ns()
        result = self.run()
        self.run_ns.append(time.perf_counter_ns() - start)
        if self.collectors:
            self.metrics.append(_metrics([c.stop() for c in reversed(self.collectors)]))
        del result  # the time of freeing the result is not measured
        grown = self._grown(before)
        self._graphs = {name: grown[name] for name in GRAPH_COUNTERS}

    def trace(self) -> None:
        """Run once and record the events and the counters."""
        before = self.machine.count()
        try:
            self.machine.start_trace(types=True)
            start = time.monotonic_ns()
            self.run()
        finally:
            end = time.monotonic_ns()
            events = self.machine.stop_trace()
        peak = int(self.machine.count()[COUNTERS.index(_PEAK)])
        # launches of a trace are not combined to graphs: the run before, untraced, has these counters
        self.counters.append(self._grown(before) | {_PEAK: peak} | self._graphs)
        self.traces.append(Trace(start, end, events))

    def _grown(self, before: np.ndarray) -> dict[str, int]:
        """The increments of the counters."""
        return dict(zip(COUNTERS, (self.machine.count() - before).tolist(), strict=True))

    def profile(self) -> Profile:
        """The profile of the measurements so far.  Raises InputError if there are none."""
        if not self.run_ns or not self.counters:
            raise InputError("a profile needs at least one run")
        exe, positions = self.machine.exe, Positions(self.machine.exe)
        events = [e for t in self.traces for e in t.events]
        activities, host = rows(events, exe)
        moments, length, dropped = timeline(self.traces)
        return Profile(
            device=self.machine.device,
            entry=self.entry,
            config=dict(exe.config),
            run_ns=tuple(self.run_ns),
            counters=tuple(self.counters),
            activities=activities,
            host=host,
            copies=reasons(events, exe),
            series=series_of([samples_of(t.events, exe, positions) for t in self.traces]),
            sites=sites(self.traces, exe, positions, storage_contents(events, exe, positions)),
            timeline=moments,
            timeline_ns=length,
            timeline_dropped=dropped,
            prepared=self.machine.prepared,
            metrics=tuple(self.metrics),
            arguments=_arguments(self.machine, self.entry, self.args, self.named),
            warmup=self.warmup,
            environment=dict(environment()),
            sources=exe.sources,
            float_products=exe.float_products,
        )


def profile(
    machine: MachineCore,
    args: Sequence[Any] = (),
    named: Mapping[str, Any] | None = None,
    repeat: int = 10,
    warmup: int = 2,
    entry: str = "main",
    collectors: Sequence[Collector] = (),
    on_round: Callable[[int, int], object] | None = None,
) -> Profile:
    """The profile of ``repeat`` runs after ``warmup`` unmeasured runs.

    ``on_round`` is called after each round with the number of finished rounds and ``repeat``.  Raises InputError for ``repeat``
    below 1 and for a negative ``warmup``.
    """
    check_repeat(repeat, warmup)
    check_collectors(collectors)
    sampler = Sampler(machine, args, named, entry, collectors)
    sampler.warm_up(warmup)
    for done in range(repeat):
        sampler.time()
        sampler.trace()
        if on_round is not None:
            on_round(done + 1, repeat)
    return sampler.profile()


def check_repeat(repeat: int, warmup: int) -> None:
    """Check the numbers of runs.  Raises InputError for ``repeat`` below 1 and for a negative ``warmup``."""
    a_count(repeat, "repeat", least=None), a_count(warmup, "warmup", least=None)
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; there must be at least one run")
    if warmup < 0:
        raise InputError(f"warmup is {warmup}; it cannot be negative")


def check_collectors(collectors: Any) -> None:
    """Check the collectors.  Raises ArgumentError for an object without the methods ``start`` and ``stop``."""
    for collector in a_sequence(collectors, "collectors", _COLLECTOR_HELP):
        if isinstance(collector, type) or not all(callable(getattr(collector, name, None)) for name in ("start", "stop")):
            raise wrong("a collector", "an object with the methods start and stop", collector, _COLLECTOR_HELP)


_COLLECTOR_HELP = "a list of objects; stop() returns a dict of numbers, which the profile holds as metrics"


# ---- metrics, environment and arguments ------------------------------------------------------------------------------------


def _metrics(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The merged figures of one run's collectors.  Raises InputError for a value that is no finite number."""
    out = {name: value for figures in reversed(found) for name, value in figures.items()}
    for name, value in out.items():
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InputError(f"a collector gave {name} = {value!r}", help="stop() returns a dict of finite numbers")
    return out


@functools.cache
def environment() -> tuple[tuple[str, str], ...]:
    """The environment of the measurements: versions of the software, and the machine."""
    versions = [(name, installed_version(name)) for name in ("relayvm", "numpy", "numba")]
    return (*versions, ("python", platform.python_version()), ("machine", f"{platform.system()} {platform.machine()}"))


def _arguments(machine: MachineCore, entry: str, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[str, ...]:
    params = machine[entry].function.params
    values = {**dict(zip((name for name, _ in params), args, strict=False)), **named}
    return tuple(f"{name}: {_type(values[name])}" for name, _ in params if name in values)


def _type(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_type, value))})"
    shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", type(value).__name__)
    return f"{dtype}[{', '.join(map(str, shape))}]" if shape else str(dtype)
