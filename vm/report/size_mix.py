"""Times of calls of a program at several sizes in mixed order: latency by case, throughput, kernels compiled while measured."""

from __future__ import annotations

import functools
import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ..diagnostics.source import InputError
from ..machine.machine_core import MachineCore
from .completion import finish

#: The quantiles of the times of a case.
QUANTILES = (0.5, 0.9, 0.99)
_SEED = 7


@frozen
class CaseTimes:
    """The times of the measured calls of a case, in ns, sorted."""

    name: str
    times_ns: tuple[int, ...]

    def quantile_ns(self, part: float) -> int:
        """The smallest time not exceeded by the part of the calls."""
        return self.times_ns[max(0, math.ceil(part * len(self.times_ns)) - 1)]

    def as_data(self) -> dict[str, Any]:
        """Plain data."""
        quantiles = {f"p{round(100 * part)}_ns": self.quantile_ns(part) for part in QUANTILES}
        return {
            "case": self.name,
            "calls": len(self.times_ns),
            **quantiles,
            "min_ns": self.times_ns[0],
            "max_ns": self.times_ns[-1],
        }


@frozen
class SizeMix:
    """Calls of all cases: ``seconds`` from the first to the last, and the ``compiled`` kernels in this time."""

    cases: tuple[CaseTimes, ...]
    seconds: float
    callers: int
    compiled: int

    @property
    def per_second(self) -> float:
        """The calls of all callers in a second."""
        return sum(len(c.times_ns) for c in self.cases) / self.seconds

    def as_data(self) -> dict[str, Any]:
        """Plain data."""
        figures = {
            "seconds": self.seconds,
            "calls_per_second": self.per_second,
            "callers": self.callers,
            "compiled": self.compiled,
        }
        return {"cases": [c.as_data() for c in self.cases], **figures}


def size_mix(
    machines: Sequence[MachineCore], cases: Mapping[str, Sequence[Any]], seconds: float, warmup: int, entry: str = "main"
) -> SizeMix:
    """The times of calls for ``seconds``: each machine calls in a thread of its own, one case after the other, in drawn order.

    ``cases``: the arguments of each case by its name.  Each machine calls every case ``warmup`` times before.  Every case is
    called at least once.  Raises InputError without a case, and as the calls.
    """
    if not cases or not machines:
        raise InputError("a measurement needs a case and a machine")
    callers = [_Caller(machine, cases, entry, number) for number, machine in enumerate(machines)]
    for caller in callers:
        for _ in range(warmup):
            caller.round()
        caller.times = {name: [] for name in cases}
    before = sum(machine.kernel_compiles for machine in machines)
    begin = time.perf_counter()
    _together([functools.partial(caller.run, begin + seconds) for caller in callers])
    took = time.perf_counter() - begin
    compiled = sum(machine.kernel_compiles for machine in machines) - before
    times = {name: sorted(ns for caller in callers for ns in caller.times[name]) for name in cases}
    return SizeMix(tuple(CaseTimes(name, tuple(found)) for name, found in times.items()), took, len(machines), compiled)


class _Caller:
    """The calls of one machine."""

    def __init__(self, machine: MachineCore, cases: Mapping[str, Sequence[Any]], entry: str, seed: int) -> None:
        self.machine, self.call, self.cases = machine, machine[entry], dict(cases)
        self.times: dict[str, list[int]] = {name: [] for name in cases}
        self._order, self._random = list(cases), random.Random(_SEED + seed)

    def round(self) -> None:
        """Call each case once."""
        self._random.shuffle(self._order)
        for name in self._order:
            begin = time.perf_counter_ns()
            result = self.call(*self.cases[name])
            finish(self.machine)
            self.times[name].append(time.perf_counter_ns() - begin)
            del result

    def run(self, end: float) -> None:
        """Rounds until the time is over, one at least."""
        self.round()
        while time.perf_counter() < end:
            self.round()


def _together(works: Sequence[Callable[[], None]]) -> None:
    """Do the works at once, the first in this thread.  Raises the first error."""
    errors: list[BaseException] = []

    def safely(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    others = [threading.Thread(target=safely, args=(work,)) for work in works[1:]]
    for thread in others:
        thread.start()
    safely(works[0])
    for thread in others:
        thread.join()
    if errors:
        raise errors[0]
