"""Benefit and cost of tuning, and the reuse of its records.

    python benchmarks/tuning.py [--rounds 15] [--quick] [--check] [--json]

trials    a first process measures, a second one with its cache must measure nothing and choose the same
foreign   the same records as if from another CPU or version: none is used, and the ingredient is named
unseen    after tuning, 16 sizes that were not measured: the first call of each against a warm one, in CPU time; goal: at
          most 1.5
ratio     tuned against untuned for each subject, interleaved; goal: none above 1.02.  If both choose the same implementation,
          they are one program, and the ratio is 1

All on one thread: threads that wait for each other on a busy machine take any time.  The cache is a temporary folder, which is
deleted at the end.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("RELAYVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when the libraries load

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.compiler.tuning import remember
from relayvm.ops.native.cache.disk_cache import FOLDER_VARIABLE
from relayvm.ops.native.tuning import tuning_records
from relayvm.vm.report.interleaved import measure

UNSEEN_GOAL, RATIO_GOAL = 1.5, 1.02
#: Of a program whose sizes are open: at which it is tuned, and 16 at which it then runs for the first time.
TUNED_SIZES = (1, 8, 64, 512)
UNSEEN_SIZES = (2, 3, 5, 7, 12, 20, 33, 50, 90, 130, 200, 300, 390, 444, 600, 1000)

#: Subjects by name: the parameters' shapes at small and large size, and the call.
SUBJECTS: dict[str, tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...], str]] = {
    "dense": (((4, 64), (32, 64)), ((256, 512), (512, 512)), "nn.dense(%x0, %x1)"),
    "matmul": (((8, 32), (32, 16)), ((256, 256), (256, 256)), "nn.matmul(%x0, %x1)"),
    "batch_matmul": (((4, 8, 16), (4, 8, 16)), ((8, 128, 64), (8, 128, 64)), "nn.batch_matmul(%x0, %x1)"),
    "batch of small": (((4, 3, 3), (4, 3, 3)), ((64, 8, 8), (64, 8, 8)), "nn.batch_matmul(%x0, %x1)"),
    "conv2d 3x3": (
        ((1, 3, 16, 16), (8, 3, 3, 3)), ((1, 32, 56, 56), (64, 32, 3, 3)), "nn.conv2d(%x0, %x1, padding=[1, 1, 1, 1])",
    ),
    "conv2d 5x5": (
        ((1, 4, 8, 8), (4, 4, 5, 5)), ((1, 16, 28, 28), (16, 16, 5, 5)), "nn.conv2d(%x0, %x1, padding=[2, 2, 2, 2])",
    ),
    "conv2d 1x1": (((1, 8, 8, 8), (8, 8, 1, 1)), ((1, 64, 56, 56), (64, 64, 1, 1)), "nn.conv2d(%x0, %x1)"),
    "sort": (((64,),), ((100_000,),), "sort(%x0, axis=0)"),
    "argsort": (((64,),), ((100_000,),), "argsort(%x0, axis=0)"),
    "topk": (((4, 32),), ((64, 4096),), "topk(%x0, k=8, axis=1)"),
    "softmax": (((4, 10),), ((512, 1024),), "nn.softmax(%x0, axis=1)"),
    "softmax, axis 0": (((10, 4),), ((512, 1024),), "nn.softmax(%x0, axis=0)"),
}  # fmt: skip

#: A call reads 4 MiB, so that what a first call pays for is time to tune, if anything, and not the first touch of some pages.
WIDTH = 1024
OPEN = f"""#[version = "0.0.5"]
def @main(%x: Tensor[(?n, {WIDTH}), float32], %w: Tensor[({WIDTH}, {WIDTH}), float32]) {{ nn.relu(nn.dense(%x, %w)) }}"""
#: Each size is called for the first time on so many machines; the median counts, as other programs run here, too.
MACHINES = 5


def static_program(shapes: tuple[tuple[int, ...], ...], call: str) -> str:
    declared = ", ".join(f"%x{i}: Tensor[{shape}, float32]" for i, shape in enumerate(shapes)).replace(",)", ")")
    return f'#[version = "0.0.5"]\ndef @main({declared}) {{ {call} }}'


def subjects(quick: bool) -> Iterator[tuple[str, str, list[np.ndarray]]]:
    """Name, program and inputs, small and large."""
    draw = np.random.default_rng(0)
    for name, (small, large, call) in SUBJECTS.items():
        for size, shapes in (("small", small), ("large", large))[: 1 if quick else 2]:
            inputs = [draw.standard_normal(shape, np.float32) for shape in shapes]
            yield f"{name}, {size}", static_program(shapes, call), inputs


def choices(exe: relay.Executable) -> list[str]:
    return [p.group.implementation for p in exe.packed]


# ---- in processes of their own -------------------------------------------------------------------------------------


def tune_all(quick: bool) -> dict[str, Any]:
    """Tune everything: the number of trials, the time, and the choices."""
    start = time.perf_counter()
    chosen = {name: choices(relay.compile(program, tune="full")) for name, program, _ in subjects(quick)}
    chosen["open"] = choices(relay.compile(OPEN, tune="full", tune_sizes={"n": TUNED_SIZES}))
    return {"trials": remember.counters["trials"], "seconds": time.perf_counter() - start, "chosen": chosen}


def foreign(quick: bool) -> dict[str, Any]:
    """Per ingredient: whether records with another value do not change the choices, and the warning names the ingredient."""
    _, program, _ = next(iter(subjects(quick)))
    kept, found = list(tuning_records.load().values()), {}
    for field in ("processor", "features", "relayvm", "llvmlite"):
        tuning_records.clear()
        others = [r.key.fields for r in kept]
        keys = [type(kept[0].key)(tuple((n, "another" if n == field else v) for n, v in fields)) for fields in others]
        tuning_records.save([r._replace(key=key) for r, key in zip(kept, keys, strict=True)])
        script = f"import relayvm as relay\nrelay.compile({program!r})"
        done = subprocess.run([sys.executable, "-W", "always", "-c", script], capture_output=True, text=True)
        found[field] = f"differs in {field}:" in done.stderr and choices(relay.compile(program, tune="off")) == choices(
            _quietly(lambda: relay.compile(program))
        )
    tuning_records.clear()
    tuning_records.save(kept)
    return found


def _quietly(make: Callable[[], relay.Executable]) -> relay.Executable:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def unseen() -> dict[str, Any]:
    """The first call at each size against the calls that follow, both medians of what the one thread computes."""
    exe, w = relay.compile(OPEN), np.ones((WIDTH, WIDTH), np.float32)
    first: dict[int, list[int]] = {n: [] for n in UNSEEN_SIZES}
    warm: dict[int, list[int]] = {n: [] for n in UNSEEN_SIZES}
    before = remember.counters["trials"]
    for _ in range(MACHINES):
        vm = relay.VirtualMachine(exe)
        for n in (max(UNSEEN_SIZES) + 1, *TUNED_SIZES[:1] * 3):  # it has run, but at none of the sizes
            vm.run(np.ones((n, WIDTH), np.float32), w)
        for n in UNSEEN_SIZES:
            x = np.ones((n, WIDTH), np.float32)
            for call in range(6):
                start = time.thread_time_ns()
                vm.run(x, w)
                (warm if call else first)[n].append(time.thread_time_ns() - start)
    found = {n: statistics.median(first[n]) / statistics.median(warm[n]) for n in UNSEEN_SIZES}
    return {"trials": remember.counters["trials"] - before, "ratios": found}


def ratios(quick: bool, rounds: int) -> dict[str, Any]:
    """Tuned against untuned, by subject: both choices, and the ratio of the medians; 1 where the programs are the same."""
    found: dict[str, Any] = {}
    cases = [(name, program, inputs) for name, program, inputs in subjects(quick)]
    w = np.ones((WIDTH, WIDTH), np.float32)
    cases += [(f"open, n = {n}", OPEN, [np.ones((n, WIDTH), np.float32), w]) for n in TUNED_SIZES]
    for name, program, inputs in cases:
        exes = {mode: relay.compile(program, tune=mode) for mode in ("off", "cached")}
        row: dict[str, Any] = {mode: choices(exe) for mode, exe in exes.items()}
        if row["off"] == row["cached"]:
            found[name] = row | {"ratio": 1.0, "same": True}
            continue
        machines = {mode: relay.VirtualMachine(exe) for mode, exe in exes.items()}
        times = measure({mode: lambda vm=vm, inputs=inputs: vm.run(*inputs) for mode, vm in machines.items()}, rounds)  # type: ignore[misc]
        found[name] = row | {"ratio": times["cached"].median_ns / times["off"].median_ns, "same": False}
    return found


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "tune": lambda args: tune_all(args.quick),
    "again": lambda args: tune_all(args.quick),
    "foreign": lambda args: foreign(args.quick),
    "unseen": lambda args: unseen(),
    "ratios": lambda args: ratios(args.quick, args.rounds),
}


def in_a_process(part: str, args: argparse.Namespace, folder: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--part", part, "--rounds", str(args.rounds), *(["--quick"] if args.quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | {FOLDER_VARIABLE: folder})
    if done.returncode:
        raise SystemExit(f"the part {part!r} failed")
    return dict(json.loads(done.stdout))


# ---- the figures ---------------------------------------------------------------------------------------------------


def judged(found: dict[str, dict[str, Any]]) -> dict[str, bool]:
    """Whether each goal is met."""
    return {
        "trials": found["tune"]["trials"] > 0 == found["again"]["trials"] and found["tune"]["chosen"] == found["again"]["chosen"],
        "foreign": all(found["foreign"].values()),
        "unseen": found["unseen"]["trials"] == 0 and max(found["unseen"]["ratios"].values()) <= UNSEEN_GOAL,
        "ratio": max(row["ratio"] for row in found["ratios"].values()) <= RATIO_GOAL,
    }


def lines(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    first, second, worst = found["tune"], found["again"], max(found["unseen"]["ratios"].values())
    yield f"first process    {first['trials']} trials in {first['seconds']:.1f} s"
    yield f"second process   {second['trials']} trials in {second['seconds']:.1f} s"
    yield f"rejected by name {', '.join(name for name, met in found['foreign'].items() if met)}"
    yield f"unseen sizes     first call at most {worst:.2f} times a warm one, {found['unseen']['trials']} trials"
    for name, row in found["ratios"].items():
        how = "the same" if row["same"] else f"{'/'.join(row['off'])} -> {'/'.join(row['cached'])}"
        yield f"{name:24} {row['ratio']:.3f}  {how}"
    for name, met in judged(found).items():
        yield f"goal {name:12} {'met' if met else 'NOT met'}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="samples of each contestant")
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        print(json.dumps(PARTS[args.part](args)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = {part: in_a_process(part, args, folder) for part in PARTS}
    print(json.dumps(found) if args.json else "\n".join(lines(found)))
    return 1 if args.check and not all(judged(found).values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
