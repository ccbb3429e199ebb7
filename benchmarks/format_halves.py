"""float16 and bfloat16 beside float32 on the CPU: whole networks, and every operator of a list.

    python benchmarks/format_halves.py [--rounds 9] [--only networks,operators] [--name TEXT ...] [--check] [--json]

networks   ResNet-18, MobileNetV2, a text encoder, a step of a decoder: halves over our own float32, and float16 over
           onnxruntime's float16.  The goals are 1.1 and 0.9.
operators  programs of one call, of tensors of a typical size: halves over float32.  The goal is that no ratio is above 1.5.

All take one thread.  A time is processor time; the contestants of a row are timed in turn, and a ratio is the median over the
rounds, of samples that are neighbours in time.  Results are compared with those of float32 first.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("RELAYVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when the libraries load

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
from half_networks import NETWORKS, of_halves, words
from half_operators import OPERATORS

import relayvm as relay

Run = Callable[[], object]
HALVES = ("float16", "bfloat16")
#: The goals: over float32 of a network and of an operator, over onnxruntime's float16.
NETWORK, OPERATOR, PEER = 1.1, 1.5, 0.9
#: The least processor time of a sample, in seconds.
SAMPLE = 0.05


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="samples of each contestant")
    parser.add_argument("--only", default="networks,operators", help="groups, separated by commas")
    parser.add_argument("--name", action="append", default=[], metavar="TEXT", help="only rows whose name has TEXT")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    given = parser.parse_args()
    rows, missed = {}, False
    groups = {"networks": networks, "operators": operators}
    for group in given.only.split(","):
        for name, runs, peer in groups[group](given.name):
            times = timed(runs, given.rounds)
            row = {"float32, us": 1e6 * min(times["float32"])}
            goals = {"of float32": NETWORK if group == "networks" else OPERATOR, "of onnxruntime": PEER}
            for half in HALVES:
                row[f"{half} of float32"] = ratio(times[half], times["float32"])
            if peer:
                row["float16 of onnxruntime"] = ratio(times["float16"], times[peer])
            rows[name] = row
            over = {k for k, v in row.items() for end, goal in goals.items() if k.endswith(end) and v > goal}
            missed = missed or bool(over)
            if not given.json:
                print(f"{name:40}", *(f"{k} {v:.2f}{'!' if k in over else ' '}" for k, v in row.items()), sep="  ", flush=True)
    if given.json:
        print(json.dumps(rows, indent=1))
    return int(given.check and missed)


def timed(runs: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Processor times of a run, by contestant and round."""
    counts = {}
    for name, run in runs.items():
        run(), run()
        began = time.process_time()
        run()
        counts[name] = max(1, round(SAMPLE / max(time.process_time() - began, 1e-6)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in (*runs,)[:: 1 if number % 2 else -1]:
            began = time.process_time()
            for _ in range(counts[name]):
                runs[name]()
            times[name].append((time.process_time() - began) / counts[name])
    return times


def ratio(ours: list[float], theirs: list[float]) -> float:
    """The median of ratios of neighbours in time."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))


def compare(name: str, found: list[np.ndarray], want: list[np.ndarray], dtype: str) -> None:
    """Exit if results are not those of float32, apart from roundings."""
    unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    for a, b in zip(found, want, strict=True):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
        if a.shape != b.shape or not apart.max(initial=0) <= 60 * unit * max(np.abs(b).max(initial=0), 1):
            sys.exit(f"{name}, {dtype}: {apart.max()} from float32")


def results_of(found: object) -> list[np.ndarray]:
    """The results of a machine."""
    return [r.numpy() for r in (found if isinstance(found, (tuple, list)) else (found,))]  # type: ignore[attr-defined]


# ---- networks ----------------------------------------------------------------------------------------------------------------


def networks(wanted: list[str]) -> Iterator[tuple[str, dict[str, Run], str]]:
    """The contestants of each network."""
    for name, (build, arguments_of) in NETWORKS.items():
        if wanted and not any(text in name for text in wanted):
            continue
        model, arguments = build(), arguments_of(np.random.default_rng(2))
        runs: dict[str, Run] = {}
        for dtype in ("float32", *HALVES):
            made = model if dtype == "float32" else of_halves(model, dtype)
            mod, params = relay.frontend.from_onnx(made)
            vm = relay.VirtualMachine(relay.compile(mod, params=params, target="cpu"))
            xs = [words(x, dtype) if x.dtype == np.float32 and dtype != "float32" else x for x in arguments]
            runs[dtype] = lambda vm=vm, xs=xs: vm.run(*xs)  # type: ignore[misc]
            want = results_of(runs["float32"]())
            compare(name, results_of(runs[dtype]()), want, dtype)
        peer = onnxruntime_run(of_halves(model, "float16"), arguments)
        if peer is not None:
            runs["onnxruntime"] = peer
        yield name, runs, "onnxruntime" if peer else ""


def onnxruntime_run(model: bytes, arguments: list[np.ndarray]) -> Run | None:
    """A run of onnxruntime in one thread; None if it lacks a kernel of the model's dtypes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # a class of its own for each reason
        print(f"onnxruntime refuses float16: {str(error)[:100]}", file=sys.stderr)
        return None
    xs = [words(x, "float16") if x.dtype == np.float32 else x for x in arguments]
    given = dict(zip((i.name for i in session.get_inputs()), xs, strict=True))
    return lambda: session.run(None, given)


# ---- operators ---------------------------------------------------------------------------------------------------------------


def operators(wanted: list[str]) -> Iterator[tuple[str, dict[str, Run], str]]:
    """The contestants of each operator."""
    for operator in OPERATORS:
        if wanted and not any(text in operator.name for text in wanted):
            continue
        runs: dict[str, Run] = {}
        for dtype in ("float32", *HALVES):
            program, arguments = operator.program(dtype)
            vm = relay.VirtualMachine(relay.compile(program, target="cpu"))
            runs[dtype] = lambda vm=vm, xs=arguments: vm.run(*xs)  # type: ignore[misc]
            compare(operator.name, results_of(runs[dtype]()), results_of(runs["float32"]()), dtype)
        yield operator.name, runs, ""


if __name__ == "__main__":
    sys.exit(main())
