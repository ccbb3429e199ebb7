"""The rows of a comparison: corresponding entries in profiles of one program in several configurations."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...declarations.frozen_dataclass import frozen
from ...vm.report.profile_data import COPY_NAMES
from ...vm.report.profile_report import Profile
from ...vm.report.series import Key, Series
from ...vm.runtime.tracing.trace_events import KERNEL
from .significance import Verdict, judge

#: The kind of rows for figures of a whole run.
RUN = "run"
#: Counters that have a row, by name, in this order; copies have rows of their own.
COUNTERS = (
    "syncs", "launches", "instructions", "allocs", "alloc_bytes", "peak_bytes", "shape_func_calls", "host_calls",
)  # fmt: skip


@frozen
class Difference:
    """One entry of the profiles (a kernel, copy, ... or figure) on every side: medians per run.  None: a side lacks the entry.

    ``key``: the entry; of kind ``run`` for a figure of whole runs, named ``key.name``.  ``unit``: ``ns``, ``calls``
    or ``bytes``.  ``verdicts``: of each side against the first, which has none; only times have verdicts, as counts are exact.
    ``calls`` and ``nbytes`` of a kernel, copy, ...: as ``values``.
    """

    key: Key
    unit: str
    values: tuple[float | None, ...]
    verdicts: tuple[Verdict | None, ...] = ()
    calls: tuple[float | None, ...] = ()
    nbytes: tuple[float | None, ...] = ()

    @property
    def name(self) -> str:
        """The name of the entry, without its source line."""
        return self.key.name

    @property
    def a(self) -> float:
        """The first side's value; 0 if it has none."""
        return self.values[0] or 0

    @property
    def b(self) -> float:
        """The second side's value; 0 if it has none."""
        return self.values[1] or 0

    @property
    def change(self) -> float:
        """B - A."""
        return self.b - self.a

    @property
    def ratio(self) -> float | None:
        """B / A; None if A is 0."""
        return self.b / self.a if self.a else None

    def verdict(self, side: int) -> Verdict | None:
        """The verdict of a side against the first."""
        return self.verdicts[side] if self.verdicts else None

    def mark(self, side: int) -> str:
        """``+``: only on this side; ``-``: only on the first; ``*``: significant difference; ``~``: none; ``=``: equal counts."""
        first, here = self.values[0], self.values[side]
        if (first is None) != (here is None):
            return "+" if first is None else "-"
        if self.unit != "ns" or first is None or here is None:
            return "=" if first == here else "*"
        verdict = self.verdict(side)
        return "*" if verdict is not None and verdict.significant else "~"


Samples = tuple[float, ...]


@frozen
class _Draft:
    """A row without verdicts: a time's samples by side, empty for a side that lacks the entry."""

    row: Difference
    samples: tuple[Samples, ...] = ()


def differences(cases: Sequence[Sequence[Profile]], per_sample: int, paired: bool) -> list[tuple[Difference, ...]]:
    """The rows of each case, from its profiles, one per side.  The test of significance treats all cases as one table.

    A time's sample is the least of ``per_sample`` runs in a row.  ``paired``: the sides were measured in turn.
    """
    drafts = [list(_drafts(profiles, per_sample)) for profiles in cases]
    open_ = [(d, side) for rows in drafts for d in rows for side in range(1, len(d.samples))]
    verdicts = judge([(d.samples[0], d.samples[side]) for d, side in open_], paired)
    found: dict[int, list[Verdict | None]] = {}
    for (draft, _), verdict in zip(open_, verdicts, strict=True):
        found.setdefault(id(draft), [None]).append(verdict)
    return [tuple(replace(d.row, verdicts=tuple(found.get(id(d), ()))) for d in rows) for rows in drafts]


def _drafts(profiles: Sequence[Profile], per_sample: int) -> Iterator[_Draft]:
    yield _timed("wall time", [p.run_ns for p in profiles], per_sample)
    yield _timed("kernels time", [_sum(p, KERNEL) for p in profiles], per_sample)
    for kind, name in COPY_NAMES.items():
        counter = f"{kind}_copies"
        yield _counted(f"{name} calls", "calls", profiles, counter)
        yield _counted(f"{name} bytes", "bytes", profiles, f"{kind}_bytes")
        yield _timed(f"{name} time", [_sum(p, kind) for p in profiles], per_sample)
    for name in COUNTERS:
        yield _counted(name, "bytes" if name.endswith("_bytes") else "calls", profiles, name)
    for key, series in aligned([p.series for p in profiles]):
        if any(s is not None and any(s.total_ns) for s in series):
            yield _thing(key, series, per_sample)


def _timed(name: str, runs: Sequence[Sequence[int]], per_sample: int) -> _Draft:
    samples = tuple(_least(r, per_sample) for r in runs)
    return _Draft(Difference(Key(RUN, name, ""), "ns", tuple(statistics.median(s) for s in samples)), samples)


def _counted(name: str, unit: str, profiles: Sequence[Profile], counter: str) -> _Draft:
    return _Draft(Difference(Key(RUN, name, ""), unit, tuple(p.per_run(counter) for p in profiles)))


def _thing(key: Key, series: Sequence[Series | None], per_sample: int) -> _Draft:
    samples = tuple(() if s is None else _least(s.total_ns, per_sample) for s in series)

    def medians(of: Callable[[Series], Sequence[int]]) -> tuple[float | None, ...]:
        return tuple(None if s is None else statistics.median(of(s)) for s in series)

    values = tuple(statistics.median(s) if s else None for s in samples)
    return _Draft(Difference(key, "ns", values, (), medians(lambda s: s.calls), medians(lambda s: s.nbytes)), samples)


def _sum(profile: Profile, kind: str) -> list[int]:
    """The total time of a kind of entries, for each traced run."""
    found = [s.total_ns for s in profile.series if s.key.kind == kind]
    return [sum(run) for run in zip(*found, strict=True)] if found else [0] * profile.runs


def _least(runs: Sequence[int], per_sample: int) -> Samples:
    return tuple(float(min(runs[i : i + per_sample])) for i in range(0, len(runs), per_sample))


# ---- alignment -----------------------------------------------------------------------------------------------------------


def aligned(sides: Sequence[Sequence[Series]]) -> list[tuple[Key, tuple[Series | None, ...]]]:
    """Each entry with its series on every side, None for a side that lacks the entry; in the order of the first side.

    Corresponding entries have equal kind, name and line; the reasons of copies may differ.  Programs of two files have no
    lines in common: there, entries of equal kind and name correspond, in order.
    """
    rows: list[list[Series | None]] = [[s] for s in sides[0]]
    for n, side in enumerate(sides[1:], 1):
        left = dict(enumerate(side))  # by place
        for part, match in ((_identity, _anywhere), (_thing_of, _elsewhere)):
            positions = dict[object, list[int]]()
            for place, series in left.items():
                positions.setdefault(part(series.key), []).append(place)
            for row in (r for r in rows if len(r) == n):
                key = _key(row)
                same = positions.get(part(key), [])
                found = next((place for place in same if match(key, left[place].key)), None)
                if found is not None:
                    same.remove(found)
                    row.append(left.pop(found))
        for row in (r for r in rows if len(r) == n):
            row.append(None)
        rows += [[None] * n + [s] for s in left.values()]
    return [(_key(row), tuple(row)) for row in rows]


def _key(row: Sequence[Series | None]) -> Key:
    return next(s.key for s in row if s is not None)


def _identity(key: Key) -> Key:
    """The key without the reason of a copy: configurations copy one input of one operator for different reasons."""
    return key._replace(name=key.name.partition(" is ")[0]) if key.kind in COPY_NAMES else key


def _thing_of(key: Key) -> tuple[str, str]:
    """The kind and the name of an entry, wherever it is."""
    same = _identity(key)
    return same.kind, same.name


def _anywhere(a: Key, b: Key) -> bool:
    return True


def _elsewhere(a: Key, b: Key) -> bool:
    """Whether the keys are of entries in two files."""
    files = [k.line.rpartition(":")[0] for k in (a, b)]
    return "" not in files and files[0] != files[1]
