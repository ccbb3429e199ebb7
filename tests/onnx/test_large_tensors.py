"""Large tensors of a model's file, which are read beside the rest: as if protobuf read all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay
from relayvm.compiler.onnx_frontend.importing import large_tensors
from relayvm.vm.diagnostics.source import FileError, ModelError

DTYPES = ("float32", "int64", "bool", "int8", "float16")
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 17, 40]), max_size=3)
ARRAYS = st.lists(st.tuples(SHAPES, st.sampled_from(DTYPES)), min_size=1, max_size=6)
each_example = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True)
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files and tensors of a few bytes are read as large ones are."""
    monkeypatch.setattr(large_tensors, "LARGE_FILE", 0)
    monkeypatch.setattr(large_tensors, "LARGE_TENSOR", 16)
    yield


def model_with(arrays: list[np.ndarray]) -> onnx.ModelProto:
    """A model whose results are its stored tensors."""
    names = [f"w{n}" for n in range(len(arrays))]
    nodes = [helper.make_node("Identity", [name], [f"y{name}"]) for name in names]
    stored = [numpy_helper.from_array(array, name) for name, array in zip(names, arrays, strict=True)]
    results = [onnx.ValueInfoProto(name=f"y{name}") for name in names]
    graph = helper.make_graph(nodes, "g", [], results, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def drawn(shapes: list[tuple[list[int], str]]) -> list[np.ndarray]:
    """Arrays of given shapes and dtypes."""
    rng = np.random.default_rng(0)
    return [rng.integers(0, 2, shape).astype(dtype) for shape, dtype in shapes]


def outcome(model: object) -> object:
    """The text of a model's module and its stored tensors, or the message of the error."""
    try:
        module, stored = relay.frontend.from_onnx(model, freeze_params=False)
    except ModelError as error:
        return error.diagnostics[0].message
    return module.astext(), {name: (array.dtype.name, array.shape, array.tobytes()) for name, array in stored.items()}


@each_example
@given(ARRAYS)
def test_a_file_gives_what_its_bytes_give(tmp_path: Path, shapes: list[tuple[list[int], str]]) -> None:
    arrays, path = drawn(shapes), tmp_path / "m.onnx"
    onnx.save(model_with(arrays), path)
    with path.open("rb") as file:
        rest, apart = large_tensors.without_large_tensors(file)
    assert [a.tobytes() for a in apart.values()] == [a.tobytes() for a in arrays if a.nbytes >= 16]
    assert not any(a.tobytes() in rest for a in apart.values() if a.any())
    results = relay.VirtualMachine(relay.compile(relay.frontend.from_onnx(path)[0])).run()
    for result, array in zip(results if len(arrays) > 1 else [results], arrays, strict=True):
        np.testing.assert_array_equal(result.numpy(), array, strict=True)


@each_example
@given(ARRAYS, st.data())
def test_a_damaged_file_gives_what_its_bytes_give(
    tmp_path: Path, shapes: list[tuple[list[int], str]], data: st.DataObject
) -> None:  # fmt: skip
    whole = model_with(drawn(shapes)).SerializeToString()
    at, bit = data.draw(st.integers(0, len(whole) - 1)), 1 << data.draw(st.integers(0, 7))
    flipped = whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]
    path = tmp_path / "m.onnx"
    for damaged in (whole[:at], flipped, whole + whole):
        path.write_bytes(damaged)
        found, wanted = outcome(path), outcome(damaged)
        assert (found.replace(str(path), "<model>") if isinstance(found, str) else found) == wanted


def test_a_large_tensor_that_says_that_its_bytes_are_its_own(tmp_path: Path) -> None:
    model = model_with([np.arange(64, dtype=np.float32)])
    model.graph.initializer[0].data_location = TensorProto.DEFAULT
    onnx.save(model, tmp_path / "m.onnx")
    found = outcome(tmp_path / "m.onnx")
    assert not isinstance(found, str)
    assert found == outcome(model)


def test_a_large_tensor_with_bytes_that_says_that_they_are_elsewhere(tmp_path: Path) -> None:
    model = model_with([np.arange(64, dtype=np.float32)])
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert isinstance(outcome(tmp_path / "m.onnx"), str)


def test_a_tensor_that_ends_within_a_field(tmp_path: Path) -> None:
    """The field must not take what is written behind the tensor's fields."""
    whole = model_with([np.arange(16, dtype=np.float32)]).SerializeToString()
    stored = np.arange(16, dtype=np.float32).tobytes()
    at = whole.index(stored) - 1  # the length of the bytes
    damaged = whole[:at] + bytes([whole[at] - 4]) + whole[at + 1 :]  # the last four bytes are the beginning of a field
    path = tmp_path / "m.onnx"
    taken = len(large_tensors._place(f"{'0' * 32} 0"))
    path.write_bytes(damaged.replace(stored[-4:], bytes([0x7A, 2 + taken, 0, 0])))
    assert outcome(path) == str(outcome(path.read_bytes())).replace("<model>", str(path))


def test_a_large_tensor_that_contradicts_itself(tmp_path: Path) -> None:
    model = model_with([np.zeros((8, 8), np.float32)])
    model.graph.initializer[0].dims[0] = 9
    onnx.save(model, tmp_path / "m.onnx")
    assert outcome(tmp_path / "m.onnx") == outcome(model)


def test_external_data_with_bytes_of_its_own_stays_external(tmp_path: Path) -> None:
    model = model_with([np.zeros(8, np.float32)])
    (tensor,) = model.graph.initializer
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    (tmp_path / "weights.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    result = relay.VirtualMachine(relay.compile(relay.frontend.from_onnx(tmp_path / "m.onnx")[0])).run()
    np.testing.assert_array_equal(result.numpy(), np.arange(8, dtype=np.float32))


def test_a_model_does_not_change_with_its_file(tmp_path: Path) -> None:
    """Exporters write to the same path again, and may make the file shorter first."""
    path, array = tmp_path / "m.onnx", np.arange(64, dtype=np.float32)
    onnx.save(model_with([array]), path)
    module = relay.frontend.from_onnx(path)[0]
    path.write_bytes(b"")
    np.testing.assert_array_equal(relay.VirtualMachine(relay.compile(module)).run().numpy(), array)


def test_a_file_that_becomes_shorter_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model_with([np.zeros(64, np.float32)]), path)
    find = large_tensors._raw_data

    def cut(data: large_tensors._FileBytes, tensor: large_tensors.Field) -> large_tensors.Field | None:
        found = find(data, tensor)
        path.write_bytes(b"")
        return found

    monkeypatch.setattr(large_tensors, "_raw_data", cut)
    with pytest.raises(FileError, match="it became shorter while it was read"):
        relay.frontend.from_onnx(path)
