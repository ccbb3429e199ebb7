"""The table of GPUs in docs/speed.md, from the newest record of ``make gpu``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .generated_part import ROOT

#: The columns: contestants of the parts of the record.
_WHO = ("relayvm", "torch", "torch.compile", "copy")
#: The parts and the unit of their rows.
_PARTS = {"bandwidth": "GB/s", "products": "TFLOP/s"}


def newest_record() -> Path | None:
    """The newest record of all parts on a GPU; None if there is none."""
    found = None
    for path in sorted((ROOT / "benchmarks" / "results").glob("????-??-??-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if "card" in record and not record["emulated"] and not record["tiny"]:
            found = path
    return found


def gpu_markdown() -> str:
    """The table of the newest record; a sentence without a record."""
    path = newest_record()
    if path is None:
        return "No GPU has run this yet.\n"
    record = json.loads(path.read_text(encoding="utf-8"))
    figures = [f for part in record["parts"] for f in part["figures"]]
    lines = [f"| {record['card']} | {' | '.join(_WHO)} |", f"|---|{'--:|' * len(_WHO)}"]
    for part in record["parts"]:
        lines += _rows(part, _PARTS[part["name"]]) if part["name"] in _PARTS else []
    goals = [f["verdict"] for f in figures if f["goal"]]
    page = path.with_suffix(".md").name
    lines += [
        "",
        f"Medians of {record['date'][:10]}, CUDA {record['cuda']}: bytes that must be moved, or operations, per second.",
        f"Of {len(goals)} goals {goals.count('held')} are held. All figures, with goals: [{page}](../benchmarks/results/{page}).",
        "",
    ]
    return "\n".join(lines)


def _rows(part: dict[str, Any], unit: str) -> list[str]:
    tasks: dict[str, dict[str, float]] = {}
    for f in part["figures"]:
        if f["unit"] == unit and f["median"] is not None:
            tasks.setdefault(f["task"], {})[f["who"]] = f["median"]
    return [f"| {task}, {unit} | {' | '.join(_number(found.get(who)) for who in _WHO)} |" for task, found in tasks.items()]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
