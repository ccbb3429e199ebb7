"""What runs of a program did: kernels, copies with their reasons, waits, shape functions, allocations, counters, time.

A run is measured twice: once traced, for what happened in it, and once untraced, for how long it takes.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import requests
from .failure import failure
from .source import InputError
from .tables import profile_text

if TYPE_CHECKING:
    from .executable import Executable
    from .machine import Event, VirtualMachine

#: Of the JSON form; a reader refuses any other.
SCHEMA = 1

KERNEL, SHAPE_FUNC, DTOH, HTOD, SYNC, ALLOC = "kernel", "shape_func", "dtoh", "htod", "sync", "alloc"
#: The names of the two copy rows, which are always there.
COPY_NAMES = {DTOH: "[memcpy DtoH]", HTOD: "[memcpy HtoD]"}
_HOST_NAMES = {SYNC: "[wait for the device]", ALLOC: "[allocate]"}
#: What happens on the device, or to it; the rest is work of the host.
_ACTIVITIES = (KERNEL, DTOH, HTOD)

#: The counter that is a high-water mark; the others count up.
_PEAK = "peak_bytes"


@dataclass(frozen=True)
class Row:
    """All events of one kind and name, over all traced runs.  With no calls every figure is 0."""

    kind: str
    name: str
    calls: int = 0
    total_ns: int = 0
    min_ns: int = 0
    max_ns: int = 0
    nbytes: int = 0

    @staticmethod
    def of(kind: str, name: str, events: Sequence[Event]) -> Row:
        """The row of these events."""
        times = [e.end_ns - e.start_ns for e in events] or [0]
        return Row(kind, name, len(events), sum(times), min(times), max(times), sum(e.nbytes for e in events))


@dataclass(frozen=True)
class CopyReason:
    """Why copies were made: ``kind`` is ``dtoh`` or ``htod``; calls and bytes are over all traced runs."""

    kind: str
    reason: str
    calls: int
    nbytes: int


@dataclass(frozen=True)
class Profile:
    """Runs of one program on one device.  ``str`` is a block as nvprof prints it.

    ``run_ns``: the time of each untraced run.  ``counters``: of each traced run, what ``vm.counters`` grew by
    (``peak_bytes``: what it was after the run).  ``activities`` and ``host`` are sorted by time, longest first.
    """

    device: str
    entry: str
    config: Mapping[str, str]
    run_ns: tuple[int, ...]
    counters: tuple[Mapping[str, int], ...]
    activities: tuple[Row, ...]
    host: tuple[Row, ...]
    copies: tuple[CopyReason, ...]

    @property
    def runs(self) -> int:
        """How many runs were traced, and as many timed."""
        return len(self.run_ns)

    @property
    def median_ns(self) -> float:
        """The median time of a run."""
        return statistics.median(self.run_ns)

    def per_run(self, counter: str) -> float:
        """A counter's median over the runs; 0 for one that was not counted."""
        return statistics.median(c.get(counter, 0) for c in self.counters)

    def total(self, kind: str) -> Row:
        """All rows of a kind added up."""
        rows = [r for r in (*self.activities, *self.host) if r.kind == kind and r.calls]
        if not rows:
            return Row(kind, kind)
        calls, total, nbytes = (sum(getattr(r, f) for r in rows) for f in ("calls", "total_ns", "nbytes"))
        return Row(kind, kind, calls, total, min(r.min_ns for r in rows), max(r.max_ns for r in rows), nbytes)

    def __str__(self) -> str:
        return profile_text(self)

    def to_json(self) -> str:
        """The profile as JSON text, with the version of its form in ``schema``; ``from_json`` reads it back."""
        return json.dumps(self.as_data())

    def as_data(self) -> dict[str, Any]:
        """The profile as plain data, as in its JSON form."""
        return {"schema": SCHEMA, **dataclasses.asdict(self)}

    @staticmethod
    def from_json(text: str) -> Profile:
        """The profile that ``to_json`` wrote.  Raises InputError for any other text."""
        try:
            return Profile.from_data(json.loads(text))
        except json.JSONDecodeError as error:
            raise InputError(f"this is no profile: {error}") from error

    @staticmethod
    def from_data(data: Any) -> Profile:
        """The profile of ``as_data``.  Raises InputError for other data."""
        if not isinstance(data, dict) or "schema" not in data:
            raise InputError("this is no profile: it has no schema")
        if data["schema"] != SCHEMA:
            raise InputError(f"this profile has the schema {data['schema']!r}; this version reads {SCHEMA}")
        try:
            return Profile(
                data["device"],
                data["entry"],
                data["config"],
                tuple(data["run_ns"]),
                tuple(data["counters"]),
                tuple(Row(**r) for r in data["activities"]),
                tuple(Row(**r) for r in data["host"]),
                tuple(CopyReason(**c) for c in data["copies"]),
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"this profile is damaged: {error}") from error


# ---- measuring -------------------------------------------------------------------------------------------------------


class Sampler:
    """Runs a function of a machine again and again, so that several machines can be measured in turn."""

    def __init__(
        self, machine: VirtualMachine, args: Sequence[Any] = (), named: Mapping[str, Any] | None = None, entry: str = "main"
    ) -> None:
        self.machine, self.args, self.named, self.entry = machine, tuple(args), dict(named or {}), entry
        self._call = machine[entry]
        self.run_ns: list[int] = []
        self.counters: list[dict[str, int]] = []
        self.events: list[Event] = []

    def run(self) -> Any:
        """One run that is not measured; what it returns, once the device has finished."""
        result = self._call(*self.args, **self.named)
        finish(self.machine)
        return result

    def time(self) -> None:
        """One run, untraced and timed to the end of the device's work."""
        start = time.perf_counter_ns()
        result = self.run()
        self.run_ns.append(time.perf_counter_ns() - start)
        del result  # freeing it is no part of the run

    def trace(self) -> None:
        """One run, traced and counted."""
        before = dict(self.machine.counters)
        self.machine.start_trace()
        try:
            self.run()
        finally:
            events = self.machine.stop_trace()
        after = dict(self.machine.counters)
        self.counters.append({k: n if k == _PEAK else n - before[k] for k, n in after.items()})
        self.events += events

    def profile(self) -> Profile:
        """What was measured so far.  Raises InputError when that is nothing."""
        if not self.run_ns or not self.counters:
            raise InputError("a profile needs at least one run")
        exe = self.machine.exe
        activities, host = rows(self.events, exe)
        device = self.machine.device
        config = dict(exe.config)
        copies = reasons(self.events, exe)
        return Profile(device, self.entry, config, tuple(self.run_ns), tuple(self.counters), activities, host, copies)


def profile(
    machine: VirtualMachine,
    args: Sequence[Any] = (),
    named: Mapping[str, Any] | None = None,
    repeat: int = 10,
    warmup: int = 2,
    entry: str = "main",
) -> Profile:
    """The profile of ``repeat`` runs after ``warmup`` runs that do not count.  Raises InputError for ``repeat`` below 1."""
    check_repeat(repeat, warmup)
    sampler = Sampler(machine, args, named, entry)
    for _ in range(warmup):
        sampler.run()
    for _ in range(repeat):
        sampler.time()
        sampler.trace()
    return sampler.profile()


def check_repeat(repeat: int, warmup: int) -> None:
    """Raises InputError for numbers of runs that make no sense."""
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; there must be at least one run")
    if warmup < 0:
        raise InputError(f"warmup is {warmup}; it cannot be negative")


def finish(machine: VirtualMachine) -> None:
    """Let the device do all that is queued for it, without a copy.  Raises VMError when a kernel in the queue fails.

    A run returns when the host is done; its time must include what the device has yet to do.
    """
    state = machine._view
    status = machine._locked(machine._state, requests.DRAIN, 0, 0)
    if status:
        state["status"], state["pc"] = status, -1
        raise failure(machine)


# ---- from events to rows -----------------------------------------------------------------------------------------------


def rows(events: Iterable[Event], exe: Executable) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """``(activities, host)``, each sorted by time, longest first; both copy rows are always among the activities."""
    groups: dict[tuple[str, str], list[Event]] = {(kind, name): [] for kind, name in COPY_NAMES.items()}
    for event in events:
        groups.setdefault((event.kind, _name(event, exe)), []).append(event)
    made = sorted((Row.of(*key, found) for key, found in groups.items()), key=lambda r: (-r.total_ns, r.name))
    return tuple(r for r in made if r.kind in _ACTIVITIES), tuple(r for r in made if r.kind not in _ACTIVITIES)


def _name(event: Event, exe: Executable) -> str:
    if event.kind == KERNEL:
        return exe.packed[event.subject].name
    if event.kind == SHAPE_FUNC:
        return f"shape_func:{exe.shape_func_names[event.subject]}"
    return COPY_NAMES.get(event.kind) or _HOST_NAMES[event.kind]


def reasons(events: Iterable[Event], exe: Executable) -> tuple[CopyReason, ...]:
    """Why there were copies: most bytes first."""
    found: dict[tuple[str, str], list[int]] = {}
    for e in events:
        if e.kind in COPY_NAMES:
            found.setdefault((e.kind, _reason(e, exe)), []).append(e.nbytes)
    made = [CopyReason(kind, reason, len(sizes), sum(sizes)) for (kind, reason), sizes in found.items()]
    return tuple(sorted(made, key=lambda c: (-c.nbytes, c.kind, c.reason)))


def _reason(event: Event, exe: Executable) -> str:
    if event.subject >= 0:
        return exe.reasons[event.subject]
    if event.pc >= 0:
        return "a constant"
    return "a result, read on the host" if event.kind == DTOH else "an argument"
