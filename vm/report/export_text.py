"""A profile for a spreadsheet (CSV) and for an issue (Markdown)."""

from __future__ import annotations

import csv
import dataclasses
import io

from .profile_data import Profile, Site
from .profile_views import Table, allocations, copies, operators, place, waits
from .tables import heading, time_text


def csv_text(profile: Profile) -> str:
    """A line for each site, with every figure: times in ns, over all traced runs; ``runs`` says how many."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [f.name for f in dataclasses.fields(Site) if f.name not in ("source", "line")]
    writer.writerow([*names, "place", "runs"])
    for site in profile.sites:
        writer.writerow([*(getattr(site, n) for n in names), place(profile, site), profile.runs])
    return out.getvalue()


def markdown(profile: Profile) -> str:
    """A heading, what ran where, the operators, the copies, the waits, the allocations and the counters of a run."""
    title, *times = heading(profile).split("\n")
    facts = [*(f"- {line}" for line in times), *(f"- `{a}`" for a in profile.arguments)]
    facts.append("- " + ", ".join(f"{name} {version}" for name, version in profile.environment.items()))
    blocks = [f"# {title}", "\n".join(facts)]
    blocks += [_table(table(profile)) for table in (operators, copies, waits, allocations)]
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
