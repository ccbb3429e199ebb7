"""A profile in the format of nvprof."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ops.core.implementation import HOST
from ..inspection.figures import align, bytes_text, rate_text, time_text
from ..state.state_layout import GRAPH_COUNTERS

if TYPE_CHECKING:
    from .profile_data import CopyRow, ProfileData, Row

HEADER = ("Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")


def profile_text(profile: ProfileData, title: str = "") -> str:
    """A profile in the format of nvprof, then the copies by reason.  Times, calls and bytes are sums over all runs."""
    lines: list[Sequence[str]] = [HEADER]
    # a program for the host never copies: leave out its copy rows without calls
    happened = [row for row in profile.activities if row.calls or profile.device != HOST]
    lines += _section(f"{profile.device} activities:", happened)
    lines += _section("host:", profile.host)
    return "\n".join([heading(profile, title), align(lines, left=(len(HEADER) - 1,)), *_copies(profile.copies)])


def heading(profile: ProfileData, title: str = "") -> str:
    """The heading of a profile: entry with device and configuration, times of a run, number of runs; graphs, if there are any."""
    settings = ", ".join(f"{k}={v}" for k, v in profile.config.items())
    first = f"{title or 'Profile'}: @{profile.entry} on {profile.device}, {settings or 'no configuration'}"
    figures = {name.removesuffix("_ns"): value for name, value in profile.summary.items() if name.endswith("_ns")}
    times = ", ".join(f"{name} {time_text(value)}" for name, value in figures.items())
    runs = f"{profile.runs} run{'' if profile.runs == 1 else 's'}, {rate_text(profile.runs_per_second)}"
    return "\n".join([first, times, f"{runs}; the table adds up all of them", *_graphs(profile)])


def _graphs(profile: ProfileData) -> list[str]:
    """A line about launches that were combined to graphs, if there are any."""
    found = {name: profile.per_run(name) for name in GRAPH_COUNTERS}
    if not any(found.values()):
        return []
    texts = [f"{found['replays']:g} replays of graphs with {found['updates']:g} changed nodes"]
    texts += [f"{found[name]:g} {name.replace('_', ' ')}" for name in ("captures", "evictions", "graph_failures") if found[name]]
    return [f"an untraced run has {', '.join(texts)}"]


def _section(title: str, rows: Sequence[Row]) -> list[Sequence[str]]:
    total = sum(r.total_ns for r in rows)
    out: list[Sequence[str]] = []
    for i, row in enumerate(rows):
        share = f"{100 * row.total_ns / total:.2f}%" if total else "0.00%"
        average = row.total_ns / row.calls if row.calls else 0
        times = [time_text(t) for t in (row.total_ns, average, row.min_ns, row.max_ns)]
        name = f"{row.name}  {bytes_text(row.nbytes)}" if _counts_bytes(row) else row.name
        out.append((title if i == 0 else "", share, times[0], str(row.calls), *times[1:], name))
    return out


def _counts_bytes(row: Row) -> bool:
    """Whether events of this kind copy or allocate bytes."""
    return row.kind in ("dtoh", "htod", "alloc")


def _copies(copies: Sequence[CopyRow]) -> list[str]:
    if not copies:
        return ["no copies between host and device"]
    shown = [(_DIRECTIONS[c.kind], str(c.calls), bytes_text(c.nbytes), c.reason) for c in copies]
    return ["copies by reason:", align([("", "Calls", "Bytes", "Reason"), *shown], left=(0, 3))]


_DIRECTIONS = {"dtoh": "  DtoH", "htod": "  HtoD"}
