"""The table of speed in README.md, from the newest record of ``benchmarks/models.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .generated_part import ROOT, with_part

#: The form of records' names; the newest is the last one.
RECORDS = "*-models-cpu.json"


def readme_markdown() -> str:
    """README.md with the table of the newest record."""
    *_, newest = sorted((ROOT / "benchmarks" / "results").glob(RECORDS))
    return with_part("README.md", "speed", speed_markdown(newest))


def speed_markdown(path: Path) -> str:
    """The table of a record, with the machine and the date."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    machine = record["machine"]
    lines = [
        f"| {record['threads']} thread{'s' * (record['threads'] > 1)}, milliseconds | relayvm | onnxruntime | ratio |",
        "|---|--:|--:|--:|",
    ]
    for row in record["rows"]:
        ours, theirs = (row["times"][name]["median_ns"] / 1e6 for name in ("relayvm", "onnxruntime"))
        lines.append(f"| {row['name']} | {ours:.3g} | {theirs:.3g} | {ours / theirs:.2f} |")
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items() if name in ("onnxruntime", "numba"))
    where = f"{machine['processor']}, {machine['cores']} cores, {versions}"
    lines += [
        "",
        f"Medians of {record['date']}, {where}. Both run the same ONNX model, whose sizes are open, in turn.",
        f"A ratio below 1: relayvm is faster. Record: [{path.name}](benchmarks/results/{path.name}).",
        "",
    ]
    return "\n".join(lines)
