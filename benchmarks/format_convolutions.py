"""Convolutions of bytes: the CPU time of layers and of networks in QOperator form, beside onnxruntime and our own float32.

    python benchmarks/format_convolutions.py [--only PART ...] [--rounds 15]

One thread.  The runs of a row are interleaved; the figures are medians in microseconds.  Networks are quantised by
``onnxruntime.quantization.quantize_static``, with weights for each channel and random data for calibration.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from convolutions import Convolution, convolution, mobilenet_v2
from onnx_graph import Graph
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from vision_networks import resnet18

#: The time of a measurement of one runner, in seconds, and the names of runners.
LEAST_SECONDS = 0.02
IMAGE = (1, 3, 224, 224)
OURS, PEER, FLOATS = "int8", "onnxruntime int8", "float32"
LAYERS = (
    Convolution("resnet", 64, 64, 56, 3),
    Convolution("resnet", 256, 256, 14, 3),
    Convolution("resnet", 512, 512, 7, 3),
    Convolution("resnet", 64, 256, 56),
    Convolution("resnet", 256, 64, 14),
    Convolution("resnet", 3, 64, 224, 7, 2),
    Convolution("mobilenet", 96, 96, 56, 3, 1, 96),
    Convolution("mobilenet", 384, 384, 14, 3, 1, 384),
    Convolution("mobilenet", 960, 960, 7, 3, 1, 960),
    Convolution("mobilenet", 96, 96, 112, 3, 2, 96),
)
NETWORKS: dict[str, Callable[[], bytes]] = {"resnet18": resnet18, "mobilenet_v2": mobilenet_v2}


def quantised_layer(given: Convolution) -> bytes:
    """A QLinearConv of the sizes of a convolution, with a bias and scales for each channel."""
    g, rng = Graph(), np.random.default_rng(0)
    shape = given.outputs, given.inputs // given.groups, given.kernel, given.kernel
    weight, bias = rng.integers(-127, 128, shape).astype(np.int8), rng.integers(-999, 999, given.outputs).astype(np.int32)
    scales = rng.uniform(0.001, 0.003, given.outputs).astype(np.float32)
    scale, zero_point = np.float32(0.02), np.uint8(120)
    zeros = np.zeros(given.outputs, np.int8)
    inputs = scale, zero_point, weight, scales, zeros, np.float32(0.1), np.uint8(3), bias
    given_inputs = ["x", *(g.weight(np.asarray(v)) for v in inputs)]
    attributes: dict[str, object] = {"group": given.groups, "strides": [given.stride] * 2, "pads": [given.kernel // 2] * 4}
    result = g.node("QLinearConv", *given_inputs, **attributes)
    model = onnx.load_from_string(g.model(onnx.TensorProto.UINT8, shape_of(given), result))
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    return model.SerializeToString()


def shape_of(given: Convolution) -> tuple[int, ...]:
    """The shape of the data of a convolution."""
    return 1, given.inputs, given.rows, given.rows


class RandomImages(CalibrationDataReader):
    """A few random pictures for the calibration of a network."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.images = iter([{"x": rng.standard_normal(IMAGE).astype(np.float32)} for _ in range(2)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next picture."""
        return next(self.images, None)


def quantised_network(model: bytes, folder: Path) -> bytes:
    """A network in QOperator form."""
    source, target = folder / "floats.onnx", folder / "bytes.onnx"
    source.write_bytes(model)
    form = {"quant_format": QuantFormat.QOperator, "per_channel": True}  # onnxruntime is slow for data with a sign
    quantize_static(source, target, RandomImages(), activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, **form)
    return target.read_bytes()


def runners(quantised: bytes, floats: bytes, shape: tuple[int, ...]) -> dict[str, Callable[[], object]]:
    """The functions that run a model, by name."""
    import relayvm as relay

    made: dict[str, Callable[[], object]] = {}
    options, rng = onnxruntime.SessionOptions(), np.random.default_rng(2)
    options.intra_op_num_threads = 1
    for name, model in ((OURS, quantised), (FLOATS, floats)):
        (given,) = onnx.load_from_string(model).graph.input
        is_bytes = given.type.tensor_type.elem_type == onnx.TensorProto.UINT8
        x = rng.integers(0, 256, shape).astype(np.uint8) if is_bytes else rng.standard_normal(shape).astype(np.float32)
        if name == OURS:
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            feeds = {given.name: x}
            made[PEER] = lambda session=session, feeds=feeds: session.run(None, feeds)  # type: ignore[misc]
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            Path(file.name).write_bytes(model)
            machine = relay.VirtualMachine(relay.compile(relay.frontend.from_onnx(file.name)[0]))
        made[name] = lambda machine=machine, x=x: machine.run(x)  # type: ignore[misc]
    return made


def measure(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The medians of the CPU times of a run, in microseconds."""
    counts, times = dict.fromkeys(runs, 1), {name: list[float]() for name in runs}
    for name, run in runs.items():
        run()
        begin = time.process_time()
        run()
        counts[name] = max(1, int(LEAST_SECONDS / max(time.process_time() - begin, 1e-6)))
    for _ in range(rounds):
        for name, run in runs.items():
            begin = time.process_time()
            for _ in range(counts[name]):
                run()
            times[name].append((time.process_time() - begin) / counts[name] * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def subjects(folder: Path) -> Iterator[tuple[str, tuple[int, ...], Callable[[], tuple[bytes, bytes]]]]:
    """The names of rows, each with the shape of its data and a function that makes its models: of bytes and of floats."""
    for layer in LAYERS:
        yield layer.name, shape_of(layer), lambda layer=layer: (quantised_layer(layer), convolution(layer))  # type: ignore[misc]
    for name, build in NETWORKS.items():

        def both(build: Callable[[], bytes] = build) -> tuple[bytes, bytes]:
            floats = build()
            return quantised_network(floats, folder), floats

        yield name, IMAGE, both


def main() -> None:
    """Print a row for each subject."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of names of rows")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    from relayvm.vm.thread_count import set_num_threads

    set_num_threads(1)
    print(f"{'':32}{OURS:>10}{PEER:>18}{FLOATS:>10}{'of peer':>9}{'of floats':>11}")
    with tempfile.TemporaryDirectory() as folder:
        for name, shape, models in subjects(Path(folder)):
            if any(part in name for part in given.only):
                t = measure(runners(*models(), shape), given.rounds)
                ratios = f"{t[OURS] / t[PEER]:9.2f}{t[OURS] / t[FLOATS]:11.2f}"
                print(f"{name:32}{t[OURS]:10.0f}{t[PEER]:18.0f}{t[FLOATS]:10.0f}{ratios}", flush=True)


if __name__ == "__main__":
    main()
