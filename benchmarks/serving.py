"""Load on a server: requests of mixed sizes over REST, with this package and with onnxruntime behind the same server code.

    pip install 'relayvm[serve,bench]'
    python benchmarks/serving.py [--seconds 30] [--clients 1,8,64] [--models encoder,detection]

Texts have 1 to 256 words, pictures 0 to 8400 candidates.  Both sides run each request alone, without padding.  Both have a
process for each core (with --processes 1: a worker for each core), with kernels of one thread, and are loaded in turn, slice by
slice.  The client shares the cores: its CPU time stands beside the server's.  The encoder of the other side is the model of
busy_cores.py; relayvm imports the same file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import numpy as np
from http_load import Load, Requests, load

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


def serve(side: str, name: str, processes: int) -> None:
    """Serve a model by one side until SIGTERM."""
    import relayvm as relay
    from relayvm.serving.binding import Binding
    from relayvm.serving.pool import Pool

    cores = os.cpu_count() or 1
    if processes == 1:
        relay.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        if name == "encoder":
            import transformer_encoder as encoder
            from busy_cores import onnx_model

            model = onnx_model(encoder.weights())
            file = Path(folder) / "encoder.onnx"
            file.write_bytes(model)
        else:
            model, file = detection_model(), ROOT / "examples" / "detection_tail.relay"
        if side == "onnxruntime":
            Pool._machine = lambda self: Session(model)  # type: ignore[method-assign, assignment, return-value]
        relay.serving.serve_repository(
            lambda limits: relay.serving.load([f"model={file}"], limits=limits),
            relay.serving.Limits(workers=max(1, cores // processes), reload_ms=0), processes,
            Binding(port=0, grpc_port=None), lambda found: print(found["rest"], flush=True),
        )  # fmt: skip


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


def request(name: str, n: int) -> bytes:
    """A whole request of size ``n``."""
    data, headers = body(name, n)
    lines = ["POST /v2/models/model/infer HTTP/1.1", "Host: a", f"Content-Length: {len(data)}"]
    return "\r\n".join([*lines, *(f"{k}: {v}" for k, v in headers.items()), "", ""]).encode() + data


def family(pid: int) -> list[int]:
    """A process and its children."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def resident(pid: int) -> int:
    """Megabytes of memory of a process and its children, shared pages divided among the processes that have them."""
    texts = [Path(f"/proc/{each}/smaps_rollup").read_text() for each in family(pid)]
    return sum(int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith("Pss:")) // 1024


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process and its children so far."""
    fields = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in family(pid)]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


class Server:
    """A server process of one side, and the sums of its slices."""

    def __init__(self, side: str, name: str, processes: int) -> None:
        command = [sys.executable, __file__, "--serve", side, name, "--processes", str(processes)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        host, _, port = self.process.stdout.readline().strip().removeprefix("http://").partition(":")
        self.side, self.address, self.found, self.cpu = side, (host, int(port)), Load(0), 0.0

    def load(self, requests: Requests, clients: int, seconds: float, first: int) -> None:
        """A slice of a measurement; every answer must be a good one."""
        before = cpu_seconds(self.process.pid)
        found = load(self.address, requests, clients, seconds, first)
        assert set(found.statuses) == {200}, found.statuses
        self.cpu += cpu_seconds(self.process.pid) - before
        self.found.seconds += found.seconds
        self.found.times += found.times
        self.found.cpu_seconds += found.cpu_seconds

    def row(self, name: str, clients: int) -> str:
        """The figures since the last row."""
        n, megabytes = len(self.found.times), resident(self.process.pid)
        p50, p99 = np.percentile(np.array(self.found.times) * 1e3, [50, 99])
        text = f"| {name} | {self.side} | {clients} | {n / self.found.seconds:.1f} | {p50:.1f} | {p99:.1f} "
        text += f"| {self.cpu / n * 1e3:.2f} | {self.found.cpu_seconds / n * 1e3:.2f} | {megabytes} |"
        self.found, self.cpu = Load(0), 0.0
        return text


HEAD = "| model | side | clients | requests/s | p50 ms | p99 ms | server CPU ms | client CPU ms | MB |\n|---|---|" + "--:|" * 7


@click.command(help=__doc__)
@click.option("--seconds", default=30.0, help="Seconds of each side and number of clients.")
@click.option("--slice", "part", default=5.0, help="Seconds of a side before the other one takes its turn.")
@click.option("--clients", default="1,8,64")
@click.option("--models", default="encoder,detection")
@click.option("--processes", default=os.cpu_count() or 1, help="Processes of each server.")
@click.option("--memory", default=0, help="Minutes of relayvm alone under 64 clients, with its memory each 20 seconds.")
@click.option("--serve", "served", nargs=2, hidden=True)
def main(
    seconds: float, part: float, clients: str, models: str, processes: int, memory: int, served: tuple[str, str] | None
) -> None:
    if served is not None:
        serve(*served, processes)
        return
    print(f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores before the run.\n\n{HEAD}")
    for name in models.split(","):
        sizes = np.random.default_rng(0).integers(name == "encoder", LONGEST[name] + 1, BODIES)
        requests = Requests([request(name, int(n)) for n in sizes])
        servers = [Server(side, name, processes) for side in SIDES]
        for each in servers:
            load(each.address, requests, 4, min(seconds, 5))
        for count in map(int, clients.split(",")):
            for turn in range(max(1, round(seconds / part))):
                for each in servers if turn % 2 == 0 else reversed(servers):
                    each.load(requests, count, min(part, seconds), turn * 11)
            for each in servers:
                print(each.row(name, count), flush=True)
        for turn in range(3 * memory):
            load(servers[0].address, requests, 64, 20, turn * 11)
            print(f"{name}: {resident(servers[0].process.pid)} MB after {(turn + 1) * 20} s", flush=True)
        for each in servers:
            each.process.terminate()
            each.process.wait()
        requests.close()


if __name__ == "__main__":
    main()
