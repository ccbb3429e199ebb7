"""A model with more data than memory needs to hold: stored tensors in mapped files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

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


@pytest.mark.optimized
@pytest.mark.extensive
def test_a_model_of_more_than_2_gb_is_compiled_and_run_in_little_memory(tmp_path: Path) -> None:
    values, memory = run(write_model(tmp_path))
    assert values == f"[0.0, 5.0, {ROWS - 1}.0]"
    assert memory < MOST
