"""ONNX models side by side with onnxruntime: the first process, later processes, the import alone, and the time of a run.

    python benchmarks/onnx_models.py [--model recognition ...] [--rounds 7] [--record FOLDER] [--json]

The models are those of examples/ocr.py and examples/voice_activity.py: `pip install 'relayvm[ocr,bench]'` and
`pip install --no-deps silero-vad`.  Each start is a process of its own, from its beginning to its first result.  `cold` has an
empty cache, `kernels` finds the kernels of the first but compiles the model again, and `cached` finds the executable, too.
`import` makes the module and stops.  Both runtimes have the same number of threads; their runs are timed in turn.  `--record`
writes the figures and the state of the machine to two files.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))
RELAYVM, OTHER = "relayvm", "onnxruntime"
#: The kinds of processes: see above.
COLD, KERNELS, CACHED, IMPORT = "cold", "kernels", "cached", "import"
#: The most seconds from the start of a process of the recognition model to its first result.
GOALS = {("recognition", COLD): 25.0, ("recognition", CACHED): 1.5}


#: The inputs of a run by name: the shape of random float32, or an int64.
Case = Mapping[str, Any]


def inputs_of(case: Case) -> dict[str, np.ndarray]:
    """The inputs of a case."""
    rng = np.random.default_rng(0)
    return {n: np.array(v) if isinstance(v, int) else rng.normal(size=v, scale=0.3).astype(np.float32) for n, v in case.items()}


@dataclass(frozen=True)
class Subject:
    """A model's file, and the cases in which it is run, the smallest first."""

    file: Path
    cases: Mapping[str, Case]


#: The cases of each model.
FRAME = {"a frame": {"input": [1, 576], "state": [2, 1, 128], "sr": 16000}}
CASES: Mapping[str, Mapping[str, Case]] = {
    "detection": {"1x3x64x64": {"x": [1, 3, 64, 64]}, "1x3x736x1248": {"x": [1, 3, 736, 1248]}},
    "direction": {"1x3x48x192": {"x": [1, 3, 48, 192]}, "6x3x48x192": {"x": [6, 3, 48, 192]}},
    "recognition": {"1x3x48x320": {"x": [1, 3, 48, 320]}, "6x3x48x480": {"x": [6, 3, 48, 480]}},
    "silero_vad": FRAME,
    "silero_vad_16k_op15": FRAME,
}


def subject(name: str) -> Subject:
    """The model of this name."""
    import ocr
    import voice_activity

    return Subject(ocr.model_file(name) if name in ocr.MODELS else voice_activity.model_file(name), CASES[name])


# ---- one process ---------------------------------------------------------------------------------------------------------


class Clock:
    """Seconds of the phases of this process."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self._last = time.perf_counter()

    def phase(self, name: str) -> None:
        """End a phase."""
        now = time.perf_counter()
        self.found[name], self._last = now - self._last, now


def process(how: str, path: Path, case: Case) -> dict[str, Any]:
    """The figures of this process, whose kind is ``how``, up to the first result."""
    inputs, clock = inputs_of(case), Clock()
    if how == OTHER:
        import onnxruntime

        clock.phase("package")
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        clock.phase("compile")
        session.run(None, inputs)
        clock.phase("run")
        return {"phases": clock.found}
    import relayvm as relay

    clock.phase("package")
    if how == IMPORT:
        relay.frontend.from_onnx(path)
        clock.phase("import")
        return {"phases": clock.found}
    exe = relay.compile(relay.frontend.from_onnx(path)[0] if how == KERNELS else path)
    clock.phase("compile")
    machine = relay.VirtualMachine(exe)
    clock.phase("machine")
    machine.run(**inputs)
    clock.phase("run")
    from relayvm.ops.native.compiled.kernel_store import counters

    return {"phases": clock.found, "kernel_compiles": counters["compiles"]}


def start(model: Subject, how: str, cache: str) -> dict[str, Any]:
    """The figures of a new process; ``wall_s`` is the time to its end, ``cpu_s`` that of all its threads."""
    environment = {**os.environ, "RELAYVM_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    case = json.dumps(next(iter(model.cases.values())))
    command = [sys.executable, __file__, "--process", how, str(model.file), case]
    began, used = time.perf_counter(), _children_cpu_s()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    wall_s, cpu_s = time.perf_counter() - began, _children_cpu_s() - used
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return {"wall_s": wall_s, "cpu_s": cpu_s, **json.loads(done.stdout.splitlines()[-1])}


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def starts(model: Subject, rounds: int) -> dict[str, Any]:
    """The figures of every kind of process; of those that are repeated, the one with the least wall time."""
    with tempfile.TemporaryDirectory(prefix="relayvm-cache-") as cache:
        found = {COLD: start(model, COLD, cache)}
        for how in (KERNELS, CACHED, IMPORT, OTHER):
            found[how] = min((start(model, how, cache) for _ in range(rounds)), key=lambda s: s["wall_s"])
    assert found[CACHED]["kernel_compiles"] == 0, "a second process compiles nothing"
    return found


# ---- runs ----------------------------------------------------------------------------------------------------------------


def runs(model: Subject, rounds: int) -> dict[str, Any]:
    """For each case the largest difference of the results, and the milliseconds of a run of both runtimes."""
    import onnxruntime

    import relayvm as relay
    from relayvm.vm.report.interleaved import measure
    from relayvm.vm.thread_count import get_num_threads

    machine = relay.VirtualMachine(relay.compile(model.file))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = get_num_threads()
    session = onnxruntime.InferenceSession(str(model.file), options, providers=["CPUExecutionProvider"])
    found = {}
    for name, case in model.cases.items():
        inputs = inputs_of(case)
        ours, others = machine.run(**inputs), session.run(None, inputs)
        results = ours if isinstance(ours, tuple) else (ours,)
        difference = max(float(np.abs(a.numpy() - b).max()) for a, b in zip(results, others, strict=True))
        timed = measure(
            {RELAYVM: lambda inputs=inputs: machine.run(**inputs), OTHER: lambda inputs=inputs: session.run(None, inputs)},
            rounds=rounds,
        )  # fmt: skip
        times = {who: {"median_ms": t.median_ns / 1e6, "min_ms": t.min_ns / 1e6} for who, t in timed.items()}
        found[name] = {"largest_difference": difference, **times}
    return found


# ---- the record ----------------------------------------------------------------------------------------------------------


def machine_state() -> dict[str, Any]:
    """The machine, versions and load, as they are now."""
    packages = [name for name in ("numpy", "numba", "onnx", OTHER, "torch") if importlib.util.find_spec(name)]
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"
    return {
        "processor": _processor(), "vectors": _vectors(), "cores": os.cpu_count(),
        "platform": platform.platform(), "python": platform.python_version(),
        "versions": {name: version(name) for name in packages}, "commit": commit, "load": list(os.getloadavg()),
    }  # fmt: skip


def _processor() -> str:
    return _cpuinfo("model name") or platform.processor()


#: Instructions of products of narrow numbers, by their flag.
_NARROW = {"avx512_vnni": "VNNI", "avx_vnni": "AVX VNNI", "avx512_bf16": "BF16", "amx_int8": "AMX"}


def _vectors() -> str:
    """The widest vector instructions of this machine, and those for products of narrow numbers."""
    flags = _cpuinfo("flags").split()
    widest = next((name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), platform.machine())
    return ", ".join([widest, *(name for flag, name in _NARROW.items() if flag in flags)])


def machine_name(machine: Mapping[str, Any]) -> str:
    """A processor with its vectors, in the form of names of files."""
    return re.sub(r"[^a-z0-9]+", "-", f"{machine['processor']} {machine['vectors']}".lower()).strip("-")


def _cpuinfo(key: str) -> str:
    """The value of a key of the first processor in Linux's list; "" elsewhere."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "")


def verdict(name: str, how: str, found: Mapping[str, Any]) -> str:
    """The goal of a start, and whether it is held; "" without a goal."""
    goal = GOALS.get((name, how))
    return "" if goal is None else f"{'held' if found['wall_s'] <= goal else 'missed'}: at most {goal:g} s"


def markdown(record: Mapping[str, Any]) -> str:
    """The record as a page, made from nothing else."""
    state = record["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in state["versions"].items())
    load = " ".join(f"{x:.2f}" for x in state["load"])
    after = " ".join(f"{x:.2f}" for x in record["load_after"])
    lines = [
        f"# ONNX models on the CPU, {record['date']}", "",
        f"{state['processor']}, {state['cores']} cores, {state['platform']}; load before {load}, after {after}.",
        f"Python {state['python']}, {versions}; commit {state['commit']}.", "",
        "## Seconds from the start of a process to its first result", "",
        "| model | process | wall | CPU | package | compile | machine | run | kernels compiled | goal |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]  # fmt: skip
    for name, model in record["models"].items():
        for how, s in model["starts"].items():
            phases = {"import": "compile", **{p: p for p in ("package", "compile", "machine", "run")}}
            shown = {phases[p]: f"{seconds:.2f}" for p, seconds in s["phases"].items()}
            cells = [shown.get(p, "") for p in ("package", "compile", "machine", "run")]
            compiles = str(s.get("kernel_compiles", ""))
            cells = [name, how, f"{s['wall_s']:.2f}", f"{s['cpu_s']:.2f}", *cells, compiles, verdict(name, how, s)]
            lines.append(f"| {' | '.join(cells)} |")
    head = f"| model | inputs | {RELAYVM} | {OTHER} | ratio of medians | largest difference |"
    lines += ["", "## Milliseconds of a run: median, least", "", head, "|---|---|---:|---:|---:|---:|"]
    for name, model in record["models"].items():
        for case, c in model["runs"].items():
            both = [f"{c[who]['median_ms']:.3g}, {c[who]['min_ms']:.3g}" for who in (RELAYVM, OTHER)]
            ratio = c[RELAYVM]["median_ms"] / c[OTHER]["median_ms"]
            lines.append(f"| {name} | {case} | {' | '.join(both)} | {ratio:.2f} | {c['largest_difference']:.1e} |")
    return "\n".join(lines) + "\n"


def write(record: Mapping[str, Any], folder: Path) -> None:
    """Write the record of the models up to now."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{record['date']}-onnx-models-cpu"
    stem.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")
    stem.with_suffix(".md").write_text(markdown(record))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="a model; default: all")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of timed runs; processes are started half as often")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="write the record to two files")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--process", nargs=3, help=argparse.SUPPRESS)  # a kind of process, a model's file, a case
    args = parser.parse_args()
    if args.process:
        how, path, case = args.process
        print(json.dumps(process(how, Path(path), json.loads(case))))
        return 0
    names = args.model or list(CASES)
    if set(names) - set(CASES):
        parser.error(f"the models are {', '.join(CASES)}")
    record: dict[str, Any] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "machine": machine_state(), "models": {}}
    for name in names:
        model = subject(name)
        record["models"][name] = {"starts": starts(model, max(1, args.rounds // 2)), "runs": runs(model, args.rounds)}
        record["load_after"] = list(os.getloadavg())
        if args.record:
            write(record, args.record)
    print(json.dumps(record) if args.json else markdown(record), end="\n" if args.json else "")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
