"""Models on the command line, and weights in files."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay
from relayvm.vm.bytecode.safetensors import read_safetensors, write_safetensors

from ..compiler.cli.answers import answer, data


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weights = [numpy_helper.from_array(np.array([2, 3], "float32"), "block/w:0")]
    nodes = [helper.make_node("Mul", ["x.1", "block/w:0"], ["a"], name="/block/Mul"),
             helper.make_node("Relu", ["a"], ["y"], name="/block/Relu")]  # fmt: skip
    infos = [helper.make_tensor_value_info("x.1", TensorProto.FLOAT, ["n", 2])]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name="y")], weights)
    path = tmp_path / "m.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_every_command_takes_a_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = model.parent / "x.npy"
    np.save(x, np.array([[1, -1]], "float32"))
    text, exe = model.with_suffix(".relay"), model.with_suffix(".rvm")
    assert data(capsys, "run", str(model), "--input", f"x.1=@{x}")["results"][0]["shape"] == [1, 2]
    assert "/block/Mul: Mul(x.1, block/w:0)" in answer(capsys, "explain", str(model), "--device", "sim")
    assert "multiply(%x_1" in answer(capsys, "dump", str(model), "--stage", "parsed")
    assert data(capsys, "compile", str(model), "-o", str(exe))["functions"] == ["main"]
    assert data(capsys, "tune", str(model))["trials"] == 0
    found = data(capsys, "convert", str(model), "-o", str(text))
    assert (found["inputs"], found["parameters"]) == (["%x_1: Tensor[(?n, 2), float32]"], 1)
    weights = found["weights"]
    assert read_safetensors(Path(weights)).keys() == {"block_w_0"}
    with_weights = ("--params", weights, "--input", f"x_1=@{x}", "-o", str(x))
    answer(capsys, "run", str(text), *with_weights)
    assert np.load(x).tolist() == [[2, 0]]
    bodies = relay.parse(text)["main"], relay.frontend.from_onnx(model, freeze_params=False)[0]["main"]
    assert relay.structural_equal(*bodies)


def test_compile_takes_the_name_of_a_model(model: Path) -> None:
    x = np.ones((1, 2), "float32")
    for program in (model, str(model)):
        assert relay.VirtualMachine(relay.compile(program)).run(x).numpy().tolist() == [[2, 3]]
    with pytest.raises(relay.FileError, match=r"nowhere\.onnx cannot be read"):
        relay.compile("nowhere.onnx")


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    arrays = {name: np.arange(6).reshape(2, 3).astype(name) for name in ("int8", "float64", "uint16", "bool", "float16")}
    arrays |= {"none": np.zeros((0, 4), "int32"), "one": np.array(5, "int64")}
    write_safetensors(path, arrays)
    read = read_safetensors(path)
    assert {n: (a.dtype, a.shape, a.tolist()) for n, a in read.items()} == {
        n: (a.dtype, a.shape, a.tolist()) for n, a in arrays.items()
    }
    assert not any(a.flags.writeable for a in read.values())
    header = {"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 99]}}
    for contents, message in (
        (b"", "is no .safetensors file"),
        (struct.pack("<Q", 1 << 40), "is no .safetensors file"),
        (struct.pack("<Q", 2) + b"[]", "is no .safetensors file"),
        (_file(header), r"w is float32 of shape \(4,\), but bytes 0 to 99 are stored"),
        (_file({"w": {"dtype": "F4", "shape": [], "data_offsets": [0, 0]}}), "w has the dtype F4"),
        (_file({"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 0]}}), "w has no valid shape and place"),
        (_file({"w": 3}), "w has no valid shape and place"),
    ):
        path.write_bytes(contents)
        with pytest.raises(relay.InputError, match=message):
            read_safetensors(path)


def _file(header: object) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text
