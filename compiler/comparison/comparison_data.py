"""The data of a comparison: profiles of one program in several configurations and their differences from the first."""

from __future__ import annotations

import dataclasses
import json
from functools import cached_property
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...vm.report.profile_report import Profile
from ...vm.report.series import Key
from .compare_rows import RUN, Difference, differences
from .significance import ALPHA, CONFIDENCE, geometric_mean

#: Of the JSON form.
SCHEMA = 2


@frozen
class Method:
    """The method of measurement.

    ``rounds``: in each round, every side runs in turn, on a machine of its own that is new in each round, because the
    addresses of a machine's memory change its speed.  ``per_round``: runs of a side in a round, after ``warmup`` unmeasured
    runs; the least of their times is the round's sample.  ``interleaved`` False: profiles that were taken one after the
    other; then ``rounds`` are the runs of each.  ``checked``: whether results were compared.  ``tolerance``: the limits of
    that comparison, in words.  ``link``: the simulated link to ``sim``, which the times of copies are modelled by; "": none.
    """

    rounds: int
    per_round: int = 1
    warmup: int = 0
    interleaved: bool = True
    checked: bool = True
    tolerance: str = ""
    link: str = ""


@frozen
class Case:
    """One binding of the unknown sizes, named after the sizes, and the profile of every side with this binding."""

    name: str
    profiles: tuple[Profile, ...]


@frozen
class GeometricMean:
    """A time in all cases: the geometric mean of its ratio to the first side, for each side (the first: 1)."""

    key: Key
    ratios: tuple[float | None, ...]


@frozen
class ComparisonData:
    """One program on two or more ``sides`` (their names), in one or more cases, without its texts: see ``Comparison``.

    All differences are against the first side.  ``files``: the file of each side, where the sides have files of their own.
    """

    sides: tuple[str, ...]
    cases: tuple[Case, ...]
    method: Method
    files: tuple[str, ...] = ()

    @property
    def a(self) -> Profile:
        """The first side, in the first case."""
        return self.cases[0].profiles[0]

    @property
    def b(self) -> Profile:
        """The second side, in the first case."""
        return self.cases[0].profiles[1]

    @cached_property
    def tables(self) -> tuple[tuple[Difference, ...], ...]:
        """The rows of each case."""
        return tuple(differences([c.profiles for c in self.cases], self.method.per_round, self.method.interleaved))

    @property
    def differences(self) -> tuple[Difference, ...]:
        """The rows of the first case: figures of whole runs, then every kernel, copy, wait and shape function."""
        return self.tables[0]

    @cached_property
    def means(self) -> tuple[GeometricMean, ...]:
        """Geometric means over all cases; of times only, and none for a single case."""
        if len(self.cases) < 2:
            return ()
        by_key = [{row.key: row for row in table if row.unit == "ns"} for table in self.tables]
        shared = [key for key in by_key[0] if all(key in table for table in by_key)]
        return tuple(
            GeometricMean(key, tuple(_mean([t[key] for t in by_key], side) for side in range(len(self.sides)))) for key in shared
        )

    def significant(self) -> tuple[Difference, ...]:
        """The rows of all cases in which any side differs from the first: in a count, or significantly in time."""
        return tuple(
            row for table in self.tables for row in table if any(row.mark(side) not in "~=" for side in range(1, len(self.sides)))
        )

    def __getitem__(self, name: str) -> Difference:
        """The figure of whole runs with this name, in the first case.  Raises KeyError."""
        figures = [d for d in self.differences if d.key.kind == RUN]
        for difference in figures:
            if difference.name == name:
                return difference
        raise KeyError(f"no figure {name!r}; there are {', '.join(d.name for d in figures)}")

    def __repr__(self) -> str:
        return f"<Comparison of {', '.join(self.sides)}: {len(self.cases)} case{'' if len(self.cases) == 1 else 's'}>"

    def as_data(self) -> dict[str, Any]:
        """Plain data, as in the JSON form."""
        cases = [
            {"name": c.name, "profiles": [p.as_data() for p in c.profiles], "differences": [_row(r) for r in rows]}
            for c, rows in zip(self.cases, self.tables, strict=True)
        ]
        return {
            "schema": SCHEMA,
            "results_agree": True if self.method.checked else None,
            "sides": list(self.sides),
            "files": list(self.files),
            "method": dataclasses.asdict(self.method) | {"alpha": ALPHA, "confidence_percent": CONFIDENCE},
            "cases": cases,
            "geometric_means": [{**m.key._asdict(), "ratios": list(m.ratios)} for m in self.means],
        }

    def to_json(self) -> str:
        """The comparison as JSON text; ``schema`` is the version of the format."""
        return json.dumps(self.as_data())


def _mean(rows: list[Difference], side: int) -> float | None:
    ratios = [(r.values[side], r.values[0]) for r in rows]
    if any(not here or not first for here, first in ratios):
        return None
    return geometric_mean([here / first for here, first in ratios if here and first])


def _row(d: Difference) -> dict[str, Any]:
    verdicts = [None if v is None else dataclasses.asdict(v) | {"significant": v.significant} for v in d.verdicts]
    marks = ["", *(d.mark(side) for side in range(1, len(d.values)))]
    shared = {**d.key._asdict(), "unit": d.unit, "values": list(d.values), "marks": marks, "verdicts": verdicts}
    return shared | {"calls": list(d.calls), "bytes": list(d.nbytes)}
