"""The newest records of a benchmark: one for each kind of processor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .generated_part import ROOT


def newest_records(names: str) -> list[Path]:
    """The newest record of each kind of processor, the newest of all last; ``names``: the form of the files' names.

    A kind is a processor's name with its widest vectors: older records name no other instructions.
    """
    newest: dict[tuple[str, str], Path] = {}
    for path in sorted((ROOT / "benchmarks" / "results").glob(names)):
        machine = read_record(path)["machine"]
        kind = (machine["processor"], machine["vectors"].partition(",")[0])
        newest.pop(kind, None)
        newest[kind] = path
    return list(newest.values())


def read_record(path: Path) -> dict[str, Any]:
    """The data of a record."""
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record
