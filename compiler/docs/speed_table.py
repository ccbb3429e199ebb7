"""The tables of speed in README.md, from the newest records of ``benchmarks/models.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .generated_part import ROOT, with_part
from .gpu_table import gpu_markdown

#: The form of records' names, which begin with the date.
RECORDS = "????-??-??-models-cpu*.json"
#: The packages whose versions stand below the table.
SHOWN = ("onnxruntime", "torch", "numba")


def readme_markdown() -> str:
    """README.md with the tables of the newest records: one of each kind of vector instructions, and that of a GPU."""
    newest: dict[str, Path] = {}
    for path in sorted((ROOT / "benchmarks" / "results").glob(RECORDS)):
        newest[json.loads(path.read_text(encoding="utf-8"))["machine"]["vectors"]] = path
    page = with_part("README.md", "speed", "\n".join(map(speed_markdown, newest.values())))
    return with_part("README.md", "gpu", gpu_markdown(), page)


def speed_markdown(path: Path) -> str:
    """The table of a record, with the machine and the date: the rows beside onnxruntime."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    machine, rows = record["machine"], [row for row in record["rows"] if "onnxruntime" in row["times"]]
    names = list(dict.fromkeys(name for row in rows for name in row["times"]))
    clock = " of CPU time" if record.get("cpu_time") else ""
    lines = [
        f"| {record['threads']} thread{'s' * (record['threads'] > 1)}, milliseconds{clock} | {' | '.join(names)} | ratio |",
        f"|---|{'--:|' * len(names)}--:|",
    ]
    for row in rows:
        times = {name: time["median_ns"] / 1e6 for name, time in row["times"].items()}
        shown = " | ".join(f"{times[name]:.3g}" if name in times else "" for name in names)
        lines.append(f"| {row['name']} | {shown} | {row['ratio']:.2f} |")
    versions = ", ".join(
        f"{name} {number}" for name, number in machine["versions"].items() if name in ("onnxruntime", "torch", "numba")
    )
    where = f"{machine['processor']} with {machine['vectors']}, {machine['cores']} cores, {versions}"
    lines += [
        "",
        f"Medians of {record['date']}, {where}. All run the same model, whose sizes are open, in turn.",
        f"A ratio below 1: relayvm is faster than onnxruntime. Record: [{path.name}](benchmarks/results/{path.name}).",
        "",
    ]
    return "\n".join(lines)
