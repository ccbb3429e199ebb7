"""Figures as text: aligned tables, and a profile as nvprof prints it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .profile_data import CopyRow, Profile, Row

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))

HEADER = ("Type", "Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name")


def time_text(ns: float) -> str:
    """A time with five significant digits and nvprof's units: ``960ns``, ``9.6000us``, ``123.45ms``, ``2.0000s``."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    for size, unit in _UNITS:
        value = ns / size
        if value >= 0.999995:  # what would show as 1000.00 of a unit is 1.0000 of the next
            digits = 4 if value < 9.99995 else 3 if value < 99.9995 else 2
            return f"{sign}{value:.{digits}f}{unit}"
    return f"{sign}{ns:.0f}ns"


def bytes_text(n: float) -> str:
    """``12 bytes``, ``67108876 bytes (64.00 MiB)``."""
    exact = f"{n:g}" if n != int(n) else str(int(n))
    plain = f"{exact} byte{'' if n == 1 else 's'}"
    for size, unit in _BYTES:
        if n >= size:
            return f"{plain} ({n / size:.2f} {unit})"
    return plain


def bytes_short(n: float) -> str:
    """``12 B``, ``64.0 MiB``."""
    for size, unit in _BYTES:
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n:.0f} B"


def align(lines: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """The lines with their cells in columns: to the right, columns numbered in ``left`` to the left; no trailing blanks."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in lines
    )


def profile_text(profile: Profile, title: str = "") -> str:
    """A profile as nvprof prints it; below it, why there were copies.  Times, calls and bytes are those of all runs."""
    lines: list[Sequence[str]] = [HEADER]
    lines += _section(f"{profile.device} activities:", profile.activities)
    lines += _section("host:", profile.host)
    return "\n".join([heading(profile, title), align(lines, left=(len(HEADER) - 1,)), *_copies(profile.copies)])


def heading(profile: Profile, title: str = "") -> str:
    """Two lines: what ran, how often, and how long it took."""
    times = f"median {time_text(profile.median_ns)}, min {time_text(min(profile.run_ns))}, max {time_text(max(profile.run_ns))}"
    settings = ", ".join(f"{k}={v}" for k, v in profile.config.items())
    runs = f"{profile.runs} run{'' if profile.runs == 1 else 's'}"
    first = f"{title or 'Profile'}: @{profile.entry} on {profile.device}, {settings or 'no configuration'}"
    return f"{first}\n{runs}, {times}; the table adds up all of them"


def _section(title: str, rows: Sequence[Row]) -> list[Sequence[str]]:
    total = sum(r.total_ns for r in rows)
    out = []
    for i, row in enumerate(rows):
        share = f"{100 * row.total_ns / total:.2f}%" if total else "0.00%"
        average = row.total_ns / row.calls if row.calls else 0
        times = [time_text(t) for t in (row.total_ns, average, row.min_ns, row.max_ns)]
        name = f"{row.name}  {bytes_text(row.nbytes)}" if _counts_bytes(row) else row.name
        out.append((title if i == 0 else "", share, times[0], str(row.calls), *times[1:], name))
    return out


def _counts_bytes(row: Row) -> bool:
    """Do events of this kind move or take bytes?"""
    return row.kind in ("dtoh", "htod", "alloc")


def _copies(copies: Sequence[CopyRow]) -> list[str]:
    if not copies:
        return ["no copies between host and device"]
    shown = [(_DIRECTIONS[c.kind], str(c.calls), bytes_text(c.nbytes), c.reason) for c in copies]
    return ["copies by reason:", align([("", "Calls", "Bytes", "Reason"), *shown], left=(0, 3))]


_DIRECTIONS = {"dtoh": "  DtoH", "htod": "  HtoD"}
