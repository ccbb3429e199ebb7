"""A comparison as text tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...vm.device_table import DEVICES
from ...vm.inspection.figures import align, bytes_short, bytes_text, rate_text, time_text
from ...vm.report.profile_data import COPY_NAMES
from ...vm.report.profile_report import Profile
from ...vm.report.series import Key
from ...vm.report.tables import profile_text
from ...vm.runtime.tracing.trace_events import KERNEL
from .compare_rows import RUN, Difference
from .comparison_data import ComparisonData
from .moved_kernels import is_joined, joined
from .significance import ALPHA, CONFIDENCE, Verdict

#: The least part of a run's time at which a row without a significant difference is shown.
SHOWN_PART = 0.01
#: Columns that a narrow screen omits first, for two sides: the change, p, the interval.
_DROPPABLE = (2, 5, 4)
#: The note on rows of several kernels.
JOINED = (
    "A row with several calls on one side and fewer on another is work that only moved between kernels; its sum is not tested."
)


@frozen
class TextTable:
    """A table before layout: cells as text, and a tone for each row: ``better``, ``worse`` or ``other`` than
    the first side, or none (empty).  The last column is the name.  ``droppable``: columns that a narrow screen may omit,
    in this order.  ``by_cell``: the tone of each cell, so that a side without a difference has none; empty: the row's tone."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    tones: tuple[str, ...]
    droppable: tuple[int, ...] = ()
    by_cell: tuple[tuple[str, ...], ...] = ()

    def plain(self) -> str:
        """The table as text without colours."""
        table = align([self.header, *self.rows], left=(len(self.header) - 1,))
        return f"{self.title}\n{table}" if self.title else table


def comparison_text(comparison: ComparisonData, profiles: bool | None = None, everything: bool = False) -> str:
    """The whole comparison.  ``profiles``: also each side in nvprof's form; None: if there are two sides and one case.

    ``everything``: also small rows without a difference."""
    parts = [profile_blocks(comparison)] if shows_profiles(comparison, profiles) else []
    parts += [heading(comparison), *(t.plain() for t in tables(comparison, everything)), legend(comparison)]
    return "\n\n".join(parts)


def shows_profiles(comparison: ComparisonData, wanted: bool | None) -> bool:
    """Whether the text has nvprof blocks."""
    return len(comparison.sides) == 2 and len(comparison.cases) == 1 if wanted is None else wanted


def profile_blocks(comparison: ComparisonData) -> str:
    """Each side of each case in nvprof's form."""
    blocks = []
    for case in comparison.cases:
        for name, profile in zip(comparison.sides, case.profiles, strict=True):
            blocks.append(profile_text(profile, f"{side_name(name)}, {case.name}" if case.name else side_name(name)))
    return "\n\n".join(blocks)


def side_name(name: str) -> str:
    """``A`` for ``a``; longer names are unchanged."""
    return name.upper() if len(name) == 1 else name


def heading(comparison: ComparisonData, shared_settings: bool = True) -> str:
    """Configurations and method of the comparison.  ``shared_settings``: also those that all sides have."""
    how, first = comparison.method, comparison.cases[0].profiles
    entry = first[0].entry
    if how.interleaved:
        rounds = "one round" if how.rounds == 1 else f"{how.rounds} rounds"
        each = f"{rounds}; in each every side in turn, on a new machine, {how.warmup} + {how.per_round} runs"
    else:
        each = "taken one after the other, not in turn: what changed on the computer in between shows too"
    lines = [f"@{entry}: {each}"]
    shared = set.intersection(*(set(_settings(p)) for p in first))
    files = comparison.files or ("",) * len(first)
    for name, profile, file in zip(comparison.sides, first, files, strict=True):
        own = [s for s in _settings(profile) if s not in shared]
        lines.append(f"  {side_name(name)}: {', '.join([file] * bool(file) + own) or 'as the others'}")
    if shared_settings:
        lines.append(f"  all: {', '.join(s for s in _settings(first[0]) if s in shared)}")
    if how.link:
        lines.append(f"  copies to and from sim: modelled, over a link {how.link}; no copy overlaps work")
    names = " and ".join(map(side_name, comparison.sides)) if len(comparison.sides) == 2 else "all sides"
    within = f": {how.tolerance}" if how.tolerance else ""
    lines.append(f"The results of {names} agree{within}." if how.checked else "The results were not compared.")
    return "\n".join(lines)


def _settings(profile: Profile) -> list[str]:
    config = {"device": profile.device, **profile.config}
    return [f"{k}={v}" for k, v in config.items()]


def tables(comparison: ComparisonData, everything: bool = False) -> Iterator[TextTable]:
    """For each case: figures of whole runs, then entries of the runs; at the end, means over the cases."""
    for case, rows in zip(comparison.cases, comparison.tables, strict=True):
        title = f"{case.name}, " if len(comparison.cases) > 1 else ""
        yield _times(f"{title}time of a run, over all runs", comparison.sides, case.profiles)
        whole = _whole(rows, case.profiles)
        yield _table(f"{title}per run, {samples_text(comparison)}", comparison.sides, whole)
        shown, left = _parts(rows, everything)
        if shown:
            rest = f"; {left} more under {100 * SHOWN_PART:.0f} % of the time, no difference" if left else ""
            yield _table(f"{title}what a run consists of, largest difference first{rest}", comparison.sides, shown)
    if comparison.means:
        yield _means(comparison)


def _whole(rows: Sequence[Difference], profiles: Sequence[Profile]) -> list[Difference]:
    """The figures of whole runs; without zeros (copies, waits) if all sides run on the host."""
    on_host = all(p.device == DEVICES[0] for p in profiles)
    return [r for r in rows if r.key.kind == RUN and (any(r.values) or not on_host)]


def _times(title: str, sides: Sequence[str], profiles: Sequence[Profile]) -> TextTable:
    """The distribution of each side's run times, over all runs; and runs per second."""
    figures = [p.summary for p in profiles]
    names = [name for name in figures[0] if name.endswith("_ns")]
    header = (*(n.removesuffix("_ns").capitalize() for n in names), "Runs/s", "")
    rows = tuple(
        (*(time_text(f[n]) for n in names), rate_text(f["runs_per_second"]).partition(" ")[0], side_name(side))
        for side, f in zip(sides, figures, strict=True)
    )
    return TextTable(title, header, rows, ("",) * len(rows), (4, 3))


def _parts(rows: Sequence[Difference], everything: bool) -> tuple[list[Difference], int]:
    """The rows of kernels, copies, ...: the shown rows, sorted, and the number of omitted rows."""
    wall = max(v or 0 for v in rows[0].values)
    parts = sorted((r for r in rows if r.key.kind != RUN), key=_weight, reverse=True)
    shown = [r for r in parts if everything or _is_shown(r, wall)]
    return shown, len(parts) - len(shown)


def page_table(comparison: ComparisonData) -> dict[str, Any]:
    """All tables as one, in the form of ``export_html.html_page``: the name in front."""
    rows: list[dict[str, Any]] = []
    several, has_joined = len(comparison.cases) > 1, False
    for case, found in zip(comparison.cases, comparison.tables, strict=True):
        whole = _whole(found, case.profiles)
        shown = [*whole, *joined(_parts(found, everything=False)[0])]
        has_joined = has_joined or any(map(is_joined, shown))
        table = _table("", comparison.sides, shown)
        for row, cells, tones in zip(shown, table.rows, table.by_cell, strict=True):
            mark = {"+": "new", "-": "gone"}.get(cells[-1][:1], "")
            name = cells[-1].strip().partition(" is ")[0]  # the reasons of copies are elsewhere on the page
            figures = _page_figures(row)
            rows.append(
                {
                    "cells": [
                        f"{case.name}: {name}" if several else name,
                        *(figures.get(i, c) for i, c in enumerate(cells[:-1])),
                    ],
                    "titles": ["", *(cells[i] + " bytes" if i in figures else "" for i in range(len(cells) - 1))],
                    "tones": ["", *("" if mark or tone == "other" else tone for tone in tones[:-1])],
                    "values": ["", *_page_values(row, len(cells) - 1)],
                    "mark": mark,
                }
            )
    title, *notes = heading(comparison).splitlines()
    notes += [_means(comparison).plain()] if several else []
    notes += [JOINED] if has_joined else []
    header = [samples_text(comparison), *table.header[:-1]]
    return {"title": title, "header": header, "rows": rows, "notes": [*map(str.strip, notes), *legend(comparison).splitlines()]}


def _columns(row: Difference) -> list[int]:
    """The column of each side's value."""
    return [0, 1] if len(row.values) == 2 else [0, *range(1, 2 * len(row.values) - 1, 2)]


def _page_figures(row: Difference) -> dict[int, str]:
    """Numbers of bytes with binary units, by column."""
    if row.unit != "bytes":
        return {}
    found = {c: bytes_short(v) for c, v in zip(_columns(row), row.values, strict=True) if v is not None}
    if len(row.values) == 2 and row.change:
        found[2] = ("+" if row.change > 0 else "-") + bytes_short(abs(row.change))
    return found


def _page_values(row: Difference, columns: int) -> list[float]:
    """The sort keys of columns: the value of a side, then its ratio to the first side."""
    values = [v or 0 for v in row.values]
    if len(values) == 2:
        changed = values[1] / values[0] if values[0] else 0
        return [values[0], values[1], row.change, *[changed] * (columns - 3)]
    others = [x for v in values[1:] for x in (v, v / values[0] if values[0] else 0)]
    return [values[0], *others]


def _weight(row: Difference) -> tuple[bool, float]:
    """Significant rows first, then by the largest change in time."""
    sides = range(1, len(row.values))
    changes = [abs((row.values[s] or 0) - (row.values[0] or 0)) for s in sides]
    return any(row.mark(s) != "~" for s in sides), max(changes)


def _is_shown(row: Difference, wall: float) -> bool:
    return any(row.mark(s) != "~" for s in range(1, len(row.values))) or max(v or 0 for v in row.values) >= SHOWN_PART * wall


def _table(title: str, sides: Sequence[str], rows: Sequence[Difference]) -> TextTable:
    two = len(sides) == 2
    a, *others = map(side_name, sides)
    if two:
        b = others[0]
        header: tuple[str, ...] = (a, b, f"{b} - {a}", "%", f"{CONFIDENCE} % interval", "p", "")
    else:
        header = (a, *(h for name in others for h in (name, f"vs {a}")), "")
    others_against = tuple(range(2, 2 * len(others), 2))  # all but the last
    lines = [_line(r) if two else _wide(r) for r in rows]
    tones = tuple(_tone(r) for r in rows)
    return TextTable(title, header, tuple(lines), tones, _DROPPABLE if two else others_against, tuple(map(_by_cell, rows)))


def _by_cell(row: Difference) -> tuple[str, ...]:
    """The tone of each cell: the tone of its side; with two sides also for the name."""
    tones = [_side_tone(row, side) for side in range(1, len(row.values))]
    if len(tones) == 1:
        return ("", *tones * 3, "", "", *tones)
    return ("", *(tone for tone in tones for _ in range(2)), "")


def _line(row: Difference) -> tuple[str, ...]:
    sign = "+" if row.change > 0 else ""
    change = "" if row.change == 0 else sign + figure(row.change, row.unit)
    verdict = row.verdict(1)
    between = "" if verdict is None else f"{_percent(verdict.low)} .. {_percent(verdict.high)}"
    return (_value(row, 0), _value(row, 1), change, delta(row, 1), between, _p(verdict), _name(row))


def _wide(row: Difference) -> tuple[str, ...]:
    others = [cell for side in range(1, len(row.values)) for cell in (_value(row, side), delta(row, side))]
    return (_value(row, 0), *others, _name(row))


def _value(row: Difference, side: int) -> str:
    value = row.values[side]
    return "-" if value is None else figure(value, row.unit)


def delta(row: Difference, side: int) -> str:
    """The change in percent; ``~`` for noise, ``=`` for no change, ``new`` and ``gone``."""
    mark = row.mark(side)
    if is_joined(row) and row.values[0] and row.values[side] is not None:
        return _percent((row.values[side] or 0) / row.values[0])
    if mark in "+-":
        return {"+": "new", "-": "gone"}[mark]
    if mark in "~=":
        return mark
    first, here = row.values[0], row.values[side]
    return _percent(here / first) if first and here is not None else "new"


def _percent(ratio: float) -> str:
    if ratio >= 10:
        return f"x{ratio:.3g}"
    percent = 100 * (ratio - 1)
    text = f"{percent:+.1f}"
    if text in ("+0.0", "-0.0") and percent:
        return f"{percent:+.1g}"
    return f"{percent:+.4g}" if text == "-100.0" and ratio else text


def _p(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return "<0.001" if verdict.p < 0.001 else f"{verdict.p:.3f}"


def _name(row: Difference) -> str:
    if row.key.kind == RUN:
        return row.name
    marks = {row.mark(s) for s in range(1, len(row.values))}
    sign = "+ " if "+" in marks else "- " if "-" in marks else "  "
    return sign + thing(row.key, _amounts(row))


def thing(key: Key, amounts: str = "") -> str:
    """A kernel, copy, ... by name, with file name and line: ``sigmoid  detection_tail.relay:16``; and the reason of a copy."""
    name = COPY_NAMES.get(key.kind, key.name)
    place = f"  {PurePath(key.line).name}" if key.line else ""
    reason = key.name.removeprefix(name).strip()
    return f"{name}{place}{amounts}" + (f", {reason}" if reason else "")


def _amounts(row: Difference) -> str:
    """Differences in the number of calls and in bytes."""
    out = ""
    if len(set(row.calls) - {None}) > 1:
        out += f", {_arrow(row.calls)} calls"
    if len(set(row.nbytes) - {None}) > 1:
        out += f", {_arrow(row.nbytes)} bytes"
    elif row.key.kind in COPY_NAMES:
        out += f", {bytes_text(max(n or 0 for n in row.nbytes))}"
    return out


def _arrow(values: Sequence[float | None]) -> str:
    return " > ".join("-" if v is None else f"{v:g}" if v != int(v) else str(int(v)) for v in values)


def figure(value: float, unit: str) -> str:
    """A number; times have a unit."""
    if unit == "ns":
        return time_text(value)
    return str(int(value)) if value == int(value) else f"{value:.1f}"


def _tone(row: Difference) -> str:
    """The tone of the last side with a difference."""
    return next(filter(None, (_side_tone(row, side) for side in reversed(range(1, len(row.values))))), "")


def _side_tone(row: Difference, side: int) -> str:
    if row.mark(side) in "~=":
        return ""
    first, here = row.values[0] or 0, row.values[side] or 0
    return "better" if here < first else "worse" if here > first else "other"


def _means(comparison: ComparisonData) -> TextTable:
    a, *others = map(side_name, comparison.sides)
    header = (*(f"{name} / {a}" for name in others), "")
    shown = [m for m in comparison.means if m.key.kind in (RUN, KERNEL) and any(r is not None for r in m.ratios[1:])]
    rows = tuple(
        (*("" if r is None else f"{r:.3f}" for r in m.ratios[1:]), m.key.name if m.key.kind == RUN else "  " + thing(m.key))
        for m in shown
    )
    return TextTable(f"geometric mean over {len(comparison.cases)} cases", header, rows, ("",) * len(rows))


def samples_text(comparison: ComparisonData) -> str:
    """The meaning of a compared time: another median than that over all runs, since only the best run of a round counts."""
    least = f"the least of {comparison.method.per_round} runs" if comparison.method.per_round > 1 else "one run"
    return f"medians over {comparison.method.rounds} samples, each {least}"


def legend(comparison: ComparisonData) -> str:
    """Meanings of the signs, and the method of the statistics."""
    return (
        f"Times of the comparison: {samples_text(comparison)}.  ~: no significant difference "
        f"(p is Mann and Whitney's U,\ncorrected for all rows by Holm; significant below {ALPHA}).  "
        f"=: equal.  Intervals: {CONFIDENCE} % bootstrap of the ratio, in percent.\n+ new, - gone."
    )
