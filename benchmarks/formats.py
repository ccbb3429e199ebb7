"""Numbers of 8 bits and fewer beside float32 and onnxruntime: one thread, CPU time.

    python benchmarks/formats.py [products] [dynamic] [--rows 1 33] [--rounds 9] [--json]

`products`: MatMulInteger and DynamicQuantizeMatMul of some rows by weights of some sizes.  `dynamic`: an encoder of texts whose
weights `onnxruntime.quantization.quantize_dynamic` makes bytes.  Each line has the time of relayvm, that of onnxruntime on the
same model, that of relayvm on the model in float32, and the two ratios.  All three are timed in turn; a time is the median of
the rounds.  A subject is a function that makes cases, listed in SUBJECTS.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from encoder import Size, encoder
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import relayvm as relay

#: Inner sizes and columns of the weights of products, and rows of the data.
WEIGHTS, ROWS = ((384, 1536), (1536, 384), (768, 3072), (1024, 1024)), (1, 7, 33, 100, 384)
#: The encoder of `dynamic`, and the words of its texts.
ENCODER, WORDS = Size(layers=6, features=384, heads=6, inner=1536, vocabulary=1000), (16, 100, 384)
#: The shortest sample, in seconds.
SAMPLE = 0.004


@dataclass(frozen=True)
class Case:
    """A model in a narrow format, the same in float32, and the inputs of a run of each."""

    name: str
    narrow: bytes
    real: bytes
    inputs: Mapping[str, np.ndarray]
    real_inputs: Mapping[str, np.ndarray]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, list[Any]]],
    weights: Mapping[str, Any],
    dtype: int = onnx.TensorProto.FLOAT,
) -> bytes:
    """The model whose result, of type ``dtype``, is the first of the last node; inputs by name, with type and shape."""
    given = [helper.make_tensor_value_info(name, *declared) for name, declared in inputs.items()]
    result = helper.make_tensor_value_info(nodes[-1].output[0], dtype, None)
    stored = [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", given, [result], stored)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def products(rows: Sequence[int]) -> Iterator[Case]:
    """Products of bytes, and of floats that are quantised at run time, by constant weights of signed bytes."""
    rng, floats, words = np.random.default_rng(0), onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
    for inner, columns in WEIGHTS:
        weight = rng.integers(-128, 128, (inner, columns)).astype(np.int8)
        scale, bias = rng.random(columns, np.float32), rng.standard_normal(columns).astype(np.float32)
        real = model(
            [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])],
            {"x": (floats, ["rows", inner])},
            {"w": weight.astype(np.float32) * np.float32(0.01), "b": bias},
        )
        whole = model(
            [helper.make_node("MatMulInteger", ["x", "w", "z"], ["y"])],
            {"x": (words, ["rows", inner]), "z": (words, [])},
            {"w": weight},
            onnx.TensorProto.INT32,
        )
        dynamic = model(
            [helper.make_node("DynamicQuantizeMatMul", ["x", "w", "s", "", "b"], ["y"], domain="com.microsoft")],
            {"x": (floats, ["rows", inner])},
            {"w": weight, "s": scale, "b": bias},
        )
        for count in rows:
            x = {"x": rng.standard_normal((count, inner)).astype(np.float32)}
            given = {"x": rng.integers(0, 256, (count, inner)).astype(np.uint8), "z": np.array(7, np.uint8)}
            yield Case(f"{inner}x{columns} integers, rows {count}", whole, real, given, x)
            yield Case(f"{inner}x{columns} dynamic, rows {count}", dynamic, real, x, x)


def dynamic_encoder(rows: Sequence[int]) -> Iterator[Case]:
    """The encoder with weights of signed bytes, quantised at run time; ``rows``: words of a text."""
    real = encoder(ENCODER)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "real.onnx"), Path(folder, "bytes.onnx")
        source.write_bytes(real)
        quantize_dynamic(source, target, weight_type=QuantType.QInt8)
        narrow = target.read_bytes()
    for words in rows:
        given = {"x": np.random.default_rng(words).integers(0, ENCODER.vocabulary, (ENCODER.batch, words))}
        yield Case(f"encoder, words {words}", narrow, real, given, given)


#: The subjects by name, with the rows of their cases.
SUBJECTS: dict[str, tuple[Callable[[Sequence[int]], Iterator[Case]], Sequence[int]]] = {
    "products": (products, ROWS),
    "dynamic": (dynamic_encoder, WORDS),
}


def ours(source: bytes, inputs: Mapping[str, np.ndarray]) -> Callable[[], Any]:
    """A run of a model by relayvm."""
    mod, params = relay.frontend.from_onnx(source)
    vm = relay.VirtualMachine(relay.compile(mod, params=params))
    return lambda: vm.run(*inputs.values())


def theirs(source: bytes, inputs: Mapping[str, np.ndarray]) -> Callable[[], Any]:
    """A run of a model by onnxruntime, its inputs and its result bound."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    binding, values = session.io_binding(), session.run(None, dict(inputs))
    for name, value in inputs.items():
        binding.bind_cpu_input(name, value)
    held = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in values]
    for result, value in zip(session.get_outputs(), held, strict=True):
        binding.bind_ortvalue_output(result.name, value)
    return lambda: session.run_with_iobinding(binding)


def times(runs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The CPU time of each run in seconds: medians of rounds, in which the runs take turns."""
    counts = {}
    for name, run in runs.items():
        run()
        start, count = time.process_time(), 0
        while time.process_time() - start < SAMPLE:
            run()
            count += 1
        counts[name] = count
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time()
            for _ in range(counts[name]):
                run()
            samples[name].append((time.process_time() - start) / counts[name])
    return {name: statistics.median(found) for name, found in samples.items()}


def measured(case: Case, rounds: int) -> dict[str, Any]:
    """A line of the table: times in microseconds, and ratios."""
    runs = {
        "relayvm": ours(case.narrow, case.inputs),
        "onnxruntime": theirs(case.narrow, case.inputs),
        "float32": ours(case.real, case.real_inputs),
    }
    found = times(runs, rounds)
    line: dict[str, Any] = {"case": case.name, **{name: round(1e6 * seconds, 1) for name, seconds in found.items()}}
    return line | {f"of {name}": round(found["relayvm"] / found[name], 2) for name in ("onnxruntime", "float32")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", default=[*SUBJECTS])
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    relay.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in given.subjects:
        cases, rows = SUBJECTS[name]
        for case in cases(given.rows or rows):
            line = measured(case, given.rounds)
            print(
                json.dumps(line) if given.json else "  ".join(f"{k} {v}" if k != "case" else f"{v:36}" for k, v in line.items()),
                flush=True,
            )


if __name__ == "__main__":
    main()
