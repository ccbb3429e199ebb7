"""Instruments of passes: ``relay.transform.PassTimingInstrument``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from ..ir.expr import IRModule
from .pass_context import PassInfo, PassInstrument


@dataclass
class _Timed:
    """One run of a pass and of the passes that it runs; times in ns."""

    name: str
    depth: int
    started: int
    total: int = 0
    inner: list[_Timed] = field(default_factory=list)


class PassTimingInstrument(PassInstrument):
    """The time of each pass within a context; ``render`` shows the times, also after the context's end.

    A context clears the times at its beginning.
    """

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._runs: list[_Timed] = []
        self._open: list[_Timed] = []

    def enter_pass_ctx(self) -> None:
        self._clear()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        run = _Timed(info.name, len(self._open), time.perf_counter_ns())
        self._runs.append(run)
        if self._open:
            self._open[-1].inner.append(run)
        self._open.append(run)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        ended = time.perf_counter_ns()
        # a pass that has failed has no end
        while self._open:
            run = self._open.pop()
            if run.name == info.name:
                run.total = ended - run.started
                return

    def render(self) -> str:
        """A line for each pass, in order: its time, [without the passes within], and its share of all and of its parent."""
        whole = sum(run.total for run in self._runs if run.depth == 0)
        parents = {id(inner): run.total for run in self._runs for inner in run.inner}
        lines = []
        for run in self._runs:
            alone = run.total - sum(inner.total for inner in run.inner)
            share, of_parent = (_percent(run.total, total) for total in (whole, parents.get(id(run), whole)))
            times = f"{run.total // 1000}us [{alone // 1000}us] ({share}; {of_parent})"
            lines.append(f"{'    ' * run.depth}{run.name}: {times}\n")
        return "".join(lines)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 0:.2f}%"
