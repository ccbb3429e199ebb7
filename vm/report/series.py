"""What one thing of a program took in each run: the samples that comparisons are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Key(NamedTuple):
    """Which thing, so that two compilations of a program can be laid beside each other.

    ``kind`` and ``name`` are those of a profile's row; ``line`` is ``file:line`` of the program, empty where there is none.
    """

    kind: str
    name: str
    line: str


@dataclass(frozen=True)
class Series:
    """The sums of a thing's events in each traced run, in the order of the runs; 0 where a run had none."""

    key: Key
    calls: tuple[int, ...]
    total_ns: tuple[int, ...]
    nbytes: tuple[int, ...]

    def as_data(self) -> dict[str, Any]:
        """Plain data, as in a profile's JSON form."""
        return {**self.key._asdict(), "calls": list(self.calls), "total_ns": list(self.total_ns), "nbytes": list(self.nbytes)}

    @staticmethod
    def from_data(data: dict[str, Any]) -> Series:
        """The series of ``as_data``.  Raises KeyError and TypeError for other data."""
        key = Key(data["kind"], data["name"], data["line"])
        return Series(key, tuple(data["calls"]), tuple(data["total_ns"]), tuple(data["nbytes"]))


class Measured(NamedTuple):
    """One event as it counts here."""

    key: Key
    ns: int
    nbytes: int


def series_of(runs: Sequence[Sequence[Measured]]) -> tuple[Series, ...]:
    """The events of each run, added up by what they belong to; in the order in which things first occur."""
    sums: dict[Key, list[list[int]]] = {}
    for i, run in enumerate(runs):
        for key, ns, nbytes in run:
            per_run = sums.setdefault(key, [[0] * len(runs) for _ in range(3)])
            for column, value in zip(per_run, (1, ns, nbytes), strict=True):
                column[i] += value
    return tuple(Series(key, *map(tuple, columns)) for key, columns in sums.items())
