"""Time from the start of a process to its result: with an empty cache of kernels, and later.

    python benchmarks/cold_start.py [--runs 5] [--device cpu] [--json]

Each run is a fresh `relayvm run` of an example.  The first run has an empty cache of kernels; it compiles the machine's own code,
too, unless `relayvm cache install` did, as `make` does.  The other runs use its kernels and must compile nothing.  Python stores
its bytecode, as for a package that pip installed, even if the environment disables that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relayvm.ops.native.cache import installed_entries

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@dataclass(frozen=True)
class Subject:
    """A program, sizes for its named dimensions, and the limits of the first process: its time and its number of kernels."""

    name: str
    dims: tuple[str, ...]
    first_goal_s: float
    most_kernels: int


SUBJECTS = (
    Subject("detection_tail", ("n=2000",), 5.0, 40),
    Subject("transformer_encoder", ("b=1", "s=32"), 6.0, 40),  # 12 layers, which have the same kernels
)
#: The most seconds of the median of the later processes.
LATER_GOAL_S = 0.5


@dataclass(frozen=True)
class Start:
    """One process: wall seconds from its start to its end, and the number of kernels that it compiled."""

    wall_s: float
    kernel_compiles: int


def counter(document: object, name: str) -> int:
    """The value under ``name`` at any depth of a JSON document.  Raises KeyError without such a value."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if name in value:
                return int(value[name])
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    raise KeyError(name)


def start(cache: str, subject: Subject, device: str) -> Start:
    """Run the program in a process of its own.  Exits with the process's message when it fails."""
    sizes = [part for dim in subject.dims for part in ("--dim", dim)]
    program = str(EXAMPLES / f"{subject.name}.relay")
    command = [sys.executable, "-m", "relayvm", "run", program, *sizes, "--device", device, "--json"]
    environment = {**os.environ, "RELAYVM_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=EXAMPLES.parent)
    wall_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return Start(wall_s, counter(json.loads(done.stdout), "kernel_compiles"))


def measured(subject: Subject, device: str, runs: int) -> dict[str, Any]:
    """The figures of one program."""
    with tempfile.TemporaryDirectory(prefix="relayvm-cache-") as cache:
        first = start(cache, subject, device)
        later = [start(cache, subject, device) for _ in range(runs)]
    met = first.wall_s <= subject.first_goal_s and first.kernel_compiles <= subject.most_kernels
    met = met and statistics.median(s.wall_s for s in later) <= LATER_GOAL_S and not any(s.kernel_compiles for s in later)
    return {"first": asdict(first), "later": [asdict(s) for s in later], "goal_met": met}


def code_is_installed() -> bool:
    """Whether the installation has machine code, at all: code of other versions is not found."""
    return any(installed_entries.folder().glob("*/*"))


def show(subject: Subject, found: dict[str, Any]) -> None:
    print(f"{subject.name}, {', '.join(subject.dims)}")
    for words, s in [("first ever", found["first"]), *(("after that", s) for s in found["later"])]:
        print(f"  {words}: {s['wall_s']:6.2f} s, {s['kernel_compiles']} kernels compiled")
    goal = f"at most {subject.first_goal_s:g} s and {subject.most_kernels} kernels, then {LATER_GOAL_S:g} s and none"
    print(f"  goal: {goal}: {'met' if found['goal_met'] else 'NOT met'}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs with a warm cache")
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim"))
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    args = parser.parse_args()
    found: dict[str, Any] = {"code_is_installed": code_is_installed()}
    if not args.json:
        print(
            f"the machine's own code: {'of the installation' if found['code_is_installed'] else 'compiled by the first process'}"
        )
    for subject in SUBJECTS:
        found[subject.name] = measured(subject, args.device, args.runs)
        if not args.json:
            show(subject, found[subject.name])
    if args.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
