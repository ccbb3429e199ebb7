"""An encoder with one thread and with several, on free cores and on cores that other processes use, beside onnxruntime.

    pip install 'relayvm[bench]'
    python benchmarks/busy_cores.py [--threads 2] [--busy 2] [--rounds 31] [--texts 1] [--words 32] [--most-times 1.3]

The encoder of ``examples/transformer_encoder.py`` has 12 layers here.  All sides run in turn, call by call, with a
wait before each call until the threads of the previous one sleep.  ``--busy`` processes that only compute are started for
the second table.  Exit code 1: in that table the median with several threads is more than ``--most-times`` the median with one
thread.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.pop(_threads, None)  # as a user has it

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from other_work import busy, wait_for_idle_threads

import relayvm as relay
from relayvm.ops.native.threads import team
from relayvm.vm.report.interleaved import in_turn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

import transformer_encoder as encoder

Run = Callable[[], np.ndarray]


# ---- the sides ---------------------------------------------------------------------------------------------------------


def ours(words: np.ndarray, weights: encoder.Inputs, n: int) -> Run:
    """The machine, with ``n`` threads."""
    text = (ROOT / "examples" / "transformer_encoder.relay").read_text()
    vm = relay.VirtualMachine(relay.compile(relay.parse(text), params=weights))

    def run() -> np.ndarray:
        team.set_threads(n)
        return np.asarray(vm.run(words=words).numpy())

    return run


def onnx_model(weights: encoder.Inputs) -> bytes:
    """The same encoder as an ONNX model."""
    nodes, heads, each = [], encoder.HEADS, encoder.WIDTH // encoder.HEADS
    constants = {name: numpy_helper.from_array(value, name) for name, value in weights.items()}
    count = 0

    def constant(name: str, value: np.ndarray) -> str:
        constants.setdefault(name, numpy_helper.from_array(value, name))
        return name

    def call(op: str, *inputs: str, **attributes: object) -> str:
        nonlocal count
        count += 1
        nodes.append(helper.make_node(op, list(inputs), [f"v{count}"], **attributes))
        return f"v{count}"

    def dense(x: str, w: str, b: str) -> str:
        return call("Add", call("MatMul", x, constant(f"{w}^T", weights[w].T.copy())), b)

    split, whole = constant("split", np.array([0, 0, heads, each])), constant("whole", np.array([0, 0, encoder.WIDTH]))
    scale = constant("scale", np.float32(1 / np.sqrt(each)))
    half, one, root = (constant(f"f{v}", np.float32(v)) for v in (0.5, 1.0, 0.70710678))
    length = call("Shape", "words", start=1, end=2)
    positions = call("Slice", "places", constant("zero", np.array([0])), length)
    x = call("Add", call("Gather", "meanings", "words"), positions)
    for k in range(encoder.LAYERS):
        q, keys, v = (call("Reshape", dense(x, f"w{c}{k}", f"b{c}{k}"), split) for c in "qkv")
        seen = call("MatMul", call("Transpose", q, perm=[0, 2, 1, 3]), call("Transpose", keys, perm=[0, 2, 3, 1]))
        found = call("MatMul", call("Softmax", call("Mul", seen, scale), axis=-1), call("Transpose", v, perm=[0, 2, 1, 3]))
        told = dense(call("Reshape", call("Transpose", found, perm=[0, 2, 1, 3]), whole), f"wo{k}", f"bo{k}")
        y = call("LayerNormalization", call("Add", told, x), f"g1_{k}", f"c1_{k}", axis=-1, epsilon=1e-5)
        h = dense(y, f"w1_{k}", f"b1_{k}")
        h = call("Mul", call("Mul", h, half), call("Add", call("Erf", call("Mul", h, root)), one))
        x = call(
            "LayerNormalization", call("Add", dense(h, f"w2_{k}", f"b2_{k}"), y), f"g2_{k}", f"c2_{k}", axis=-1, epsilon=1e-5
        )
    nodes.append(helper.make_node("Identity", [x], ["result"]))
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("words", TensorProto.INT32, ["texts", "length"])],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, ["texts", "length", encoder.WIDTH])],
        list(constants.values()),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def theirs(words: np.ndarray, model: bytes, n: int) -> Run:
    """onnxruntime with ``n`` threads, else as it comes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = n, 1, 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: np.asarray(session.run(None, {"words": words})[0])


# ---- the tables --------------------------------------------------------------------------------------------------------


def timed(sides: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each call, all sides in turn: A B C, C B A, ..."""
    took: dict[str, list[float]] = {name: [] for name in sides}
    for name in in_turn(sides, rounds):
        wait_for_idle_threads()
        began = time.perf_counter()
        sides[name]()
        took[name].append((time.perf_counter() - began) * 1e3)
    return took


def table(title: str, took: dict[str, list[float]]) -> None:
    print(f"\n{title}, ms\n{'':<26}{'median':>9}{'least':>9}{'most':>9}")
    for name, times in took.items():
        print(f"{name:<26}{statistics.median(times):>9.2f}{min(times):>9.2f}{max(times):>9.2f}")


@click.command(help=__doc__)
@click.option("--threads", "n", default=2)
@click.option("--busy", "n_busy", default=2)
@click.option("--rounds", default=31)
@click.option("--texts", default=1)
@click.option("--words", "length", default=32)
@click.option("--most-times", default=1.3)
def main(n: int, n_busy: int, rounds: int, texts: int, length: int, most_times: float) -> None:
    relay.set_num_threads(n)
    words, weights = encoder.words(texts, length), encoder.weights()
    model = onnx_model(weights)
    one, several = "relayvm, 1 thread", f"relayvm, {n} threads"
    sides = {
        one: ours(words, weights, 1),
        several: ours(words, weights, n),
        "onnxruntime, 1 thread": theirs(words, model, 1),
        f"onnxruntime, {n} threads": theirs(words, model, n),
    }
    results = {name: run() for name, run in sides.items()}
    for name, result in results.items():
        np.testing.assert_allclose(result, results[one], rtol=0, atol=encoder.NEAR, err_msg=name)
    print(f"encoder of {encoder.LAYERS} layers, {texts} texts of {length} words; {os.cpu_count()} cores")
    table("free cores", timed(sides, rounds))
    with busy(n_busy):
        took = timed(sides, rounds)
    table(f"cores with {n_busy} busy processes", took)
    times = statistics.median(took[several]) / statistics.median(took[one])
    print(f"\n{several}: {times:.2f} times 1 thread, where {most_times} is allowed")
    sys.exit(times > most_times)


if __name__ == "__main__":
    main()
