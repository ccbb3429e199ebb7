"""The tables of speed: a summary in README.md, and docs/speed.md, from the newest records of ``benchmarks/``."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from .benchmark_records import newest_records, read_record
from .format_table import newest_formats
from .generated_part import with_part
from .gpu_table import gpu_markdown, newest_record

#: The form of records' names, which begin with the date.
RECORDS = "????-??-??-models-cpu*.json"
#: The packages whose versions stand below the table.
SHOWN = ("onnxruntime", "torch", "numba")
#: The dynamic program of the summary.
DYNAMIC = "detection tail, 2000"
#: The subjects of ``benchmarks/formats`` with numbers of 8 bits; older records have no others, and name none.
OF_BYTES = ("products", "layers", "dynamic", "static")
#: The contestants on a GPU that the summary compares.
ON_GPU = "relayvm, graphs=auto / torch graph"


def readme_markdown() -> str:
    """README.md with the summary: a row for each of CPU, dynamic programs, GPUs, and 8 bits on each kind of CPU."""
    record = read_record(newest_records(RECORDS)[-1])
    rows = [row for row in record["rows"] if "onnxruntime" in row["times"]]
    peer = f"onnxruntime {record['machine']['versions']['onnxruntime']}"
    (dynamic,) = (row["ratio"] for row in rows if row["name"] == DYNAMIC)
    found = [
        (f"{len(rows)} models in float32, CPU, one thread", peer, _mean([row["ratio"] for row in rows])),
        (f"{DYNAMIC} candidates: sizes depend on values, CPU", peer, f"{dynamic:.2f}"),
    ]
    found[1:1] = [_of_bytes(read_record(path)) for path in newest_formats()]
    gpu = newest_record()
    if gpu is not None:
        on_gpu = read_record(gpu)
        figures = [f for part in on_gpu["parts"] for f in part["figures"]]
        ratios = [f["median"] for f in figures if f["who"] == ON_GPU]
        tasks = f"{len(ratios)} runs of an encoder, ResNet-50, MobileNetV2 in float32, {on_gpu['card']}"
        found.append((tasks, "torch, as a CUDA graph of one size", _mean(ratios)))
    lines = ["| time of relayvm over that of another runtime | beside | ratio |", "|---|---|--:|"]
    lines += [f"| {what} | {beside} | {ratio} |" for what, beside, ratio in found]
    return with_part("README.md", "speed", "\n".join([*lines, ""]))


def _of_bytes(record: dict[str, Any]) -> tuple[str, str, str]:
    """The row of the summary of a kind of processor's models of 8 bits."""
    machine = record["machine"]
    rows = [row["of"] for row in record["rows"] if row.get("subject", OF_BYTES[0]) in OF_BYTES]
    ratios = [of["onnxruntime"] for of in rows if "onnxruntime" in of]
    cpu, peer = f"{machine['processor']} with {machine['vectors']}", f"onnxruntime {machine['versions']['onnxruntime']}"
    if saturated := [of["saturated"] for of in rows if "saturated" in of]:
        peer += f" with exact sums; {_mean(saturated)} beside its default sums, which saturate there"
    return f"{len(ratios)} networks, products and convolutions of 8 bits, {cpu}, one thread", peer, _mean(ratios)


def speed_markdown() -> str:
    """docs/speed.md with the tables of the newest records: one of each kind of processor, and that of a GPU."""
    page = with_part("docs/speed.md", "cpu", "\n".join(map(record_markdown, reversed(newest_records(RECORDS)))))
    return with_part("docs/speed.md", "gpu", gpu_markdown(), page)


def _mean(ratios: list[float]) -> str:
    return f"{statistics.geometric_mean(ratios):.2f} (geometric mean; {min(ratios):.2f} to {max(ratios):.2f})"


def record_markdown(path: Path) -> str:
    """The table of a record, with the machine and the date: the rows beside onnxruntime."""
    record = read_record(path)
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
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items() if name in SHOWN)
    where = f"{machine['processor']} with {machine['vectors']}, {machine['cores']} cores, {versions}"
    lines += [
        "",
        f"Medians of {record['date']}, {where}. All run the same model, whose sizes are open, in turn.",
        f"A ratio below 1: relayvm is faster than onnxruntime. Record: [{path.name}](../benchmarks/results/{path.name}).",
        "",
    ]
    return "\n".join(lines)
