"""Measuring runs of a program: each run twice, once untraced for how long it takes, once traced for what happened in it."""

from __future__ import annotations

import functools
import importlib.metadata
import math
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..given import a_count, a_sequence, wrong
from ..layout import COUNTERS
from ..source import InputError
from .profile_data import Profile
from .profile_memory import held
from .profile_rows import Places, Trace, measured, reasons, rows, sites, timeline
from .series import series_of

if TYPE_CHECKING:
    from ..machine import VirtualMachine

#: The counter that is a high-water mark; the others count up.
_PEAK = "peak_bytes"


class Collector(Protocol):
    """Measures what its author likes about a run."""

    def start(self) -> None:
        """Called before a timed run."""

    def stop(self) -> Mapping[str, float]:
        """Called after it: figures by name."""


class Sampler:
    """Runs a function of a machine again and again, so that several machines can be measured in turn."""

    def __init__(
        self,
        machine: VirtualMachine,
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
        self.metrics: list[dict[str, float]] = []
        self.traces: list[Trace] = []

    def move_to(self, machine: VirtualMachine) -> None:
        """Go on with another machine of the same executable; what was measured stays."""
        self.machine, self._call = machine, machine[self.entry]

    def run(self) -> Any:
        """One run that is not measured; what it returns, once the device has finished."""
        result = self._call(*self.args, **self.named)
        finish(self.machine)
        return result

    def warm_up(self, runs: int) -> None:
        """Runs that are not measured."""
        for _ in range(runs):
            self.run()
        self.warmup += runs

    def time(self) -> None:
        """One run, untraced and timed to the end of the device's work."""
        for collector in self.collectors:
            collector.start()
        start = time.perf_counter_ns()
        result = self.run()
        self.run_ns.append(time.perf_counter_ns() - start)
        if self.collectors:
            self.metrics.append(_metrics([c.stop() for c in reversed(self.collectors)]))
        del result  # freeing it is no part of the run

    def trace(self) -> None:
        """One run, traced and counted."""
        before = self.machine.count()
        try:
            self.machine.start_trace(types=True)
            start = time.monotonic_ns()
            self.run()
        finally:
            end = time.monotonic_ns()
            events = self.machine.stop_trace()
        after = self.machine.count()
        grown = dict(zip(COUNTERS, (after - before).tolist(), strict=True))
        self.counters.append(grown | {_PEAK: int(after[COUNTERS.index(_PEAK)])})
        self.traces.append(Trace(start, end, events))

    def profile(self) -> Profile:
        """What was measured so far.  Raises InputError when that is nothing."""
        if not self.run_ns or not self.counters:
            raise InputError("a profile needs at least one run")
        exe, places = self.machine.exe, Places(self.machine.exe)
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
            series=series_of([measured(t.events, exe, places) for t in self.traces]),
            sites=sites(self.traces, exe, places, held(events, exe, places)),
            timeline=moments,
            timeline_ns=length,
            timeline_dropped=dropped,
            prepared=self.machine.prepared,
            metrics=tuple(self.metrics),
            arguments=_arguments(self.machine, self.entry, self.args, self.named),
            warmup=self.warmup,
            environment=dict(environment()),
            sources=exe.sources,
        )


def profile(
    machine: VirtualMachine,
    args: Sequence[Any] = (),
    named: Mapping[str, Any] | None = None,
    repeat: int = 10,
    warmup: int = 2,
    entry: str = "main",
    collectors: Sequence[Collector] = (),
    on_round: Callable[[int, int], object] | None = None,
) -> Profile:
    """The profile of ``repeat`` runs after ``warmup`` runs that do not count.  Raises InputError for ``repeat`` below 1.

    ``on_round`` is called with how many are done, and how many there will be.
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
    """Raises InputError for numbers of runs that make no sense."""
    a_count(repeat, "repeat", least=None), a_count(warmup, "warmup", least=None)
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; there must be at least one run")
    if warmup < 0:
        raise InputError(f"warmup is {warmup}; it cannot be negative")


def check_collectors(collectors: Any) -> None:
    """Raises ArgumentError for what has no ``start`` and ``stop``."""
    for collector in a_sequence(collectors, "collectors", _COLLECTOR_HELP):
        if isinstance(collector, type) or not all(callable(getattr(collector, name, None)) for name in ("start", "stop")):
            raise wrong("a collector", "an object with the methods start and stop", collector, _COLLECTOR_HELP)


_COLLECTOR_HELP = "a list of objects; stop() returns a dict of numbers, which the profile holds as metrics"


def finish(machine: VirtualMachine) -> None:
    """Let the device do all that is queued for it, without a copy.  Raises VMError when a kernel in the queue fails.

    A run returns when the host is done; its time must include what the device has yet to do.
    """
    machine._alone(functools.partial(machine._wait, None))  # counted for nobody: a measurement's own


# ---- what was measured, and where ------------------------------------------------------------------------------------------


def _metrics(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The figures of one run's collectors together.  Raises InputError for what is no finite number."""
    out = {name: value for figures in reversed(found) for name, value in figures.items()}
    for name, value in out.items():
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InputError(f"a collector gave {name} = {value!r}", help="stop() returns a dict of finite numbers")
    return out


@functools.cache
def environment() -> tuple[tuple[str, str], ...]:
    """What a figure depends on besides the program: versions and the machine."""
    versions = [(name, importlib.metadata.version(name)) for name in ("relayvm", "numpy", "numba")]
    return (*versions, ("python", platform.python_version()), ("machine", f"{platform.system()} {platform.machine()}"))


def _arguments(machine: VirtualMachine, entry: str, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[str, ...]:
    params = machine[entry].function.params
    values = {**dict(zip((name for name, _ in params), args, strict=False)), **named}
    return tuple(f"{name}: {_type(values[name])}" for name, _ in params if name in values)


def _type(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_type, value))})"
    shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", type(value).__name__)
    return f"{dtype}[{', '.join(map(str, shape))}]" if shape else str(dtype)
