"""Aggregation of trace events to the figures of a profile: rows by name, reason and instruction, and a timeline."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ...declarations.frozen_dataclass import frozen
from ...ops.core.implementation import HOST
from ..bytecode import isa
from ..bytecode.executable import ExecutableData
from ..bytecode.sync_reason import SYNC_REASONS
from ..device_table import DEVICES
from ..inspection.transfers import ARGUMENT, CONSTANT, RESULT, TEXTS
from ..machine.runtime_errors import locate, operators, span_of
from ..runtime.tracing.trace_events import ALLOC, DTOH, HOST_CALL, KERNEL, SHAPE_FUNC, SYNC, Event, types_text
from .profile_data import COPY_NAMES, HOST_NAMES, CopyRow, Moment, Row, Site
from .series import Key, Sample

#: Largest number of events of a timeline.
MAX_MOMENTS = 20_000


@frozen
class Trace:
    """One traced run: its start and end time in ns, and its events sorted by end."""

    start_ns: int
    end_ns: int
    events: list[Event]


def rows(events: Iterable[Event], exe: ExecutableData) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """``(activities, host)``: rows sorted by time, longest first; the activities always include both copy rows."""
    groups: dict[tuple[str, str], list[Event]] = {(kind, name): [] for kind, name in COPY_NAMES.items()}
    for event in events:
        groups.setdefault((event.kind, _name(event, exe)), []).append(event)
    made = sorted((Row.of(*key, found) for key, found in groups.items()), key=lambda r: (-r.total_ns, r.name))
    active = {key for key, found in groups.items() if key[0] in COPY_NAMES or any(_is_activity(e, exe) for e in found)}
    return tuple(r for r in made if (r.kind, r.name) in active), tuple(r for r in made if (r.kind, r.name) not in active)


#: Reasons for host synchronisation, by their numbers in the trace.
_WAITS = tuple(SYNC_REASONS.values())


def _is_activity(event: Event, exe: ExecutableData) -> bool:
    """Whether the event is an activity of the program's device or a copy; all other events are work of the host."""
    return event.kind in COPY_NAMES or (event.kind == KERNEL and _device(event, exe) == exe.target)


def _device(event: Event, exe: ExecutableData) -> str:
    """The name of the device of the execution, allocation, copy or wait."""
    if event.kind == KERNEL:
        return DEVICES[exe.packed[event.subject].device]
    if event.kind == ALLOC:
        return DEVICES[event.subject]
    return exe.target if event.kind == SYNC or event.kind in COPY_NAMES else HOST


def _name(event: Event, exe: ExecutableData) -> str:
    if event.kind == KERNEL:
        return ("" if _is_activity(event, exe) else "host:") + exe.packed[event.subject].name
    if event.kind == HOST_CALL:
        return f"python:{exe.packed[event.subject].name}"
    if event.kind == SHAPE_FUNC:
        return f"shape_func:{exe.shape_func_names[event.subject]}"
    return COPY_NAMES.get(event.kind) or HOST_NAMES[event.kind]


def reasons(events: Iterable[Event], exe: ExecutableData) -> tuple[CopyRow, ...]:
    """The copies by reason, most bytes first."""
    found: dict[tuple[str, str], list[int]] = {}
    for e in events:
        if e.kind in COPY_NAMES:
            found.setdefault((e.kind, _reason(e, exe)), []).append(e.nbytes)
    made = [CopyRow(kind, reason, len(sizes), sum(sizes)) for (kind, reason), sizes in found.items()]
    return tuple(sorted(made, key=lambda c: (-c.nbytes, c.kind, c.reason)))


def _reason(event: Event, exe: ExecutableData) -> str:
    if event.subject >= 0:
        return exe.reasons[event.subject].text
    if event.pc >= 0:
        return TEXTS[CONSTANT]
    return TEXTS[RESULT] if event.kind == DTOH else TEXTS[ARGUMENT]


# ---- by instruction ------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Location of an event in the program: see ``Site``."""

    function: str
    pc: int
    instruction: str
    source: int
    line: int


class Positions:
    """Locations of instructions, by pc in the concatenated code."""

    def __init__(self, exe: ExecutableData) -> None:
        self._exe = exe
        self._starts = [0, *itertools.accumulate(len(f.code) for f in exe.functions)][: len(exe.functions)]
        self._sources = {id(s): i for i, s in enumerate(exe.sources)}
        self._known = {-1: Place("", -1, "", -1, 0)}

    def of(self, pc: int) -> Place:
        """The location of the instruction at ``pc``; -1 stands for no instruction."""
        if pc not in self._known:
            function, local = locate(self._exe, self._starts, pc)
            span = span_of(self._exe, function, local)
            source, line = (-1, 0) if span is None else (self._sources[id(span.source)], span.source.position(span.start)[0])
            self._known[pc] = Place(function.name, local, type(isa.decode(function.code, local)).__name__, source, line)
        return self._known[pc]

    def line(self, pc: int) -> str:
        """The source location ``file:line``; empty if there is none."""
        place = self.of(pc)
        return "" if place.source < 0 else f"{self._exe.sources[place.source].name}:{place.line}"


def samples_of(events: Iterable[Event], exe: ExecutableData, positions: Positions) -> list[Sample]:
    """The events of one run as samples with their keys."""
    out = []
    for e in events:
        name = f"{COPY_NAMES[e.kind]} {_reason(e, exe)}" if e.kind in COPY_NAMES else _name(e, exe)
        out.append(Sample(Key(e.kind, name, positions.line(e.pc)), e.end_ns - e.start_ns, e.nbytes))
    return out


def _site_key(event: Event) -> tuple[str, int, int]:
    return event.kind, event.pc, event.subject


def sites(traces: Sequence[Trace], exe: ExecutableData, positions: Positions, contents: Mapping[int, str]) -> tuple[Site, ...]:
    """The sites, in order of their first events; ``contents``: the tensors stored in the allocated storages, by pc."""
    groups: dict[tuple[str, int, int], list[Event]] = {}
    for event in (e for t in traces for e in t.events):
        groups.setdefault(_site_key(event), []).append(event)
    return tuple(_site(found, exe, positions, contents) for found in groups.values())


def _site(events: Sequence[Event], exe: ExecutableData, positions: Positions, contents: Mapping[int, str]) -> Site:
    first, longest = events[0], max(events, key=lambda e: e.end_ns - e.start_ns)
    row = Row.of(first.kind, _name(first, exe), events)
    op = ""
    if first.kind in (KERNEL, HOST_CALL):
        op = operators(exe, first.subject)
    elif first.kind in COPY_NAMES and first.subject >= 0:
        op = exe.reasons[first.subject].op
    return Site(
        row.kind,
        row.name,
        _device(first, exe),
        op,
        *positions.of(first.pc),
        reason=_reason(first, exe) if first.kind in COPY_NAMES else _WAITS[first.subject] if first.kind == SYNC else "",
        calls=row.calls,
        total_ns=row.total_ns,
        min_ns=row.min_ns,
        max_ns=row.max_ns,
        asked_ns=sum(e.asked_end_ns - e.asked_start_ns for e in events),
        nbytes=row.nbytes,
        types=types_text(longest.types),
        n_types=len({e.types for e in events}),
        holds=contents.get(first.pc, "") if first.kind == ALLOC else "",
        formats=exe.packed[first.subject].formats if first.kind in (KERNEL, HOST_CALL) else "",
    )


def timeline(traces: Sequence[Trace], most: int = MAX_MOMENTS) -> tuple[tuple[Moment, ...], int, int]:
    """The timeline of the run of median duration, its duration in ns, and the number of events omitted beyond ``most``.

    ``Moment.site`` is an index in ``sites`` of the same traces.
    """
    numbers: dict[tuple[str, int, int], int] = {}
    for event in (e for t in traces for e in t.events):
        numbers.setdefault(_site_key(event), len(numbers))
    trace = sorted(traces, key=lambda t: t.end_ns - t.start_ns)[len(traces) // 2]
    zero = trace.start_ns
    moments = tuple(
        Moment(
            numbers[_site_key(e)],
            e.start_ns - zero,
            e.end_ns - zero,
            e.asked_start_ns - zero,
            e.asked_end_ns - zero,
            e.nbytes,
            e.live_bytes,
            types_text(e.types),
        )
        for e in trace.events[:most]
    )
    return moments, trace.end_ns - trace.start_ns, max(0, len(trace.events) - most)
