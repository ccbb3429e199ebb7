"""The rows of a comparison: what belongs beside what in profiles of one program in several configurations."""

from __future__ import annotations

import operator
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..events import KERNEL
from .profile_data import COPY_NAMES, Profile
from .series import Key, Series
from .significance import Verdict, judge

#: The kind of the rows that stand for a whole run.
RUN = "run"
#: Counters that have a row, by name, in this order; copies have rows of their own.
COUNTERS = (
    "syncs", "launches", "instructions", "allocs", "alloc_bytes", "peak_bytes", "shape_func_calls", "host_calls",
)  # fmt: skip


@dataclass(frozen=True)
class Difference:
    """One thing on every side, per run: a median.  None: a side does not have it.

    ``key``: which thing; of kind ``run`` for a figure of whole runs, which ``key.name`` says.  ``unit``: ``ns``, ``calls``
    or ``bytes``.  ``verdicts``: of each side against the first, which has none; only times have them, as counts are exact.
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
        """What is compared, without its place."""
        return self.key.name

    @property
    def a(self) -> float:
        """The first side's value; 0 where it has none."""
        return self.values[0] or 0

    @property
    def b(self) -> float:
        """The second side's value; 0 where it has none."""
        return self.values[1] or 0

    @property
    def change(self) -> float:
        """B - A."""
        return self.b - self.a

    @property
    def ratio(self) -> float | None:
        """B / A; None where A is 0."""
        return self.b / self.a if self.a else None

    def verdict(self, side: int) -> Verdict | None:
        """Of a side against the first."""
        return self.verdicts[side] if self.verdicts else None

    def mark(self, side: int) -> str:
        """``+``: new on this side; ``-``: vanished from it; ``*``: significantly other; ``~``: not; ``=``: equal counts."""
        first, here = self.values[0], self.values[side]
        if (first is None) != (here is None):
            return "+" if first is None else "-"
        if self.unit != "ns" or first is None or here is None:
            return "=" if first == here else "*"
        verdict = self.verdict(side)
        return "*" if verdict is not None and verdict.significant else "~"


Samples = tuple[float, ...]


@dataclass(frozen=True)
class _Draft:
    """A row before it is judged: a time's samples by side, empty where a side does not have it."""

    row: Difference
    samples: tuple[Samples, ...] = ()


def differences(cases: Sequence[Sequence[Profile]], per_sample: int, paired: bool) -> list[tuple[Difference, ...]]:
    """The rows of each case: its profiles, one for each side.  All cases are one table to the test of significance.

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
    """The time of everything of a kind, for each traced run."""
    found = [s.total_ns for s in profile.series if s.key.kind == kind]
    return [sum(run) for run in zip(*found, strict=True)] if found else [0] * profile.runs


def _least(runs: Sequence[int], per_sample: int) -> Samples:
    return tuple(float(min(runs[i : i + per_sample])) for i in range(0, len(runs), per_sample))


# ---- what belongs beside what ---------------------------------------------------------------------------------------------


def aligned(sides: Sequence[Sequence[Series]]) -> list[tuple[Key, tuple[Series | None, ...]]]:
    """Each thing with its series on every side, None where a side does not have it; in the order of the first side.

    The same thing has the same kind, name and line; a copy may have another reason.  Programs of two files have no lines
    in common: what is in none of the other's lines goes, in order, beside what has its kind and name there.
    """
    rows: list[list[Series | None]] = [[s] for s in sides[0]]
    for n, side in enumerate(sides[1:], 1):
        left = list(side)
        for match in (operator.eq, _elsewhere):
            for row in (r for r in rows if len(r) == n):
                found = next((s for s in left if match(_identity(_key(row)), _identity(s.key))), None)
                if found is not None:
                    left.remove(found)
                    row.append(found)
        for row in (r for r in rows if len(r) == n):
            row.append(None)
        rows += [[None] * n + [s] for s in left]
    return [(_key(row), tuple(row)) for row in rows]


def _key(row: Sequence[Series | None]) -> Key:
    return next(s.key for s in row if s is not None)


def _identity(key: Key) -> Key:
    """What it is without why: one input of one operator is copied for other reasons in other configurations."""
    return key._replace(name=key.name.partition(" is ")[0]) if key.kind in COPY_NAMES else key


def _elsewhere(a: Key, b: Key) -> bool:
    """The same thing, in another file?"""
    files = [k.line.rpartition(":")[0] for k in (a, b)]
    return (a.kind, a.name) == (b.kind, b.name) and "" not in files and files[0] != files[1]
