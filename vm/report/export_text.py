"""Export of profiles to CSV and Markdown."""

from __future__ import annotations

import csv
import dataclasses
import io

from ..inspection.figures import time_text
from .profile_data import ProfileData, Site
from .profile_views import Table, allocations, copies, float_products, formats, operators, place, waits
from .tables import heading


def csv_text(profile: ProfileData) -> str:
    """CSV with a line per site: all figures, times in ns, over all traced runs; the column ``runs`` has their number."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [f.name for f in dataclasses.fields(Site) if f.name not in ("source", "line")]
    writer.writerow([*names, "place", "runs"])
    for site in profile.sites:
        writer.writerow([*(getattr(site, n) for n in names), place(profile, site), profile.runs])
    return out.getvalue()


def markdown(profile: ProfileData) -> str:
    """Markdown: heading, arguments, environment, tables of operators, formats, copies, waits, allocations, counters."""
    title, *times = heading(profile).split("\n")
    facts = [*(f"- {line}" for line in times), *(f"- `{a}`" for a in profile.arguments)]
    facts.append("- " + ", ".join(f"{name} {version}" for name, version in profile.environment.items()))
    blocks = [f"# {title}", "\n".join(facts)]
    blocks += [_table(table(profile)) for table in (operators, formats, float_products, copies, waits, allocations)]
    counters = tuple((name, f"{profile.per_run(name):g}") for name in profile.counters[0])
    blocks.append(_table(Table("counters, per run:", ("Counter", "Median"), counters, (0,))))
    prepared = tuple((use.how.replace("_", " "), use.name, time_text(use.ns)) for use in profile.prepared)
    blocks.append(_table(Table("kernels when the machine was made:", ("Store", "Kernel", "Time"), prepared, (0, 1))))
    return "\n\n".join(blocks) + "\n"


def _table(table: Table) -> str:
    title = f"## {table.title.removesuffix(':').capitalize()}"
    if not table.rows:
        return f"{title}\n\nNone."
    rule = ["---" if i in table.left else "---:" for i in range(len(table.header))]
    lines = ["| " + " | ".join(map(_cell, row)) + " |" for row in (table.header, rule, *table.rows)]
    return "\n".join([title, "", *lines])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
