"""Cost of an operator, a call and a loop iteration besides the arithmetic: relayvm, numpy and onnxruntime.

    pip install 'relayvm[bench]'
    python benchmarks/dispatch.py [--rounds 15] [--json] [--profile]

All on one thread, 16 floats of shape (?,).  The graph optimisers are off on both sides: onnxruntime runs with
ORT_DISABLE_ALL, relayvm with fuse=off, so each operator is a kernel launch of its own.

op     200 elementwise operators in a row: (call with 201 operators - call with 1) / 200
call   one call with one operator, from a numpy array to a numpy array
loop   a loop that ends when a value says so, 1000 iterations of `i < limit` and `i + 1`: call / 1000

match, closure, cell   steps of programs over lists, see adt_steps.py

With --profile: the cost that counters and traces add to such calls, see profile_cost.py.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("RELAYVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when the libraries load

import argparse
import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import onnx
import onnxruntime
from adt_steps import steps
from onnx import TensorProto, helper
from profile_cost import report

import relayvm as relay
from relayvm.vm.report.interleaved import Timing, measure

SIZE, CHAIN, ITERATIONS = 16, 200, 1000
OURS, NUMPY, ORT = "relayvm", "numpy", "onnxruntime"
Run = Callable[[], object]

#: The chain: operators in turn, as (relayvm, numpy, ONNX, second operand or None).  The values stay near 1.
STEPS = (
    ("add", np.add, "Add", 0.25),
    ("multiply", np.multiply, "Mul", 0.8),
    ("nn.relu", lambda x: np.maximum(x, np.float32(0)), "Relu", None),
)


@dataclass(frozen=True)
class Goal:
    """A goal: the most nanoseconds for relayvm, and the least ratio of onnxruntime's time to relayvm's."""

    most_ns: float
    times_ahead: float | None


GOALS = {
    "op": Goal(60, 5), "call": Goal(2000, None), "loop": Goal(150, 6),
    "match": Goal(60, None), "closure": Goal(60, None), "cell": Goal(300, None),
}  # fmt: skip


# ---- relayvm ---------------------------------------------------------------------------------------------------


def machine(text: str) -> relay.VirtualMachine:
    return relay.VirtualMachine(relay.compile(relay.parse('#[version = "0.0.5"]\n' + text), target="cpu", fuse="off"))


def our_chain(count: int, x: np.ndarray) -> Run:
    """A call of ``count`` operators, each a launch of its own."""
    lines, last = [], "%x"
    for i in range(count):
        name, _, _, operand = STEPS[i % len(STEPS)]
        arguments = last if operand is None else f"{last}, {operand}f"
        last = f"%v{i}"
        lines.append(f"  let {last} = {name}({arguments});")
    vm = machine("def @main(%x: Tensor[(?), float32]) {\n" + "\n".join(lines) + f"\n  {last}\n}}")
    before = vm.counters["launches"]
    vm.run(x)
    launches = vm.counters["launches"] - before
    if launches != count:
        raise SystemExit(f"{count} operators made {launches} launches: they were not run one by one")
    return lambda: vm.run(x).numpy()


def our_loop(start: np.ndarray, limit: np.ndarray) -> Run:
    vm = machine(
        """
        def @count(%i: float32, %limit: float32) -> float32 {
          if (less(%i, %limit)) { @count(add(%i, 1f), %limit) } else { %i }
        }
        def @main(%i: float32, %limit: float32) -> float32 { @count(%i, %limit) }
        """
    )
    return lambda: vm.run(start, limit).numpy()


# ---- numpy -----------------------------------------------------------------------------------------------------


def numpy_chain(count: int, x: np.ndarray) -> Run:
    functions = [
        (step[1], () if step[3] is None else (np.float32(step[3]),)) for step in (STEPS[i % len(STEPS)] for i in range(count))
    ]

    def run() -> np.ndarray:
        value = x
        for function, operand in functions:
            value = function(value, *operand)
        return value

    return run


def numpy_loop(start: np.ndarray, limit: np.ndarray) -> Run:
    one = np.float32(1)

    def run() -> np.ndarray:
        i = start
        while np.less(i, limit):
            i = np.add(i, one)
        return i

    return run


# ---- onnxruntime -----------------------------------------------------------------------------------------------


def session(graph: onnx.GraphProto) -> onnxruntime.InferenceSession:
    """One thread, no graph optimisation."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def scalar(name: str, value: float) -> onnx.TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, [], [value])


def ort_chain(count: int, x: np.ndarray) -> Run:
    nodes, constants, last = [], {}, "x"
    for i in range(count):
        _, _, name, operand = STEPS[i % len(STEPS)]
        inputs = [last]
        if operand is not None:
            constants[name] = scalar(f"{name}_operand", operand)
            inputs.append(f"{name}_operand")
        last = f"v{i}"
        nodes.append(helper.make_node(name, inputs, [last]))
    vector = ["n"]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, vector)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, vector)],
        list(constants.values()),
    )
    run = session(graph).run
    return lambda: run(None, {"x": x})[0]


def ort_loop(start: np.ndarray, limit: np.ndarray) -> Run:
    def info(name: str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, kind, [])

    body = helper.make_graph(
        [helper.make_node("Add", ["i", "one"], ["next"]), helper.make_node("Less", ["next", "limit"], ["again"])],
        "body",
        [info("step", TensorProto.INT64), info("enter", TensorProto.BOOL), info("i")],
        [info("again", TensorProto.BOOL), info("next")],
        [scalar("one", 1.0)],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Less", ["start", "limit"], ["begin"]),
            helper.make_node("Loop", ["", "begin", "start"], ["end"], body=body),
        ],
        "loop",
        [info("start"), info("limit")],
        [info("end")],
    )
    run = session(graph).run
    return lambda: run(None, {"start": start, "limit": limit})[0]


# ---- measuring and showing -------------------------------------------------------------------------------------


def contests() -> dict[str, dict[str, Run]]:
    """The calls to time: by task, by contestant.  All contestants of a task give the same result, or there is no benchmark."""
    x = np.linspace(-2, 2, SIZE, dtype=np.float32)
    start, limit = np.array(0, np.float32), np.array(ITERATIONS, np.float32)
    chain = {OURS: our_chain, NUMPY: numpy_chain, ORT: ort_chain}
    tasks: dict[str, dict[str, Run]] = {
        "call": {name: make(1, x) for name, make in chain.items()},
        "chain": {name: make(CHAIN + 1, x) for name, make in chain.items()},
        "loop": {OURS: our_loop(start, limit), NUMPY: numpy_loop(start, limit), ORT: ort_loop(start, limit)},
    }
    for task, runs in tasks.items():
        want = runs[NUMPY]()
        for name, run in runs.items():
            if not np.allclose(run(), want, rtol=1e-5):
                raise SystemExit(f"{task}: {name} computes something else than numpy")
    return tasks


def results(rounds: int) -> dict[str, dict[str, Timing]]:
    """Nanoseconds per operator, call and iteration, by task and contestant."""
    calls = {task: measure(runs, rounds) for task, runs in contests().items()}
    per_op = {}
    for name, chain in calls["chain"].items():
        empty = calls["call"][name].median_ns  # one operator: the chain has one more than CHAIN
        times = (chain.median_ns, chain.min_ns, chain.max_ns, chain.low_ns, chain.high_ns)
        difference = (ns - empty for ns in times)
        per_op[name] = Timing(*difference, chain.samples, chain.calls_per_sample).per(CHAIN)
    loops = {name: timing.per(ITERATIONS) for name, timing in calls["loop"].items()}
    return {"op": per_op, "call": calls["call"], "loop": loops, **steps(rounds)}


def verdict(task: str, timings: dict[str, Timing]) -> tuple[str, bool]:
    """The goal of a task in words, and whether it is met by the medians."""
    goal, ours = GOALS[task], timings[OURS].median_ns
    ahead = timings[ORT].median_ns / ours if ORT in timings else 0.0
    words = f"goal: at most {goal.most_ns:g} ns" + (f", {goal.times_ahead:g}x ahead of {ORT}" if goal.times_ahead else "")
    return words, ours <= goal.most_ns and (goal.times_ahead is None or ahead >= goal.times_ahead)


def show(found: dict[str, dict[str, Timing]]) -> None:
    print(f"{'':8}{'':14}{'median ns':>12}{'min ns':>12}{'max ns':>12}{'times relayvm':>16}")
    for task, timings in found.items():
        for name, t in timings.items():
            ratio = t.median_ns / timings[OURS].median_ns
            print(f"{task:8}{name:14}{t.median_ns:>12.1f}{t.min_ns:>12.1f}{t.max_ns:>12.1f}{ratio:>15.1f}x")
        words, met = verdict(task, timings)
        print(f"{'':8}{words}: {'met' if met else 'NOT met'}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="samples of each contestant")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--profile", action="store_true", help="measure the cost of profiling instead")
    args = parser.parse_args()
    if args.profile:
        report(args.rounds, args.json)
        return 0
    found = results(args.rounds)
    if args.json:
        versions = {"python": platform.python_version(), "numpy": np.__version__, "onnxruntime": onnxruntime.__version__}
        rows = {task: {name: asdict(t) for name, t in timings.items()} for task, timings in found.items()}
        met = {task: verdict(task, timings)[1] for task, timings in found.items()}
        print(json.dumps({"machine": platform.processor() or platform.machine(), **versions, "ns": rows, "goal_met": met}))
    else:
        show(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
