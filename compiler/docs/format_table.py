"""The table of docs/number-formats.md, from the newest record of ``benchmarks/formats``."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from .generated_part import ROOT, with_part

#: The form of records' names, which begin with the date.
RECORDS = "????-??-??-formats-cpu-*.json"
#: The contestants of a record beside relayvm, with their headings.
_OTHERS = {"onnxruntime": "of onnxruntime, same model", "float32": "of own float32"}


def newest_formats() -> Path:
    """The newest record of one thread."""
    return [path for path in sorted((ROOT / "benchmarks" / "results").glob(RECORDS)) if "threads" not in path.name][-1]


def number_formats_markdown() -> str:
    """docs/number-formats.md with the table of the newest record of one thread."""
    path = newest_formats()
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    lines = [f"| milliseconds of CPU time, one thread | relayvm | {' | '.join(_OTHERS.values())} |", "|---|--:|--:|--:|"]
    for row in record["rows"]:
        ratios = (f"{row['of'][name]:.2f}" if name in row["of"] else "" for name in _OTHERS)
        lines.append(f"| {row['case']} | {row['us']['relayvm']['median'] / 1e3:.3g} | {' | '.join(ratios)} |")
    means = (statistics.geometric_mean(row["of"][name] for row in record["rows"] if name in row["of"]) for name in _OTHERS)
    lines.append(f"| geometric mean | | {' | '.join(f'{mean:.2f}' for mean in means)} |")
    machine = record["machine"]
    peer = machine["versions"]["onnxruntime"]
    lines += [
        "",
        f"Medians of {record['date']}, {machine['processor']} with {machine['vectors']}, onnxruntime {peer}; "
        "below 1: relayvm is faster. "
        f"Record: [{path.name}](../benchmarks/results/{path.name}).",
        "",
    ]
    return with_part("docs/number-formats.md", "formats", "\n".join(lines))
