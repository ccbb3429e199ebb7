"""A model with more data than memory needs to hold: stored tensors in mapped files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import relayvm as relay
from relayvm.ops.native.cache import disk_cache

ROWS, WIDTH = 2_300_000, 256
TABLE = ROWS * WIDTH * 4
#: The most memory of a process in bytes, with the packages that it imports.
MOST = 400 << 20

#: Compiles and runs a model, and prints the first column and the largest memory of the process.
PROGRAM = """
import re, sys
import numpy as np
import relayvm as relay
exe = relay.compile(sys.argv[1])
y = relay.VirtualMachine(exe).run(np.array([0, 5, -1]))
# ru_maxrss would include the peak of the process that started this one
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(y.numpy()[:, 0].tolist(), int(peak[1]) * 1024)
"""


def write_model(folder: Path) -> Path:
    """A model whose tensors are 2.2 GiB in a file with holes."""
    data = folder / "weights.bin"
    with data.open("wb") as file:
        file.truncate(TABLE + WIDTH * WIDTH * 4)
        for row in (0, 5, ROWS - 1):
            file.seek(row * WIDTH * 4)
            file.write(np.full(WIDTH, row, np.float32).tobytes())
        file.seek(TABLE)
        file.write(np.eye(WIDTH, dtype=np.float32).tobytes())
    nodes = [helper.make_node("Gather", ["table", "i"], ["e"]), helper.make_node("MatMul", ["e", "w"], ["y"])]
    tensors = [stored("table", [ROWS, WIDTH], 0), stored("w", [WIDTH, WIDTH], TABLE)]
    infos = [helper.make_tensor_value_info("i", TensorProto.INT64, ["n"])]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name="y")], tensors)
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def stored(name: str, dims: list[int], offset: int) -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "weights.bin", "offset": offset, "length": int(np.prod(dims)) * 4}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def run(path: Path) -> tuple[str, int]:
    """The first column of the result, and the largest memory."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    values, _, memory = done.stdout.rpartition(" ")
    return values, int(memory)


#: Imports a model, and prints the growth of the largest memory.
IMPORT = """
import re, sys
import onnx
import relayvm as relay
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
relay.frontend.from_onnx(sys.argv[1])
before = peak()
module = relay.frontend.from_onnx(sys.argv[2])
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the largest memory is read from /proc")
def test_tensors_of_the_file_itself_are_read_once(tmp_path: Path) -> None:
    """A file of 64 MB takes 64 MB, not twice as much again for protobuf."""
    sizes = {"small": 8, "large": 4_000_000}
    for name, size in sizes.items():
        stored = [onnx.numpy_helper.from_array(np.ones(size, np.float32), f"w{n}") for n in range(4)]
        graph = helper.make_graph(
            [helper.make_node("Sum", [t.name for t in stored], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")], stored
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / f"{name}.onnx")
    command = [sys.executable, "-c", IMPORT, *(str(tmp_path / f"{name}.onnx") for name in sizes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 1.2 * 16 * sizes["large"]


#: Compiles a small model, then another, and prints the growth of the largest memory, and whether both executables were kept.
GROWTH = """
import re, sys
import relayvm as relay
from relayvm.compiler import executable_cache
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
relay.compile(sys.argv[1])
before = peak()
exe = relay.compile(sys.argv[2])
executable_cache._end_writing()
print(sum(c.nbytes for c in exe.constants), peak() - before, executable_cache.counters["writes"])
"""


def write_products(path: Path, layers: int, width: int) -> Path:
    """A model of products in a row, with their weights in a file."""
    weights = np.ones((width, width), np.float32)
    with path.with_name("weights.bin").open("wb") as file:
        file.writelines([weights.tobytes()] * layers)
    nodes = [helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]) for k in range(layers)]
    tensors = [stored(f"w{k}", [width, width], k * weights.nbytes) for k in range(layers)]
    ends = [helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, ["b", width]) for k in (0, layers)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.extensive
@pytest.mark.skipif(sys.platform != "linux", reason="the largest memory is read from /proc")
def test_packed_weights_are_in_memory_once(tmp_path: Path) -> None:
    paths = []
    for name, layers in (("small", 1), ("large", 24)):
        (tmp_path / name).mkdir()
        paths.append(str(write_products(tmp_path / name / "m.onnx", layers, 1024)))
    environment = {**os.environ, "RELAYVM_CACHE_DIR": str(tmp_path / "cache"), "RELAYVM_OPTIMIZE": "0"}
    done = subprocess.run([sys.executable, "-c", GROWTH, *paths], capture_output=True, text=True, env=environment, check=True)
    weights, growth, kept = map(int, done.stdout.split())
    assert weights == 24 * 1024 * 1024 * 4 and kept == 2, done.stderr
    assert growth < 1.25 * weights, growth / weights


def test_an_executable_that_is_not_kept_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYVM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("RELAYVM_CACHE_MAX_BYTES", "1000000")
    path = write_products(tmp_path / "m.onnx", 1, 512)
    with pytest.warns(disk_cache.CacheWarning) as found:
        relay.compile(str(path))
    assert str(found[0].message) == (
        f"{path} is compiled again by every process: its weights take 1 MB, and the cache keeps executables of at most 0 MB, a "
        "quarter of its cap; RELAYVM_CACHE_MAX_BYTES=1000000000 keeps it, and `relayvm compile` makes a file of it"
    )


@pytest.mark.optimized
@pytest.mark.extensive
def test_a_model_of_more_than_2_gb_is_compiled_and_run_in_little_memory(tmp_path: Path) -> None:
    values, memory = run(write_model(tmp_path))
    assert values == f"[0.0, 5.0, {ROWS - 1}.0]"
    assert memory < MOST
