"""Load on a server: requests of mixed sizes over REST, with this package and with onnxruntime behind the same server code.

    pip install 'relayvm[serve,bench]'
    python benchmarks/serving.py [--seconds 30] [--clients 1,8,64] [--models encoder,detection]

Texts have 1 to 256 words, pictures 0 to 8400 candidates.  Both sides run each request alone, without padding.  Both have a worker
for each core, with kernels of one thread, and are loaded in turn.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))
SIDES = ("relayvm", "onnxruntime")
LONGEST = {"encoder": 256, "detection": 8400}
#: Requests that the clients send in turn.
BODIES = 200


# ---- the servers ---------------------------------------------------------------------------------------------------------


def detection_model() -> bytes:
    """The detection tail as an ONNX model; suppression within a class by an offset of the boxes for each class."""
    from onnx import TensorProto, helper, numpy_helper

    values = {
        "zero": np.array([0]), "one": np.array([1]), "most": np.array([100]), "all": np.array(1 << 20), "far": np.float32(4096),
        "iou": np.float32(0.5), "score": np.float32(0.3), "last": np.array([2]), "end": np.array([3]), "flat": np.array([-1]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Sigmoid", ["logits"], ["scores"]),
        helper.make_node("ReduceMax", ["scores", "one"], ["best"], keepdims=0),
        helper.make_node("ArgMax", ["scores"], ["class"], axis=1, keepdims=1),
        helper.make_node("Cast", ["class"], ["class_f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["class_f", "far"], ["offset"]),
        helper.make_node("Add", ["boxes", "offset"], ["apart"]),
        helper.make_node("Unsqueeze", ["apart", "zero"], ["boxes3"]),
        helper.make_node("Unsqueeze", ["best", "zero"], ["best2"]),
        helper.make_node("Unsqueeze", ["best2", "zero"], ["best3"]),
        helper.make_node("NonMaxSuppression", ["boxes3", "best3", "all", "iou", "score"], ["kept"]),
        helper.make_node("Slice", ["kept", "zero", "most", "zero"], ["first"]),
        helper.make_node("Slice", ["first", "last", "end", "one"], ["column"]),
        helper.make_node("Reshape", ["column", "flat"], ["chosen"]),
        helper.make_node("Gather", ["boxes", "chosen"], ["out_boxes"]),
        helper.make_node("Gather", ["best", "chosen"], ["out_scores"]),
        helper.make_node("Gather", ["class", "chosen"], ["class2"]),
        helper.make_node("Reshape", ["class2", "flat"], ["class1"]),
        helper.make_node("Cast", ["class1"], ["out_class"], to=TensorProto.INT32),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", k]) for n, k in (("boxes", 4), ("logits", 80))]
    outputs = [
        helper.make_tensor_value_info("out_boxes", TensorProto.FLOAT, ["k", 4]),
        helper.make_tensor_value_info("out_scores", TensorProto.FLOAT, ["k"]),
        helper.make_tensor_value_info("out_class", TensorProto.INT32, ["k"]),
    ]
    constants = [numpy_helper.from_array(np.asarray(v), name) for name, v in values.items()]
    graph = helper.make_graph(nodes, "detection", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


class Session:
    """A session of onnxruntime in the place of a virtual machine."""

    def __init__(self, model: bytes) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._names = [i.name for i in self._session.get_inputs()]

    def run(self, *arguments: np.ndarray) -> Any:
        found = self._session.run(None, dict(zip(self._names, arguments, strict=True)))
        return tuple(found) if len(found) > 1 else found[0]

    def close(self) -> None:
        pass


def serve(side: str, name: str) -> None:
    """Serve a model by one side until SIGTERM."""
    import relayvm as relay
    from relayvm.serving.binding import Binding
    from relayvm.serving.pool import Pool
    from relayvm.serving.server import run

    relay.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        params: list[str] = []
        if name == "encoder":
            import transformer_encoder as encoder

            weights = encoder.weights()
            np.savez(Path(folder) / "weights.npz", **weights)
            params = [str(Path(folder) / "weights.npz")]
        if side == "onnxruntime":
            if name == "encoder":
                from busy_cores import onnx_model

                model = onnx_model(weights)
            else:
                model = detection_model()
            Pool._machine = lambda self: Session(model)  # type: ignore[method-assign, assignment, return-value]
        file = ROOT / "examples" / {"encoder": "transformer_encoder.relay", "detection": "detection_tail.relay"}[name]
        limits = relay.serving.Limits(workers=os.cpu_count() or 1, reload_ms=0)
        repository = relay.serving.load([f"model={file}"], limits=limits, params=params)
        run(repository, Binding(port=0, grpc_port=None), lambda found: print(found["rest"], flush=True))


# ---- the load ------------------------------------------------------------------------------------------------------------


def body(name: str, n: int) -> tuple[bytes, dict[str, str]]:
    """A request of size ``n`` with binary tensors, and its header."""
    if name == "encoder":
        arrays = {"words": np.random.default_rng(n).integers(0, 1000, (1, n), dtype="int32")}
    else:
        from detection_reference import candidates

        arrays = dict(zip(("boxes", "logits"), candidates(n), strict=True))
    datatype = {"int32": "INT32", "float32": "FP32"}
    inputs = [
        {"name": k, "datatype": datatype[a.dtype.name], "shape": a.shape, "parameters": {"binary_data_size": a.nbytes}}
        for k, a in arrays.items()
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    return head + b"".join(a.tobytes() for a in arrays.values()), {"Inference-Header-Content-Length": str(len(head))}


def load(address: str, bodies: list[tuple[bytes, dict[str, str]]], clients: int, seconds: float) -> np.ndarray:
    """The seconds of each answered request; every answer must be one."""
    times: list[float] = []
    end = time.perf_counter() + seconds

    def ask(first: int) -> None:
        connection = http.client.HTTPConnection(address)
        for i in range(first, 1 << 30):
            began = time.perf_counter()
            if began > end:
                return
            data, headers = bodies[i % len(bodies)]
            connection.request("POST", "/v2/models/model/infer", data, headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            times.append(time.perf_counter() - began)

    threads = [threading.Thread(target=ask, args=(k * 37,)) for k in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.array(times)


def resident(pid: int) -> int:
    """Megabytes of memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


@click.command(help=__doc__)
@click.option("--seconds", default=30.0)
@click.option("--clients", default="1,8,64")
@click.option("--models", default="encoder,detection")
@click.option("--serve", "served", nargs=2, hidden=True)
def main(seconds: float, clients: str, models: str, served: tuple[str, str] | None) -> None:
    if served is not None:
        serve(*served)
        return
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; times in ms")
    print(f"{'model':<11}{'side':<13}{'clients':>7}{'requests/s':>12}{'p50':>9}{'p99':>9}{'MB before':>11}{'MB after':>9}")
    for name in models.split(","):
        sizes = np.random.default_rng(0).integers(name == "encoder", LONGEST[name] + 1, BODIES)
        bodies = [body(name, int(n)) for n in sizes]
        processes = {}
        for side in SIDES:
            command = [sys.executable, __file__, "--serve", side, name]
            processes[side] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        addresses = {side: p.stdout.readline().strip().removeprefix("http://") for side, p in processes.items() if p.stdout}
        for address in addresses.values():
            load(address, bodies, 4, min(seconds, 5))
        for count in map(int, clients.split(",")):
            for side in SIDES:
                before = resident(processes[side].pid)
                times = load(addresses[side], bodies, count, seconds) * 1e3
                p50, p99 = np.percentile(times, [50, 99])
                figures = f"{len(times) / seconds:>12.1f}{p50:>9.1f}{p99:>9.1f}{before:>11}{resident(processes[side].pid):>9}"
                print(f"{name:<11}{side:<13}{count:>7}{figures}", flush=True)
        for process in processes.values():
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
