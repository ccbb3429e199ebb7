"""Time of the kernels: relayvm, numpy, onnxruntime and torch on one thread, beside the bandwidth of the memory.

    pip install 'relayvm[bench]' torch
    python benchmarks/kernels.py [--rounds 9] [--only norms,products] [--check] [--json]

torch is not part of the extra: its package on PyPI brings CUDA along (3 GB).  A smaller one, for CPUs only, is at
https://download.pytorch.org/whl/cpu (pip's --index-url).  A peer that is not installed is named, and its goals are not
judged.

bound   the sum of two arrays of 64 MiB into a third that is there already: two read, one written.  It is measured together
        with each kernel that only moves bytes; memcpy (64 MiB read, 64 MiB written) stands beside it.

All contestants of a subject are visited in turns, and give the same result, or there is no benchmark.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("RELAYVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when the libraries load

import argparse
import importlib
import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from kernel_subjects import GROUPS, MIB_64, SQUARE, ShareOfBound, Subject, TimesBound

import relayvm as relay
from relayvm.vm.report.interleaved import Timing, measure

OURS, BOUND, MEMCPY = "relayvm", "bound", "memcpy"
PEERS = ("numpy", "onnxruntime", "torch")
Run = Callable[[], object]


# ---- the contestants -----------------------------------------------------------------------------------------------


def our_run(subject: Subject) -> Run:
    """A program of unknown sizes, of which equal ones, counted from the last axis, have one name."""
    declared = []
    for i, x in enumerate(subject.inputs):
        sizes = [f"?d{x.ndim - axis}_{size}" for axis, size in enumerate(x.shape)]
        declared.append(f"%x{i}: Tensor[({', '.join(sizes)}{',' if x.ndim == 1 else ''}), {x.dtype}]")
    program = f'#[version = "0.0.5"]\ndef @main({", ".join(declared)}) {{ {subject.call} }}'
    vm = relay.VirtualMachine(relay.compile(program, target="cpu"))
    return lambda: vm.run(*subject.inputs).numpy()


def numpy_run(subject: Subject, numpy: Any, want: np.ndarray) -> Run | None:
    return None if subject.numpy is None else lambda: subject.numpy(*subject.inputs)  # type: ignore[misc]


def ort_run(subject: Subject, onnxruntime: Any, want: np.ndarray) -> Run | None:
    """A session with all optimisations, of sizes that are known, and weights that are constants: its best case."""
    if subject.onnx is None:
        return None
    import onnx
    import onnx.parser

    inputs = ", ".join(f"float{list(x.shape)} x{i}" for i, x in enumerate(subject.inputs))
    kind = "int64" if want.dtype.kind == "i" else "float"
    sizes = ", ".join(f"d{i}" for i in range(want.ndim))
    graph = onnx.parser.parse_graph(f"g ({inputs}) => ({kind}[{sizes}] y) {{ {subject.onnx} }}")
    for k in sorted(subject.parameters, reverse=True):
        graph.initializer.append(onnx.numpy_helper.from_array(subject.inputs[k], f"x{k}"))
        del graph.input[k]
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    run = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run
    given = {f"x{i}": x for i, x in enumerate(subject.inputs) if i not in subject.parameters}
    return lambda: run(["y"], given)[0]


def torch_run(subject: Subject, torch: Any, want: np.ndarray) -> Run | None:
    if subject.torch is None:
        return None
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    function, inputs = subject.torch(torch), [torch.from_numpy(x) for x in subject.inputs]
    return lambda: function(*inputs).numpy()


#: Each peer's counterpart of a subject, whose result is given; None where the peer has none.
MAKERS = {"numpy": numpy_run, "onnxruntime": ort_run, "torch": torch_run}


def installed() -> dict[str, Any]:
    """The modules of the peers that are installed."""
    found = {}
    for name in PEERS:
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            continue
    return found


def contestants(subject: Subject, modules: dict[str, Any]) -> dict[str, Run]:
    """All contestants of a subject.  Exits if two contestants give different results."""
    runs = {OURS: our_run(subject)}
    want = np.asarray(runs[OURS]())
    for name, module in modules.items():
        run = MAKERS[name](subject, module, want)
        if run is not None:
            runs[name] = run
    for name, run in runs.items():
        found = np.asarray(run())
        if found.shape != want.shape or not np.allclose(found, want, rtol=2e-3, atol=2e-3 * max(1.0, float(np.abs(want).max()))):
            raise SystemExit(f"{subject.name}: {name} computes something else than {OURS}")
    return runs


def bounds() -> dict[str, Run]:
    """Sum and copy of 64 MiB, into memory that is there already."""
    a, b, c = (np.full(SQUARE, value, np.float32) for value in (1, 2, 3))
    return {BOUND: lambda: np.add(a, b, out=c), MEMCPY: lambda: np.copyto(c, a)}


# ---- judging and showing -------------------------------------------------------------------------------------------


def verdict(subject: Subject, timings: dict[str, Timing]) -> tuple[str, bool | None]:
    """The goal of a subject with what was reached, and whether it is met; None where the peer is missing."""
    goal, ours = subject.goal, timings[OURS]
    if isinstance(goal, ShareOfBound):
        share = goal.nbytes / (3 * MIB_64) / ours.ratio(timings[BOUND])
        return f"{share:.0%} of the bound's bandwidth, goal at least {goal.share:.0%}", share >= goal.share
    peer, most = (BOUND, goal.times) if isinstance(goal, TimesBound) else (goal.peer, goal.times)
    if peer not in timings:
        return f"goal at most {most:.2f} times {peer}, which is missing", None
    times = ours.ratio(timings[peer])
    return f"{times:.2f} times {peer}, goal at most {most:.2f}", times <= most


def show(subject: Subject, timings: dict[str, Timing]) -> None:
    print(f"\n{subject.name}")
    for name, t in timings.items():
        times = f"{t.ratio(timings[OURS]):8.2f}x"
        print(f"  {name:12}{t.median_ns / 1e6:10.3f} ms  [{t.min_ns / 1e6:.3f} .. {t.max_ns / 1e6:.3f}]{times}")
    words, met = verdict(subject, timings)
    print(f"  {words}: {'not judged' if met is None else 'met' if met else 'NOT met'}", flush=True)


def results(groups: list[str], rounds: int, modules: dict[str, Any], shown: bool) -> list[tuple[Subject, dict[str, Timing]]]:
    """The timings of each subject of the groups, printed as they come if ``shown``."""
    found, at_the_bound = [], bounds()
    for group in groups:
        for subject in GROUPS[group]():
            others = at_the_bound if isinstance(subject.goal, TimesBound | ShareOfBound) else {}
            timings = measure(contestants(subject, modules) | others, rounds)
            found.append((subject, timings))
            if shown:
                show(subject, timings)
    return found


def document(found: list[tuple[Subject, dict[str, Timing]]], modules: dict[str, Any], missing: list[str]) -> dict[str, Any]:
    """Everything as a JSON object."""
    versions = {"python": platform.python_version()} | {name: module.__version__ for name, module in modules.items()}
    rows = {
        subject.name: {
            "ns": {name: asdict(t) for name, t in timings.items()},
            "goal": verdict(subject, timings)[0],
            "goal_met": verdict(subject, timings)[1],
        }
        for subject, timings in found
    }
    return {"machine": platform.processor() or platform.machine(), "versions": versions, "missing": missing, "kernels": rows}


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each contestant")
    parser.add_argument("--only", default=",".join(GROUPS), help="groups of kernels, separated by commas")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    args = parser.parse_args()
    groups = args.only.split(",")
    if unknown := [g for g in groups if g not in GROUPS]:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(GROUPS)}")
    modules = installed()
    missing = [name for name in PEERS if name not in modules]
    found = results(groups, args.rounds, modules, shown=not args.json)
    failed = [subject.name for subject, timings in found if verdict(subject, timings)[1] is False]
    if args.json:
        print(json.dumps(document(found, modules, missing)))
    else:
        for name in missing:
            print(f"\n{name}: missing (not installed), left out of every comparison")
        judged = sum(verdict(subject, timings)[1] is not None for subject, timings in found)
        print(f"\ngoals met: {judged - len(failed)} of {judged}, not judged: {len(found) - judged}")
        for name in failed:
            print(f"  NOT met: {name}")
    return int(args.check and bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
