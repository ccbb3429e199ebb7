"""Two profiles side by side: what the second does more or less than the first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .profiling import COPY_NAMES, KERNEL, Profile
from .tables import align, profile_text, time_text

#: Of the JSON form.
SCHEMA = 1

#: Counters in the table, by name, in this order; copies have their own rows.
_COUNTERS = ("syncs", "launches", "instructions", "allocs", "alloc_bytes", "peak_bytes", "shape_func_calls")


@dataclass(frozen=True)
class Difference:
    """One figure of both sides, per run.  ``unit`` is ``calls``, ``bytes`` or ``ns``."""

    name: str
    unit: str
    a: float
    b: float

    @property
    def change(self) -> float:
        """B - A."""
        return self.b - self.a

    @property
    def ratio(self) -> float | None:
        """B / A; None where A is 0."""
        return self.b / self.a if self.a else None


@dataclass(frozen=True)
class Comparison:
    """One program under two configurations, whose results agree.  ``str`` is both profiles and the table of differences."""

    a: Profile
    b: Profile

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Every figure, per run: sums divided by the number of runs, counters and wall time as medians."""
        return tuple(_differences(self.a, self.b))

    def __getitem__(self, name: str) -> Difference:
        """The figure of that name.  Raises KeyError."""
        for difference in self.differences:
            if difference.name == name:
                return difference
        raise KeyError(f"no figure {name!r}; there are {', '.join(d.name for d in self.differences)}")

    def __str__(self) -> str:
        blocks = [profile_text(self.a, "A"), profile_text(self.b, "B")]
        return "\n\n".join([*blocks, "The results of A and B agree.\n" + _table(self)])

    def as_data(self) -> dict[str, Any]:
        """Plain data, as in its JSON form."""
        rows = [
            {"name": d.name, "unit": d.unit, "a": d.a, "b": d.b, "change": d.change, "ratio": d.ratio} for d in self.differences
        ]
        return {"schema": SCHEMA, "results_agree": True, "a": self.a.as_data(), "b": self.b.as_data(), "differences": rows}

    def to_json(self) -> str:
        """The comparison as JSON text, with the version of its form in ``schema``."""
        return json.dumps(self.as_data())


def _differences(a: Profile, b: Profile) -> Iterator[Difference]:
    def per_run(profile: Profile, kind: str, what: str) -> float:
        return getattr(profile.total(kind), what) / profile.runs

    yield Difference("kernels time", "ns", per_run(a, KERNEL, "total_ns"), per_run(b, KERNEL, "total_ns"))
    for kind, name in COPY_NAMES.items():
        for label, unit, what in (("calls", "calls", "calls"), ("bytes", "bytes", "nbytes"), ("time", "ns", "total_ns")):
            yield Difference(f"{name} {label}", unit, per_run(a, kind, what), per_run(b, kind, what))
    for name in _COUNTERS:
        yield Difference(name, "bytes" if name.endswith("_bytes") else "calls", a.per_run(name), b.per_run(name))
    yield Difference("wall time", "ns", a.median_ns, b.median_ns)


def _table(comparison: Comparison) -> str:
    lines = [("per run", "A", "B", "B - A", "B / A")]
    for d in comparison.differences:
        a, b, change = (_figure(v, d.unit) for v in (d.a, d.b, d.change))
        if d.name == "wall time":
            a, b = f"{a} {_range(comparison.a)}", f"{b} {_range(comparison.b)}"
        sign = "+" if d.change > 0 else ""
        lines.append((d.name, a, b, sign + change, "-" if d.ratio is None else f"{d.ratio:.3f}"))
    return align(lines, left=(0,)) + "\nwall time: median (min..max)"


def _range(profile: Profile) -> str:
    return f"({time_text(min(profile.run_ns))}..{time_text(max(profile.run_ns))})"


def _figure(value: float, unit: str) -> str:
    if unit == "ns":
        return time_text(value)
    return str(int(value)) if value == int(value) else f"{value:.1f}"
