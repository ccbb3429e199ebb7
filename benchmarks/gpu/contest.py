"""Time contestants on a GPU: bursts of calls, each followed by one wait, in turn."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from relayvm.vm.report.interleaved import in_turn

from .figures import Spread


@dataclass(frozen=True)
class Contestant:
    """``run`` requests the work once and may return before it is done; ``finish`` returns when all work is done."""

    run: Callable[[], object]
    finish: Callable[[], object]


@dataclass(frozen=True)
class Samples:
    """Nanoseconds per call, one sample per round: until the host had requested the work, and until the work was done."""

    host_ns: tuple[float, ...]
    whole_ns: tuple[float, ...]

    @property
    def host(self) -> Spread:
        """The host's time per call, to request the work."""
        return Spread.of(self.host_ns)

    @property
    def whole(self) -> Spread:
        """The whole time per call."""
        return Spread.of(self.whole_ns)


def contest(
    contestants: Mapping[str, Contestant], rounds: int, *, calls: int | None = None, burst_ns: float = 2e7
) -> dict[str, Samples]:
    """The samples of each contestant by name: a burst a round, in turn.

    A burst is ``calls`` calls, or as many as take ``burst_ns``.
    Each contestant runs three times before, so that compilation, capture and first allocations are not measured.
    """
    bursts = {name: _calls(one, calls, burst_ns) for name, one in contestants.items()}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for name in in_turn(contestants, rounds):
        found[name].append(_burst(contestants[name], bursts[name]))
    return {name: Samples(*(tuple(column) for column in zip(*pairs, strict=True))) for name, pairs in found.items()}


def ratio(above: tuple[float, ...], below: tuple[float, ...]) -> Spread:
    """``above`` divided by ``below``, round by round."""
    return Spread.of([a / b for a, b in zip(above, below, strict=True)])


def _calls(one: Contestant, calls: int | None, burst_ns: float) -> int:
    for _ in range(3):
        _burst(one, 1)
    return calls or max(1, math.ceil(burst_ns / _burst(one, 1)[1]))


def _burst(one: Contestant, calls: int) -> tuple[float, float]:
    """Host and whole time per call.  Nothing is waiting on the GPU when it begins."""
    run = one.run
    start = time.perf_counter_ns()
    for _ in range(calls):
        run()
    asked = time.perf_counter_ns()
    one.finish()
    end = time.perf_counter_ns()
    return (asked - start) / calls, (end - start) / calls
