"""The verdict of a comparison in some ten lines: results, copies, bytes and time, and the reason of each copy that differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from ...vm.inspection.figures import align, bytes_short
from ...vm.report.profile_data import COPY_NAMES
from .compare_rows import RUN, Difference
from .compare_text import delta, figure, heading, side_name
from .comparison_data import ComparisonData

#: The figures of whole runs in the verdict, with their headings.
FIGURES = {"wall time": "time of a run", **{f"{n} {f}": f"{n} {f}" for n in COPY_NAMES.values() for f in ("calls", "bytes")}}
#: The copies to the host, which the host waits for: their reasons are in the verdict.
TO_HOST = "dtoh"
#: The most copies of a kind that are listed.
LISTED = 4


def verdict_text(comparison: ComparisonData) -> str:
    """The verdict of each case."""
    blocks = [heading(comparison, shared_settings=False)]
    for case, rows in zip(comparison.cases, comparison.tables, strict=True):
        title = [case.name] if len(comparison.cases) > 1 else []
        blocks.append("\n".join([*title, _figures(rows, comparison.sides), *_reasons(rows, comparison.sides)]))
    return "\n\n".join(blocks)


def _figures(rows: Sequence[Difference], sides: Sequence[str]) -> str:
    """The figures of whole runs on each side, and the change from the first side."""
    first, *others = map(side_name, sides)
    lines: list[tuple[str, ...]] = [("per run", first, *(cell for name in others for cell in (name, f"vs {first}")))]
    for row in rows:
        if row.key.kind == RUN and row.name in FIGURES and any(row.values):
            cells = [_shown(row, 0), *(cell for s in range(1, len(sides)) for cell in (_shown(row, s), _change(row, s)))]
            lines.append((FIGURES[row.name], *cells))
    return align(lines, left=(0,))


def _shown(row: Difference, side: int) -> str:
    value = row.values[side]
    return "-" if value is None else bytes_short(value) if row.unit == "bytes" else figure(value, row.unit)


def _change(row: Difference, side: int) -> str:
    change = delta(row, side)
    return f"{change} %" if change[0] in "+-" else change


def _reasons(rows: Sequence[Difference], sides: Sequence[str]) -> Iterator[str]:
    """The copies to the host that every side has, and those that the last side lacks or adds."""
    last = len(sides) - 1
    found: dict[str, list[Difference]] = {"-": [], "+": [], "=": []}
    for row in rows:
        if row.key.kind == TO_HOST:
            mark = row.mark(last)
            found[mark if mark in "-+" else "="].append(row)
    name = side_name(sides[last])
    for mark, title in {"-": f"gone in {name}", "+": f"only in {name}", "=": "to the host on each side"}.items():
        copies = sorted(found[mark], key=lambda row: -max(n or 0 for n in row.nbytes))
        for row in copies[:LISTED]:
            nbytes = bytes_short(max(n or 0 for n in row.nbytes))
            reason = row.key.name.removeprefix(COPY_NAMES[TO_HOST]).strip()
            yield f"{title}: {nbytes} at {PurePath(row.key.line).name}, {reason}"
        if len(copies) > LISTED:
            yield f"{title}: {len(copies) - LISTED} more"
