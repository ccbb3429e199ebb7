"""The table of docs/number-formats.md, from the newest records of ``benchmarks/formats``."""

from __future__ import annotations

import statistics
from pathlib import Path

from .benchmark_records import newest_records, read_record
from .generated_part import with_part

#: The form of records' names, which begin with the date.
RECORDS = "????-??-??-formats-cpu-*[!s].json"  # none of several threads
#: The contestants of a record beside relayvm, with their headings.
_OTHERS = {"onnxruntime": "of onnxruntime, same model", "float32": "of own float32"}
#: Contestants beside which some rows stand, and the words for the time over theirs.
_BESIDE = {
    "saturated": "of its default sums",
    "read": "of reading the weight",
    "multiplied": "of as many multiply-adds in registers",
    "openvino": "of OpenVINO",
}
#: The words below a table of a processor on which onnxruntime's default sums saturate.
_EXACT = "Sums of bytes are exact in both; beside stands the time over that of its default session, whose sums saturate. "


def newest_formats() -> list[Path]:
    """The newest records of one thread, one of each kind of processor, the newest of all last."""
    return newest_records(RECORDS)


def number_formats_markdown() -> str:
    """docs/number-formats.md with the tables of the newest records of one thread."""
    return with_part("docs/number-formats.md", "formats", "\n".join(map(_markdown, reversed(newest_formats()))))


def _markdown(path: Path) -> str:
    record = read_record(path)
    lines = [
        f"| milliseconds of CPU time, one thread | relayvm | {' | '.join(_OTHERS.values())} | beside |",
        "|---|--:|--:|--:|---|",
    ]
    for row in record["rows"]:
        ratios = (f"{row['of'][name]:.2f}" if name in row["of"] else "" for name in _OTHERS)
        lines.append(
            f"| {row['case']} | {row['us']['relayvm']['median'] / 1e3:.3g} | {' | '.join(ratios)} | {_beside(row['of'])} |"
        )
    means = (statistics.geometric_mean(row["of"][name] for row in record["rows"] if name in row["of"]) for name in _OTHERS)
    lines.append(f"| geometric mean | | {' | '.join(f'{mean:.2f}' for mean in means)} | |")
    machine = record["machine"]
    peer = machine["versions"]["onnxruntime"]
    is_exact = any("saturated" in row["of"] for row in record["rows"])
    lines += [
        "",
        f"Medians of {record['date']}, {machine['processor']} with {machine['vectors']}, onnxruntime {peer}; "
        f"below 1: relayvm is faster. {_EXACT if is_exact else ''}"
        f"Record: [{path.name}](../benchmarks/results/{path.name}).",
        "",
    ]
    return "\n".join(lines)


def _beside(of: dict[str, float]) -> str:
    """The ratios beside some contestants; the nearer of two bounds."""
    shown = {name: of[name] for name in _BESIDE if name in of}
    if {"read", "multiplied"} <= {*shown}:
        del shown[max(("read", "multiplied"), key=shown.__getitem__)]
    return ", ".join(f"{ratio:.2f} {_BESIDE[name]}" for name, ratio in shown.items())
