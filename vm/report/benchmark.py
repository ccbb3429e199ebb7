"""Times of calls without a profile: ``VirtualMachine.benchmark``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ..diagnostics.argument_errors import a_count, wrong
from ..inspection.figures import time_text
from .completion import finish

if TYPE_CHECKING:
    from ..machine.machine_core import MachineCore


@frozen
class BenchmarkPlan:
    """The numbers of calls of a benchmark (see ``VirtualMachine.benchmark``); times in seconds."""

    repeat: int
    number: int
    least_s: float
    most_without_time: int
    pause_s: float
    repeats_to_pause: int

    @staticmethod
    def of(
        repeat: int, number: int, min_repeat_ms: float | None, limit_zero_time_iterations: int,
        cooldown_interval_ms: float, repeats_to_cooldown: int,
    ) -> BenchmarkPlan:  # fmt: skip
        """The checked arguments of ``benchmark``.  Raises ArgumentError."""
        return BenchmarkPlan(
            a_count(repeat, "benchmark: repeat", least=1),
            a_count(number, "benchmark: number", least=1),
            _milliseconds(0 if min_repeat_ms is None else min_repeat_ms, "min_repeat_ms"),
            a_count(limit_zero_time_iterations, "benchmark: limit_zero_time_iterations"),
            _milliseconds(cooldown_interval_ms, "cooldown_interval_ms"),
            a_count(repeats_to_cooldown, "benchmark: repeats_to_cooldown", least=1),
        )


def _milliseconds(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise wrong(f"benchmark: {name}", "a number of milliseconds", value)
    return value / 1e3


@frozen
class BenchmarkResult:
    """Seconds per call: ``results`` has the mean of each repetition; the other figures are of these means."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """The median."""
        return float(np.median(self.results))

    @property
    def std(self) -> float:
        """The standard deviation, of the repetitions as a whole population."""
        return float(np.std(self.results))

    @property
    def min(self) -> float:
        """The shortest."""
        return min(self.results)

    @property
    def max(self) -> float:
        """The longest."""
        return max(self.results)

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        figures = ", ".join(f"{name} {time_text(1e9 * getattr(self, name))}" for name in names)
        return f"{figures}; {len(self.results)} repetition{'s' * (len(self.results) != 1)}"


def benchmark(machine: MachineCore, call: Callable[[], object], timing: BenchmarkPlan) -> BenchmarkResult:
    """The times of ``call``, which runs the machine; each repetition ends when the device has finished."""
    call()
    finish(machine)
    number, results = timing.number, []
    for done in range(timing.repeat):
        if timing.pause_s and done and done % timing.repeats_to_pause == 0:
            time.sleep(timing.pause_s)
        took, without_time = _seconds(machine, call, number), 0
        while took < timing.least_s and without_time <= timing.most_without_time:
            without_time += took <= 0
            per_call = took / number
            number = max(number * 2, math.ceil(timing.least_s / per_call)) if per_call > 0 else number * 2
            took = _seconds(machine, call, number)
        results.append(took / number)
    return BenchmarkResult(tuple(results))


def _seconds(machine: MachineCore, call: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        call()
    finish(machine)
    return time.perf_counter() - start
