"""Samples of one part of a program (a kernel, a copy, ...) over the runs, for comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...declarations.frozen_dataclass import frozen


class Key(NamedTuple):
    """Key of a series; it is the same in different compilations of a program.

    ``kind`` and ``name`` are those of a profile's row.  ``line`` is ``file:line`` of the program; empty if there is none.
    """

    kind: str
    name: str
    line: str


@frozen
class Series:
    """Sums over the events with one key in each traced run, in the order of the runs; 0 for a run without such events."""

    key: Key
    calls: tuple[int, ...]
    total_ns: tuple[int, ...]
    nbytes: tuple[int, ...]

    def as_data(self) -> dict[str, Any]:
        """The series as plain data, as in a profile's JSON form."""
        return {**self.key._asdict(), "calls": list(self.calls), "total_ns": list(self.total_ns), "nbytes": list(self.nbytes)}

    @staticmethod
    def from_data(data: dict[str, Any]) -> Series:
        """The inverse of ``as_data``.  Raises KeyError and TypeError for other data."""
        key = Key(data["kind"], data["name"], data["line"])
        return Series(key, tuple(data["calls"]), tuple(data["total_ns"]), tuple(data["nbytes"]))


class Sample(NamedTuple):
    """Sample of one event: its key, duration in ns and bytes."""

    key: Key
    ns: int
    nbytes: int


def series_of(runs: Sequence[Sequence[Sample]]) -> tuple[Series, ...]:
    """The sums of the samples of each run by key, in order of first occurrence."""
    sums: dict[Key, list[list[int]]] = {}
    for i, run in enumerate(runs):
        for key, ns, nbytes in run:
            per_run = sums.setdefault(key, [[0] * len(runs) for _ in range(3)])
            for column, value in zip(per_run, (1, ns, nbytes), strict=True):
                column[i] += value
    return tuple(Series(key, *map(tuple, columns)) for key, columns in sums.items())
