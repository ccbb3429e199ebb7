"""Time from the start of a process to its result: with an empty cache of kernels, and later.

    python benchmarks/cold_start.py [--runs 5] [--device cpu] [--models FOLDER] [--only swin_t,...] [--json]

Each run is a fresh `relayvm run` of an example.  The first run has an empty cache of kernels; it compiles the machine's own code,
too, unless `relayvm cache install` did, as `make` does.  The other runs use its kernels and must compile nothing.  Python stores
its bytecode, as for a package that pip installed, even if the environment disables that.

With ``--models`` the networks NETWORKS are measured, too, by processor time: files of the folder that have their names.  Missing
files of torchvision's networks are exported where it is installed; other networks are named and left out.  A time is that of the
process and of its companions, from the start to the first result.  ``--peak`` compiles a model of products with 1.6 GB of weights
in a file, and shows the largest memory of a process that finds nothing in the cache, and of the next.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relayvm.ops.native.cache import installed_entries

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@dataclass(frozen=True)
class Subject:
    """A program, sizes for its named dimensions, and the limits of the first process: its time and its number of kernels."""

    name: str
    dims: tuple[str, ...]
    first_goal_s: float
    most_kernels: int


SUBJECTS = (
    Subject("detection_tail", ("n=2000",), 5.0, 40),
    Subject("transformer_encoder", ("b=1", "s=32"), 6.0, 40),  # 12 layers, which have the same kernels
)
#: The most seconds of the median of the later processes.
LATER_GOAL_S = 0.5

#: Networks with many kernels, by the name of their file, and the shapes of their inputs.
NETWORKS: dict[str, tuple[tuple[int, ...], ...]] = {
    "mobilenet_v2": ((1, 3, 224, 224),),
    "mobilenet_v2_qdq": ((1, 3, 224, 224),),  # by onnxruntime's quantize_static
    "efficientnet_b0": ((1, 3, 224, 224),),
    "swin_t": ((1, 3, 224, 224),),
    "segformer": ((1, 3, 128, 128),),  # transformers' default, with random weights
    "raft_small": ((1, 3, 128, 128),) * 2,
    "maskrcnn": ((3, 200, 240),),
}
#: A program that compiles and runs a model, and prints the number of kernels and the largest memory in bytes.
FIRST_RUN = """
import json, resource, sys
import numpy as np
import relayvm as relay
from relayvm.ops.native.compiled import kernel_store
vm = relay.VirtualMachine(relay.compile(sys.argv[1]))
numbers = np.random.default_rng(0)
vm.run(*(numbers.random(shape, np.float32) for shape in json.loads(sys.argv[2])))
status = open("/proc/self/status").read()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
print(json.dumps({"kernels": kernel_store.counters["compiles"], "peak_bytes": peak}))
"""


@dataclass(frozen=True)
class Start:
    """One process: wall seconds from its start to its end, and the number of kernels that it compiled."""

    wall_s: float
    kernel_compiles: int


def counter(document: object, name: str) -> int:
    """The value under ``name`` at any depth of a JSON document.  Raises KeyError without such a value."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if name in value:
                return int(value[name])
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    raise KeyError(name)


def start(cache: str, subject: Subject, device: str) -> Start:
    """Run the program in a process of its own.  Exits with the process's message when it fails."""
    sizes = [part for dim in subject.dims for part in ("--dim", dim)]
    program = str(EXAMPLES / f"{subject.name}.relay")
    command = [sys.executable, "-m", "relayvm", "run", program, *sizes, "--device", device, "--json"]
    environment = {**os.environ, "RELAYVM_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=EXAMPLES.parent)
    wall_s = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return Start(wall_s, counter(json.loads(done.stdout), "kernel_compiles"))


def measured(subject: Subject, device: str, runs: int) -> dict[str, Any]:
    """The figures of one program."""
    with tempfile.TemporaryDirectory(prefix="relayvm-cache-") as cache:
        first = start(cache, subject, device)
        later = [start(cache, subject, device) for _ in range(runs)]
    met = first.wall_s <= subject.first_goal_s and first.kernel_compiles <= subject.most_kernels
    met = met and statistics.median(s.wall_s for s in later) <= LATER_GOAL_S and not any(s.kernel_compiles for s in later)
    return {"first": asdict(first), "later": [asdict(s) for s in later], "goal_met": met}


def code_is_installed() -> bool:
    """Whether the installation has machine code, at all: code of other versions is not found."""
    return any(installed_entries.folder().glob("*/*"))


def show(subject: Subject, found: dict[str, Any]) -> None:
    print(f"{subject.name}, {', '.join(subject.dims)}")
    for words, s in [("first ever", found["first"]), *(("after that", s) for s in found["later"])]:
        print(f"  {words}: {s['wall_s']:6.2f} s, {s['kernel_compiles']} kernels compiled")
    goal = f"at most {subject.first_goal_s:g} s and {subject.most_kernels} kernels, then {LATER_GOAL_S:g} s and none"
    print(f"  goal: {goal}: {'met' if found['goal_met'] else 'NOT met'}")


def first_run(path: Path, shapes: tuple[tuple[int, ...], ...], cache: str) -> dict[str, Any]:
    """A process that compiles and runs a model: processor seconds, companions included, kernels, the largest memory."""
    environment = {**os.environ, "RELAYVM_CACHE_DIR": cache, "RELAYVM_CACHE_MAX_BYTES": str(16 << 30)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", FIRST_RUN, str(path), json.dumps(shapes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{path} ended with {done.returncode}:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"processor_s": seconds, **json.loads(done.stdout)}


def export_missing(folder: Path) -> None:
    """Export those networks that the folder lacks, and that the installed packages have."""
    try:
        import torch
        import torchvision
    except ImportError:
        return
    models, x = torchvision.models, torch.zeros(1, 3, 224, 224)
    makers: dict[str, Callable[[], tuple[Any, Any]]] = {
        "mobilenet_v2": lambda: (models.mobilenet_v2(), x),
        "efficientnet_b0": lambda: (models.efficientnet_b0(), x),
        "swin_t": lambda: (models.swin_t(), x),
        "raft_small": lambda: (models.optical_flow.raft_small(), (torch.rand(1, 3, 128, 128),) * 2),
    }
    for name, make in makers.items():
        path = folder / f"{name}.onnx"
        if not path.exists():
            torch.manual_seed(0)
            model, inputs = make()
            axes = {"x": {0: "n"}} if name != "raft_small" else None
            names = ["x"] if name != "raft_small" else ["x", "y"]
            torch.onnx.export(
                model.eval(), inputs, str(path), dynamo=False, opset_version=17, input_names=names, dynamic_axes=axes
            )


def write_products(folder: Path, layers: int = 24, width: int = 4096) -> Path:
    """A model of products in a row, whose weights are in a file: 1.6 GB."""
    from onnx import TensorProto, helper, save

    tensors, nodes, nbytes = [], [], width * width * 4
    with (folder / "weights.bin").open("wb") as file:
        for k in range(layers):
            file.write((np.random.default_rng(k).random((width, width), np.float32) / width).tobytes())
            tensor = TensorProto(name=f"w{k}", data_type=TensorProto.FLOAT, dims=[width] * 2, data_location=TensorProto.EXTERNAL)
            for key, value in {"location": "weights.bin", "offset": k * nbytes, "length": nbytes}.items():
                tensor.external_data.add(key=key, value=str(value))
            tensors.append(tensor)
            nodes.append(helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]))
    ends = [helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, ["b", width]) for k in (0, layers)]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], tensors)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "products.onnx")
    return folder / "products.onnx"


def largest_memory() -> dict[str, Any]:
    """The largest memory of a process that packs 1.6 GB of weights, and of the process that finds them packed."""
    with tempfile.TemporaryDirectory(prefix="relayvm-large-") as folder:
        path = write_products(Path(folder))
        runs = [first_run(path, ((2, 4096),), f"{folder}/cache") for _ in range(2)]
        return {"weights_bytes": path.with_name("weights.bin").stat().st_size, "first": runs[0], "second": runs[1]}


def measure_networks(folder: Path, only: set[str]) -> dict[str, Any]:
    """The first run of each network of the folder, with an empty cache."""
    export_missing(folder)
    found = {}
    for name, shapes in NETWORKS.items():
        path = folder / f"{name}.onnx"
        if only and name not in only:
            continue
        if not path.exists():
            print(f"{name}: there is no {path}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix="relayvm-cache-") as cache:
            found[name] = first_run(path, shapes, cache)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="runs with a warm cache")
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim"))
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--models", type=Path, metavar="FOLDER", help="measure the networks of this folder, by processor time")
    parser.add_argument("--only", default="", help="names of networks, separated by commas")
    parser.add_argument("--peak", action="store_true", help="measure the largest memory with 1.6 GB of weights, and nothing else")
    args = parser.parse_args()
    if args.models or args.peak:
        networks = measure_networks(args.models, set(filter(None, args.only.split(",")))) if args.models else {}
        if args.peak:
            networks["1.6 GB"] = largest_memory()
        print(json.dumps(networks, indent=2))
        return 0
    found: dict[str, Any] = {"code_is_installed": code_is_installed()}
    if not args.json:
        print(
            f"the machine's own code: {'of the installation' if found['code_is_installed'] else 'compiled by the first process'}"
        )
    for subject in SUBJECTS:
        found[subject.name] = measured(subject, args.device, args.runs)
        if not args.json:
            show(subject, found[subject.name])
    if args.json:
        print(json.dumps(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
