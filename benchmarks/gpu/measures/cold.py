"""Time from the start of a process to its result: the first process, with an empty cache of kernels, and later processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.ops.native.cache import disk_cache
from relayvm.ops.native.compiled import kernel_store

from .. import emulated
from ..figures import Goal, Recorder, Spread
from ..machines import ROOT
from ..scale import Scale

NOTHING = Goal(at_most=0)
_PROGRAM = ROOT / "examples" / "detection_tail.relay"


def measure(record: Recorder, scale: Scale) -> None:
    """Wall time of processes, and the number of kernels that each compiled."""
    with tempfile.TemporaryDirectory(prefix="relayvm-cache-") as cache:
        if emulated.plugged:
            emulated.share_library(Path(cache))
        first = _start(cache, scale)
        later = [_start(cache, scale) for _ in range(scale.starts)]
    record.figure("process, from start to end", "first ever", "s", first["wall_s"])
    record.figure("process, from start to end", "after that", "s", Spread.of([s["wall_s"] for s in later]))
    record.figure("kernels compiled with NVRTC", "first ever", "kernels", first["nvrtc_compiles"])
    record.figure("kernels compiled with NVRTC", "after that", "kernels", _all(later, "nvrtc_compiles"), NOTHING)
    record.figure("compiled in all", "first ever", "functions", first["compiles"])
    record.figure("compiled in all", "after that", "functions", _all(later, "compiles"), NOTHING)
    if not first["nvrtc_compiles"]:
        raise RuntimeError("the first process compiled nothing: its cache was not empty")


def _all(starts: list[dict[str, Any]], what: str) -> Spread:
    return Spread.of([s[what] for s in starts])


def _start(cache: str, scale: Scale) -> dict[str, Any]:
    """One process with this folder as its cache.  Raises RuntimeError with its last words when it fails."""
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu"), "--start", str(scale.candidates)]
    command += ["--emulated"] if emulated.plugged else []
    began = time.perf_counter()
    done = subprocess.run(command, env=os.environ | {disk_cache.FOLDER_VARIABLE: cache}, capture_output=True, text=True)
    wall_s = time.perf_counter() - began
    if done.returncode:
        raise RuntimeError(f"a fresh process ended with {done.returncode}: {done.stderr[-1000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "wall_s": wall_s}


def start(candidates: int) -> None:
    """The work of such a process: run the program once, read its results, and print the number of compiled kernels."""
    text = _PROGRAM.read_text(encoding="utf-8")
    vm = relay.VirtualMachine(relay.compile(relay.parse(text, source_name=_PROGRAM.name), target="cuda"))
    rng = np.random.default_rng(0)
    boxes = np.sort(rng.uniform(0, 100, (candidates, 4)).astype(np.float32), axis=1)
    for tensor in vm.run(boxes, rng.normal(-3, 2, (candidates, 80)).astype(np.float32)):
        tensor.numpy()
    print(json.dumps({name: kernel_store.counters[name] for name in ("compiles", "nvrtc_compiles", "disk_hits")}))
