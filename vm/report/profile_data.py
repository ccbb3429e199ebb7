"""A profile as data: what runs of a program did, in figures and as a timeline; to JSON and back."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...ops.native.store import Use
from ..events import ALLOC, DTOH, HTOD, SYNC, Event
from ..given import a_text
from ..source import InputError, SourceText
from .series import Series

#: Of the JSON form; a reader refuses any other.
SCHEMA = 2

#: Parts of the runs whose longest time is shown.
QUANTILES = (0.9, 0.99)

#: The names of the two copy rows, which are always there.
COPY_NAMES = {DTOH: "[memcpy DtoH]", HTOD: "[memcpy HtoD]"}
HOST_NAMES = {SYNC: "[wait for the device]", ALLOC: "[allocate]"}


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
class CopyRow:
    """Why copies were made: ``kind`` is ``dtoh`` or ``htod``; calls and bytes are over all traced runs."""

    kind: str
    reason: str
    calls: int
    nbytes: int


@dataclass(frozen=True)
class Site:
    """What one instruction did to one thing, over all traced runs: the finest row there is.

    ``name``: as in the rows.  ``device``: what did it, was copied to or from, was waited for, or gave memory.  ``op``: the
    operators of a kernel, or the operator that a copy is for; may be empty.  ``function``, ``pc``, ``instruction``: which
    one; "", -1 and "" for arguments and results, which none moves.
    ``source``, ``line``: where in ``Profile.sources`` it comes from, from 0 and from 1; -1 and 0 where it does not.
    ``reason``: of a copy, else empty.  ``asked_ns``: what the host spent on asking for it.  ``types``: the arguments of the
    longest call, and ``n_types`` how many different ones there were.  ``holds``: the tensors that lay in what it allocated.
    """

    kind: str
    name: str
    device: str
    op: str
    function: str
    pc: int
    instruction: str
    source: int
    line: int
    reason: str
    calls: int
    total_ns: int
    min_ns: int
    max_ns: int
    asked_ns: int
    nbytes: int
    types: str
    n_types: int
    holds: str = ""


class Moment(NamedTuple):
    """One event of the run that the timeline shows.

    ``site`` is its number in ``Profile.sites``; times are in ns from the start of the run; ``live_bytes``: in use after it.
    """

    site: int
    start_ns: int
    end_ns: int
    asked_start_ns: int
    asked_end_ns: int
    nbytes: int
    live_bytes: int
    types: str


@dataclass(frozen=True)
class Profile:
    """Runs of one program on one device.  ``str`` is a block as nvprof prints it.

    ``run_ns``: the time of each untraced run.  ``counters``: of each traced run, what ``vm.counters`` grew by
    (``peak_bytes``: what it was after the run).  ``activities`` and ``host`` are sorted by time, longest first.
    ``series``: what each kernel, copy, ... took in each traced run, for comparisons.
    ``sites``: the same by instruction.  ``timeline``: the events of one traced run, which took ``timeline_ns`` and of which
    ``timeline_dropped`` are left out.  ``prepared``: what making the machine took from the store of compiled kernels.
    ``metrics``: what the collectors gave for each timed run.  ``arguments``: name and type of each.
    """

    device: str
    entry: str
    config: Mapping[str, str]
    run_ns: tuple[int, ...]
    counters: tuple[Mapping[str, int], ...]
    activities: tuple[Row, ...]
    host: tuple[Row, ...]
    copies: tuple[CopyRow, ...]
    series: tuple[Series, ...] = ()
    sites: tuple[Site, ...] = ()
    timeline: tuple[Moment, ...] = ()
    timeline_ns: int = 0
    timeline_dropped: int = 0
    prepared: tuple[Use, ...] = ()
    metrics: tuple[Mapping[str, float], ...] = ()
    arguments: tuple[str, ...] = ()
    warmup: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[SourceText, ...] = ()

    @property
    def runs(self) -> int:
        """How many runs were traced, and as many timed."""
        return len(self.run_ns)

    @property
    def median_ns(self) -> float:
        """The median time of a run."""
        return statistics.median(self.run_ns)

    def quantile_ns(self, part: float) -> int:
        """The least time that ``part`` of the runs (0.9: nine of ten) did not exceed."""
        return sorted(self.run_ns)[max(0, math.ceil(part * self.runs) - 1)]

    @property
    def runs_per_second(self) -> float:
        """Runs in a second, one after the other, at the mean time of a run."""
        return 1e9 * self.runs / max(1, sum(self.run_ns))

    @property
    def summary(self) -> dict[str, float]:
        """The time of a run in figures: all in ns, but ``runs_per_second``."""
        quantiles = {f"p{round(100 * part)}_ns": self.quantile_ns(part) for part in QUANTILES}
        least, most = min(self.run_ns), max(self.run_ns)
        figures = {"median_ns": self.median_ns, **quantiles, "min_ns": least, "max_ns": most}
        return figures | {"runs_per_second": self.runs_per_second}

    def per_run(self, counter: str) -> float:
        """A counter's median over the runs; 0 for one that was not counted."""
        a_text(counter, "per_run: the counter")
        return statistics.median(c.get(counter, 0) for c in self.counters)

    def total(self, kind: str) -> Row:
        """All rows of a kind added up."""
        a_text(kind, "total: the kind")
        rows = [r for r in (*self.activities, *self.host) if r.kind == kind and r.calls]
        if not rows:
            return Row(kind, kind)
        calls, total, nbytes = (sum(getattr(r, f) for r in rows) for f in ("calls", "total_ns", "nbytes"))
        return Row(kind, kind, calls, total, min(r.min_ns for r in rows), max(r.max_ns for r in rows), nbytes)

    # ---- showing -------------------------------------------------------------------------------------------------------

    def view(self, name: str = "nvprof") -> str:
        """The profile as text: see ``profile_views.VIEWS`` for the names.  Raises InputError that lists them."""
        from .profile_views import view

        return view(self, name)

    def __str__(self) -> str:
        return self.view()

    def __repr__(self) -> str:
        from .tables import time_text

        return f"<Profile of @{self.entry} on {self.device}: {self.runs} runs, median {time_text(self.median_ns)}>"

    def _repr_html_(self) -> str:
        from .export_html import notebook_html

        return notebook_html(str(self))

    def to_csv(self) -> str:
        """A line for each site, with every figure."""
        from .export_text import csv_text

        return csv_text(self)

    def to_markdown(self) -> str:
        """The tables, to paste into an issue."""
        from .export_text import markdown

        return markdown(self)

    def to_chrome_trace(self) -> str:
        """The timeline for Perfetto and chrome://tracing, as JSON text."""
        from .export_trace import chrome_trace

        return json.dumps(chrome_trace([("", self)]))

    def to_html(self) -> str:
        """One page that needs no network."""
        from .export_html import html_page

        return html_page([("", self)])

    # ---- JSON ----------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The profile as JSON text, with the version of its form in ``schema``; ``from_json`` reads it back."""
        return json.dumps(self.as_data())

    def as_data(self) -> dict[str, Any]:
        """The profile as plain data, as in its JSON form; ``summary`` is there for readers, and follows from the rest."""
        plain = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"schema": SCHEMA, **plain, "series": [s.as_data() for s in self.series], "summary": self.summary}

    @staticmethod
    def from_json(text: str) -> Profile:
        """The profile that ``to_json`` wrote.  Raises InputError for any other text."""
        try:
            return Profile.from_data(json.loads(a_text(text, "from_json: the profile", "Path(file).read_text()")))
        except RecursionError as error:
            raise InputError("this is no profile: it is nested too deep") from error
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
            return Profile(**{f.name: _read(f.name, data[f.name]) for f in dataclasses.fields(Profile)})
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this profile is damaged: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]  # a named tuple too: a timeline is long, and its columns are in ``Moment``
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return dict(value) if isinstance(value, Mapping) else value


#: How the items of a field are read back; the other lists hold plain values.
_ITEMS: dict[str, Any] = {
    "activities": lambda d: Row(**d),
    "host": lambda d: Row(**d),
    "copies": lambda d: CopyRow(**d),
    "series": Series.from_data,
    "sites": lambda d: Site(**d),
    "timeline": lambda d: Moment(*d),
    "prepared": lambda d: Use(*d),
    "sources": lambda d: SourceText(**d),
}


def _read(name: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    item = _ITEMS.get(name)
    return tuple(value if item is None else map(item, value))
