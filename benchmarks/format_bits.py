"""Time of products with weights of few bits: relayvm, onnxruntime at its accuracy levels, and the product in float32.

    pip install 'relayvm[bench,onnx]'
    python benchmarks/format_bits.py [--sizes 1024,4096] [--rows 1,32] [--bits 4] [--block 32] [--zeros] [--rounds 15] [--json]

Each subject is the node MatMulNBits with a square weight and random numbers; --zeros: with a zero point for each block.  All
contestants are visited in turns on one thread.  The medians of processor time are shown, in microseconds.

level 0, 4   accuracy levels of the node: float32, and data rounded to int8; of relayvm and of onnxruntime
float32      relayvm's product with a weight of float32 of the same size
read         numpy's maximum of as many bytes as the packed weight and its scales have, from memory that no cache of a core holds
cached       the same of the same bytes each time: from the caches, if they fit there
empty        a call of relayvm that computes 16 elements
error        the largest difference from float64, over the sum of the absolute products
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("RELAYVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when the libraries load

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay

#: float32, and data rounded to int8.
LEVELS = (0, 4)
#: Bytes that the caches of a core do not hold.
BEYOND_CACHES = 2**28
RELU = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n,), float32]) { nn.relu(%x) }'


def model(size: int, bits: int, block: int, level: int, stored: dict[str, np.ndarray]) -> Any:
    """The model of one node MatMulNBits."""
    node = helper.make_node(
        "MatMulNBits",
        ["A", *stored],
        ["Y"],
        domain="com.microsoft",
        K=size,
        N=size,
        bits=bits,
        block_size=block,
        accuracy_level=level,
    )
    infos = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", size])] for n in ("A", "Y")]
    graph = helper.make_graph([node], "product", *infos, [numpy_helper.from_array(a, n) for n, a in stored.items()])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def machine(model: Any) -> relay.VirtualMachine:
    mod, params = relay.frontend.from_onnx(model)
    return relay.VirtualMachine(relay.compile(mod, params=params))


def session(model: Any) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def product_of_float32(weight: np.ndarray) -> relay.VirtualMachine:
    size = len(weight)
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, {size}), float32], %w: Tensor[({size}, {size}), float32])'
    mod = relay.parse(f"{text} {{ nn.dense(%x, %w) }}")
    return relay.VirtualMachine(relay.compile(mod, params={"w": weight}))


def empty_call() -> Callable[[], object]:
    """A call whose time is that of any call."""
    vm, x = relay.VirtualMachine(relay.compile(RELU)), np.ones(16, np.float32)
    return lambda: vm.run(x)


class Reading:
    """Numpy's maximum of some words of an array, in each call of the next ones."""

    def __init__(self, array: np.ndarray, words: int) -> None:
        self.parts = [array[at : at + words] for at in range(0, len(array) - words + 1, words)]
        self.number = 0

    def __call__(self) -> object:
        self.number = (self.number + 1) % len(self.parts)
        return self.parts[self.number].max()


def medians(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Microseconds of processor time of each, visited in turns."""
    times: dict[str, list[int]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            run()  # the caches have what this contestant leaves there
            begin = time.process_time_ns()
            run()
            times[name].append(time.process_time_ns() - begin)
    return {name: statistics.median(taken) / 1000 for name, taken in times.items()}


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """The numbers in the bytes of the last axis, the lowest bits first."""
    numbers = packed[..., None] >> np.arange(0, 8, bits, dtype=np.uint8) & (2**bits - 1)
    return numbers.reshape(*packed.shape[:-1], -1)


def subjects(size: int, rows: list[int], bits: int, block: int, rounds: int, has_zeros: bool = False) -> list[dict[str, Any]]:
    """The rows of the table for a size."""
    rng = np.random.default_rng(size)
    numbers = rng.integers(0, 256, (size, size // block, block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.001, 0.01, (size, size // block)).astype(np.float32)
    stored = {"B": numbers, "S": scales}
    points: np.ndarray | float = 2.0 ** (bits - 1)
    if has_zeros:
        stored["Z"] = rng.integers(0, 256, (size, -(-size // block * bits // 8))).astype(np.uint8)
        points = _unpacked(stored["Z"], bits)[:, : size // block, None]
    whole = _unpacked(numbers, bits).reshape(size, size // block, block).astype(np.float32) - points
    weight = (whole * scales[..., None]).astype(np.float32).reshape(size, size)
    models = {level: model(size, bits, block, level, stored) for level in LEVELS}
    ours, theirs = ({level: make(m) for level, m in models.items()} for make in (machine, session))
    plain, empty, words = product_of_float32(weight), empty_call(), sum(a.nbytes for a in stored.values()) // 8
    read, cached = Reading(np.ones(BEYOND_CACHES // 8, np.int64), words), Reading(np.ones(words, np.int64), words)
    found = []
    for m in rows:
        x = rng.standard_normal((m, size)).astype(np.float32)
        runs: dict[str, Callable[[], Any]] = {}
        for level in LEVELS:
            runs[f"relayvm {level}"] = lambda level=level, x=x: ours[level].run(x)
            runs[f"onnxruntime {level}"] = lambda level=level, x=x: theirs[level].run(None, {"A": x})[0]
        results = {name: np.asarray(run()) for name, run in runs.items()}
        runs |= {"float32": lambda x=x: plain.run(x), "read": read, "cached": cached, "empty": empty}
        some = slice(0, min(m, 8))
        wanted, sums = x[some].astype(np.float64) @ weight.T, np.abs(x[some]).astype(np.float64) @ np.abs(weight.T)
        errors = {name: float((np.abs(y[some] - wanted) / sums).max()) for name, y in results.items()}
        found.append({"size": size, "rows": m, "bits": bits, "block": block, "us": medians(runs, rounds), "error": errors})
    return found


def line(subject: dict[str, Any]) -> str:
    us, error = subject["us"], subject["error"]
    best = min(us[f"onnxruntime {level}"] for level in LEVELS)
    each = " ".join(f"{name} {taken:.0f}" for name, taken in us.items())
    ratios = []
    for level in LEVELS:
        mine, theirs, wrong = us[f"relayvm {level}"], us[f"onnxruntime {level}"], error[f"relayvm {level}"]
        ratios.append(f"level {level}: {mine / theirs:.2f} of theirs, {mine / best:.2f} of their best, error {wrong:.0e}")
    reading = f"read / relayvm 0: {us['read'] / us['relayvm 0']:.2f}"
    return f"{subject['size']} rows {subject['rows']}: {each} | {'; '.join([*ratios, reading])}"


def main() -> None:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=numbers, default=[1024, 2048, 4096, 8192])
    parser.add_argument("--rows", type=numbers, default=[1, 8, 32, 512])
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--zeros", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for size in given.sizes:
        for subject in subjects(size, given.rows, given.bits, given.block, given.rounds, given.zeros):
            print(json.dumps(subject) if given.json else line(subject), flush=True)


if __name__ == "__main__":
    main()
