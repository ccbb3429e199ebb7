"""Interleaved timing of several functions, for comparisons on a noisy machine."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable, Iterable, Iterator, Mapping

from ...declarations.frozen_dataclass import frozen

Contestants = Mapping[str, Callable[[], object]]


@frozen
class Timing:
    """Statistics of the samples, in ns per call; ``low_ns`` and ``high_ns`` are the lower and upper quartiles.

    ``rounds_ns``: the samples by round; a derived timing has none.
    """

    median_ns: float
    min_ns: float
    max_ns: float
    low_ns: float
    high_ns: float
    samples: int
    calls_per_sample: int
    rounds_ns: tuple[float, ...] = ()

    def per(self, count: int) -> Timing:
        """The timing per operation, for calls that do ``count`` operations."""
        return Timing(
            self.median_ns / count, self.min_ns / count, self.max_ns / count, self.low_ns / count, self.high_ns / count,
            self.samples, self.calls_per_sample, tuple(ns / count for ns in self.rounds_ns),
        )  # fmt: skip

    def ratio(self, other: Timing) -> float:
        """The time in times of ``other`` of the same measurement: the median over the rounds.

        Both samples of a round are neighbours in time, so that the speed of the machine at that time cancels out.
        """
        assert self.rounds_ns and len(self.rounds_ns) == len(other.rounds_ns)
        return statistics.median(a / b for a, b in zip(self.rounds_ns, other.rounds_ns, strict=True))


def calls_for(run: Callable[[], object], seconds: float, clock: Callable[[], float] = time.perf_counter) -> int:
    """A number of calls that take at least ``seconds``; finding it also warms up ``run``."""
    calls, timer = 1, timeit.Timer(run, timer=clock)
    while (took := timer.timeit(calls)) < seconds:
        calls = max(calls * 2, int(calls * 1.2 * seconds / took)) if took > seconds / 100 else calls * 10
    return calls


def in_turn(names: Iterable[str], rounds: int) -> Iterator[str]:
    """Each name once a round, in the order A B C, C B A, A B C, ...

    A temporary disturbance of the machine affects all names, and no name is always first.
    """
    order = list(names)
    for _ in range(rounds):
        yield from order
        order.reverse()


def measure(
    contestants: Contestants,
    rounds: int = 15,
    sample_seconds: float = 0.02,
    settle: Callable[[], object] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time each function ``rounds`` times, in turn; the timings by name.

    A sample is a batch of calls of at least ``sample_seconds``.  ``settle`` is called before each sample and ends the effects of
    the previous one; a call that is not timed follows it.  ``clock`` counts the seconds: ``time.process_time`` suits a
    machine that other work shares.
    """
    timers, calls = {name: timeit.Timer(run, timer=clock) for name, run in contestants.items()}, {}
    for name, run in contestants.items():
        if settle is not None:
            settle()
        calls[name] = calls_for(run, sample_seconds, clock)
    samples: dict[str, list[float]] = {name: [] for name in contestants}
    for name in in_turn(contestants, rounds):
        if settle is not None:
            settle()
            contestants[name]()
        samples[name].append(timers[name].timeit(calls[name]) / calls[name] * 1e9)
    return {name: _timing(s, calls[name]) for name, s in samples.items()}


def _timing(samples: list[float], calls: int) -> Timing:
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else samples * 3
    return Timing(median, min(samples), max(samples), low, high, len(samples), calls, tuple(samples))
