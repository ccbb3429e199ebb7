"""Profiles as data: figures and a timeline of the runs of a program."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from ...declarations.frozen_dataclass import frozen
from ...ops.native.compiled.kernel_store import Use
from ..bytecode.executable import FloatProduct
from ..diagnostics.argument_errors import a_text
from ..diagnostics.source import SourceText
from ..runtime.tracing.trace_events import ALLOC, DTOH, HTOD, SYNC, Event
from .series import Series

#: Version of the JSON form; a reader refuses other versions.
SCHEMA = 3

#: Quantiles of the run time in the summary.
QUANTILES = (0.9, 0.99)

#: Names of the two copy rows, which every profile has.
COPY_NAMES = {DTOH: "[memcpy DtoH]", HTOD: "[memcpy HtoD]"}
HOST_NAMES = {SYNC: "[wait for the device]", ALLOC: "[allocate]"}


@frozen
class Row:
    """Sums over all events of one kind and name in all traced runs.  Without calls all figures are 0."""

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


@frozen
class CopyRow:
    """Copies with one reason: ``kind`` is ``dtoh`` or ``htod``; calls and bytes are sums over all traced runs."""

    kind: str
    reason: str
    calls: int
    nbytes: int


@frozen
class Site:
    """Sums over the events of one instruction and one subject, over all traced runs: the finest rows of a profile.

    ``name``: as in ``Row``.  ``device``: the device of the execution, copy, wait or allocation.  ``op``: the operators of a
    kernel, or the operator that needs a copy; may be empty.  ``function``, ``pc``, ``instruction``: the instruction; "", -1 and
    "" for arguments and results, which have none.  ``source``, ``line``: index in ``Profile.sources``, from 0, and line, from 1;
    -1 and 0 if there is none.  ``reason``: the reason of a copy or a wait, else empty.  ``asked_ns``: host time of the launches.
    ``types``: the arguments of the longest call.  ``n_types``: the number of different argument types.  ``holds``: the tensors
    stored in the allocated storage.  ``formats``: the dtypes of a kernel's inputs and results, ``uint8, int8 -> int32``.
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
    formats: str = ""


class Moment(NamedTuple):
    """One event of the timeline.

    ``site``: index in ``Profile.sites``.  Times are in ns from the start of the run.  ``live_bytes``: bytes in use after the
    event.
    """

    site: int
    start_ns: int
    end_ns: int
    asked_start_ns: int
    asked_end_ns: int
    nbytes: int
    live_bytes: int
    types: str


@frozen
class ProfileData:
    """Measurements of the runs of one program on one device, without texts: see ``Profile``.

    ``run_ns``: the time of each untraced run.  ``counters``: the increments of ``vm.counters`` in each traced run
    (``peak_bytes``: its value after the run; the counters of graphs: in the untraced run before it).  ``activities`` and
    ``host`` are sorted by time, longest first.  ``series``: the times of each kernel, copy, ... in each traced run, for
    comparisons.  ``sites``: sums by instruction.  ``timeline``: the events of one traced run; ``timeline_ns``: its duration;
    ``timeline_dropped``: the number of omitted events.  ``prepared``: the kernels loaded or compiled when the machine was
    made.  ``metrics``: the figures of the collectors for each timed run.
    ``arguments``: the names and types of the arguments.  ``float_products``: the products of quantised tensors that the program
    computes with floats, with the reasons.
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
    float_products: tuple[FloatProduct, ...] = ()

    @property
    def runs(self) -> int:
        """The number of timed runs, which equals the number of traced runs."""
        return len(self.run_ns)

    @property
    def median_ns(self) -> float:
        """The median time of a run, in ns."""
        return statistics.median(self.run_ns)

    def quantile_ns(self, part: float) -> int:
        """The quantile ``part`` of the run times, in ns; 0.9: the smallest time not exceeded by nine of ten runs."""
        return sorted(self.run_ns)[max(0, math.ceil(part * self.runs) - 1)]

    @property
    def runs_per_second(self) -> float:
        """The number of sequential runs per second, at the median time of a run: a single long run does not change it."""
        return 1e9 / max(1, self.median_ns)

    @property
    def summary(self) -> dict[str, float]:
        """Statistics of the run time, in ns except ``runs_per_second``."""
        quantiles = {f"p{round(100 * part)}_ns": self.quantile_ns(part) for part in QUANTILES}
        least, most = min(self.run_ns), max(self.run_ns)
        figures = {"median_ns": self.median_ns, **quantiles, "min_ns": least, "max_ns": most}
        return figures | {"runs_per_second": self.runs_per_second}

    def per_run(self, counter: str) -> float:
        """The median of a counter over the runs; 0 for an unknown counter."""
        a_text(counter, "per_run: the counter")
        return statistics.median(c.get(counter, 0) for c in self.counters)

    def total(self, kind: str) -> Row:
        """The sum of all rows of a kind."""
        a_text(kind, "total: the kind")
        rows = [r for r in (*self.activities, *self.host) if r.kind == kind and r.calls]
        if not rows:
            return Row(kind, kind)
        calls, total, nbytes = (sum(getattr(r, f) for r in rows) for f in ("calls", "total_ns", "nbytes"))
        return Row(kind, kind, calls, total, min(r.min_ns for r in rows), max(r.max_ns for r in rows), nbytes)

    # ---- JSON ----------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """The profile as JSON text; ``schema`` is the version of the form.  ``from_json`` is the inverse."""
        return json.dumps(self.as_data())

    def as_data(self) -> dict[str, Any]:
        """The profile as plain data, as in its JSON form; ``summary`` is derived data for readers."""
        plain = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return {"schema": SCHEMA, **plain, "series": [s.as_data() for s in self.series], "summary": self.summary}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(v) for v in value]  # named tuples too: lists keep a long timeline short; ``Moment`` names the columns
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return dict(value) if isinstance(value, Mapping) else value
