"""From the start of a process to its result: the first time ever, and after that.

    python benchmarks/cold_start.py [--candidates 2000] [--runs 3] [--device cpu] [--json]

Each run is a fresh `relayvm run examples/detection_tail.relay`.  The first finds an empty cache of kernels; the others
find what the first left, and must compile nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[1] / "examples" / "detection_tail.relay"
FIRST_GOAL_S, LATER_GOAL_S = 12.0, 1.0


@dataclass(frozen=True)
class Start:
    """One process: wall seconds from its start to its end, and how many kernels it compiled."""

    wall_s: float
    kernel_compiles: int


def counter(document: object, name: str) -> int:
    """The value under ``name``, wherever it stands in a JSON document.  Raises KeyError when it stands nowhere."""
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


def start(cache: str, candidates: int, device: str) -> Start:
    """Run the program in a process of its own.  Exits with the process's message when it fails."""
    command = [sys.executable, "-m", "relayvm", "run", str(PROGRAM), "--dim", f"n={candidates}", "--device", device, "--json"]
    began = time.perf_counter()
    done = subprocess.run(
        command, env=os.environ | {"RELAYVM_CACHE_DIR": cache}, capture_output=True, text=True, cwd=PROGRAM.parent
    )
    wall_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return Start(wall_s, counter(json.loads(done.stdout), "kernel_compiles"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3, help="runs with a warm cache")
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim"))
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="relayvm-cache-") as cache:
        first = start(cache, args.candidates, args.device)
        later = [start(cache, args.candidates, args.device) for _ in range(args.runs)]
    met = first.wall_s <= FIRST_GOAL_S and all(s.wall_s <= LATER_GOAL_S and s.kernel_compiles == 0 for s in later)
    if args.json:
        print(json.dumps({"first": asdict(first), "later": [asdict(s) for s in later], "goal_met": met}))
        return 0
    print(f"first ever: {first.wall_s:6.2f} s, {first.kernel_compiles} kernels compiled")
    for s in later:
        print(f"after that: {s.wall_s:6.2f} s, {s.kernel_compiles} kernels compiled")
    words = f"goal: first at most {FIRST_GOAL_S:g} s, then at most {LATER_GOAL_S:g} s with nothing compiled"
    print(f"{words}: {'met' if met else 'NOT met'}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
