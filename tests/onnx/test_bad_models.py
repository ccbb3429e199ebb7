"""Wrong models: each is one error with the node's name, kept in ``tests/onnx/bad_models``, in no more memory than its file."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import relayvm as relay
from relayvm.compiler.onnx_frontend import model as model_limits

from ..golden_texts import Golden
from .test_import import model_of

FOLDER = Path(__file__).parent / "bad_models"
OWN = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
#: Bytes of memory for a byte of a file, and for any file.
EACH_BYTE, ANY_FILE = 64, 8 << 20
node = helper.make_node


def plain() -> onnx.ModelProto:
    """A model that is right: y = relu(x + w)."""
    nodes = [node("Add", ["x", "w"], ["a"], name="/layer.0/Add"), node("Relu", ["a"], ["y"], name="/layer.0/Relu")]
    return model_of(nodes, {"x": ["n", 4]}, ["y"], {"w": np.ones(4, "float32")})


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    """The model that is right, after a change."""
    model = plain()
    change(model)
    return model


def with_stored(name: str, **fields: Any) -> onnx.ModelProto:
    """The model with other fields of its stored tensor; None for a field that is gone."""
    model = plain()
    tensor = model.graph.initializer[0]
    for field, value in {"name": name, **fields}.items():
        if value is None:
            tensor.ClearField(field)
        elif isinstance(value, list):
            getattr(tensor, field)[:] = value
        else:
            setattr(tensor, field, value)
    return model


def sized(operator: str, stored: dict[str, Any], inputs: Sequence[str], **attributes: Any) -> onnx.ModelProto:
    """A model of one node on stored tensors, with a result that no memory holds."""
    arrays = {name: np.asarray(a) for name, a in stored.items()}
    return model_of([node(operator, inputs, ["y"], name="/big", **attributes)], {"x": [1]}, ["y"], arrays)


def number(n: int) -> bytes:
    """A number in a message of protobuf."""
    parts = []
    while True:
        parts.append(n & 127 | (128 if n > 127 else 0))
        n >>= 7
        if not n:
            return bytes(parts)


def field(key: int, content: bytes) -> bytes:
    """A field with a length."""
    return number(key << 3 | 2) + number(len(content)) + content


def nested(levels: int) -> bytes:
    """A model of an `If` in an `If` and so on; protobuf writes no message that is so deep."""
    inner = field(1, node("Relu", ["x"], ["y"], name="/inner/Relu").SerializeToString())
    parts, length = [inner], len(inner)
    kind = field(1, b"then_branch") + number(20 << 3) + number(5)
    rest = field(1, b"c") + field(2, b"y") + field(3, b"/outer/If") + field(4, b"If")
    for _ in range(levels):
        graph = number(6 << 3 | 2) + number(length)
        length += len(graph) + len(kind)
        attribute = number(5 << 3 | 2) + number(length)
        length += len(attribute) + len(rest)
        head = number(1 << 3 | 2) + number(length)
        length += len(head)
        parts.append(head + rest + attribute + kind + graph)
    return field(7, b"".join(reversed(parts))) + field(8, OWN[0].SerializeToString())


def doubling(depth: int) -> onnx.ModelProto:
    """A model whose functions call the next one twice."""
    last = [node("Relu", ["a"], ["b"])]
    bodies = [[node(f"F{k}", ["a"], ["t"], domain="own"), node(f"F{k}", ["t"], ["b"], domain="own")] for k in range(1, depth)]
    functions = [helper.make_function("own", f"F{k}", ["a"], ["b"], body, OWN) for k, body in enumerate([*bodies, last])]
    call = node("F0", ["x"], ["y"], domain="own", name="/call")
    return model_of([call], {"x": [1]}, ["y"], functions=functions, opset_imports=OWN)


def itself() -> onnx.ModelProto:
    """A model whose function calls itself."""
    function = helper.make_function("own", "F", ["a"], ["b"], [node("F", ["a"], ["b"], domain="own")], OWN)
    call = node("F", ["x"], ["y"], domain="own", name="/call")
    return model_of([call], {"x": [1]}, ["y"], functions=[function], opset_imports=OWN)


def declare_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.INT64, ["n", 4]))


def add_output(model: onnx.ModelProto) -> None:
    model.graph.output.add(name="z")


def set_outside(model: onnx.ModelProto, location: str) -> None:
    """Place the stored tensor in another file."""
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)


def declaring(dtype: int, shape: Sequence[Any]) -> onnx.ModelProto:
    """The model that is right with a type for the value between its nodes."""
    return changed(lambda m: m.graph.value_info.append(helper.make_tensor_value_info("a", dtype, shape)))


TENSOR = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
SEQUENCE, OPTIONAL = helper.make_sequence_type_proto(TENSOR), helper.make_optional_type_proto(TENSOR)


def with_input(ty: Any) -> onnx.ModelProto:
    """The model that is right with an input of another type."""
    return changed(lambda m: m.graph.input[0].type.CopyFrom(ty))


def growing() -> onnx.ModelProto:
    """A loop that appends to a sequence, as often as an input says."""
    body = helper.make_graph(
        [node("SequenceInsert", ["s", "x"], ["t"]), node("Identity", ["c"], ["d"])], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_value_info("s", SEQUENCE)],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, []), helper.make_value_info("t", SEQUENCE)])  # fmt: skip
    nodes = [node("SequenceEmpty", [], ["e"]), node("Loop", ["k", "", "e"], ["l"], body=body, name="/loop"),
             node("ConcatFromSequence", ["l"], ["y"], axis=0)]  # fmt: skip
    return model_of([node("Cast", ["n"], ["k"], to=TensorProto.INT64), *nodes], {"x": [2], "n": []}, ["y"])


def absent_in_a_branch() -> onnx.ModelProto:
    """An optional that has a value in one of two branches."""
    branches = [helper.make_graph([node("Optional", names, ["o"], name=f"/branch/{k}", **ty)], f"b{k}", [],
                                  [helper.make_value_info("o", OPTIONAL)])
                for k, (names, ty) in enumerate(((["x"], {}), ([], {"type": TENSOR})))]  # fmt: skip
    call = node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1], name="/if")
    return model_of([node("Cast", ["n"], ["c"], to=TensorProto.BOOL), call], {"x": [2], "n": []}, ["y"])


def absent(*nodes: Any) -> onnx.ModelProto:
    """A model with an optional ``o`` that has no value."""
    return model_of([node("Optional", [], ["o"], name="/none", type=TENSOR), *nodes], {"x": [2]}, ["y" if nodes else "o"])


def sliced(**stored: Any) -> onnx.ModelProto:
    """A slice of a matrix with these limits."""
    names = [n if n in stored else "" for n in ("starts", "ends", "axes", "steps")]
    arrays = {n: np.asarray(a) for n, a in stored.items()}
    return model_of([node("Slice", ["x", *names], ["y"], name="/slice")], {"x": ["n", 4]}, ["y"], arrays)


def with_sparse(dims: Sequence[int], indices: Any) -> onnx.ModelProto:
    """The model that is right with a sparse tensor in place of its stored tensor."""
    model = plain()
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    positions = onnx.numpy_helper.from_array(np.array(indices, "int64"), "")
    model.graph.ClearField("initializer")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, positions, dims))
    return model


def recurrent(**attributes: Any) -> onnx.ModelProto:
    """A GRU of two units in one direction."""
    return model_of([node("GRU", ["x", "w", "r"], ["y"], name="/gru", **attributes)], {"x": ["t", "n", 4]}, ["y"],
                    {"w": np.ones((1, 6, 4), "float32"), "r": np.ones((1, 6, 2), "float32")})  # fmt: skip


MODELS: dict[str, Callable[[], Any]] = {
    "cut": lambda: plain().SerializeToString()[:60],
    "empty": lambda: b"",
    "no_text": lambda: plain().SerializeToString().replace(b"/layer.0/Add", b"/layer.\xff/Add"),
    "cycle": lambda: model_of([node("Add", ["x", "b"], ["a"], name="/l/Add"), node("Relu", ["a"], ["b"], name="/l/Relu")],
                              {"x": [1]}, ["b"]),
    "cycle_of_one": lambda: model_of([node("Add", ["x", "a"], ["a"], name="/l/Add")], {"x": [1]}, ["a"]),
    "no_opset": lambda: changed(lambda m: m.ClearField("opset_import")),
    "absurd_opset": lambda: changed(lambda m: setattr(m.opset_import[0], "version", 2**40)),
    "unknown_domain": lambda: changed(lambda m: setattr(m.graph.node[0], "domain", "acme")),
    "dtypes_contradict": lambda: with_stored("w", data_type=TensorProto.INT32),
    "sizes_contradict": lambda: with_stored("w", dims=[2], raw_data=bytes(8)),
    "output_dtype_contradicts": lambda: changed(declare_output),
    "scales_missing": lambda: model_of([node("Resize", ["x", "", "s"], ["y"], name="/resize")], {"x": [1, 1, 4, 4]}, ["y"],
                                       {"s": np.ones(3, "float32")}),
    "negative_size": lambda: changed(lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[1], "dim_value", -7)),
    "absurd_sizes": lambda: changed(lambda m: setattr(m.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", 2**62)),
    "no_type": lambda: changed(lambda m: m.graph.input[0].ClearField("type")),
    "stored_short": lambda: with_stored("w", dims=[10**15]),
    "stored_short_in_numbers": lambda: with_stored("w", dims=[4], raw_data=None, float_data=[1.0]),
    "stored_negative": lambda: with_stored("w", dims=[-4]),
    "stored_overflow": lambda: with_stored("w", dims=[2**62, 2**62]),
    "stored_overflow_of_nothing": lambda: with_stored("w", dims=[0, 2**62, 1], raw_data=b""),
    "stored_text": lambda: with_stored("w", data_type=TensorProto.STRING),
    "stored_unknown_dtype": lambda: with_stored("w", data_type=99),
    "stored_twice": lambda: changed(lambda m: m.graph.initializer.append(m.graph.initializer[0])),
    "input_twice": lambda: changed(lambda m: m.graph.input.append(m.graph.input[0])),
    "input_without_a_name": lambda: changed(
        lambda m: m.graph.input.append(helper.make_tensor_value_info("", TensorProto.FLOAT, [1]))),
    "too_many_axes": lambda: model_of(
        [node("Cast", ["n"], ["s"], to=TensorProto.INT64), node("Col2Im", ["x", "s", "b"], ["y"], name="/col2im")],
        {"x": [1, 5, 5], "n": [2**31]}, ["y"], {"b": np.ones(2, "int64")}, opset_imports=[helper.make_opsetid("", 18)]),
    "result_twice": lambda: changed(lambda m: m.graph.node[1].output.__setitem__(0, "a")),
    "output_missing": lambda: changed(add_output),
    "no_output": lambda: changed(lambda m: m.graph.ClearField("output")),
    "outside": lambda: changed(lambda m: set_outside(m, "../secret")),
    "outside_by_path": lambda: changed(lambda m: set_outside(m, "/etc/passwd")),
    "outside_by_link": lambda: changed(lambda m: set_outside(m, "link.bin")),
    "pipe": lambda: changed(lambda m: set_outside(m, "pipe.bin")),
    "folder": lambda: changed(lambda m: set_outside(m, "folder")),
    "outside_missing": lambda: changed(lambda m: set_outside(m, "nowhere.bin")),
    "deep": lambda: nested(40),
    "deep_100000": lambda: nested(100_000),
    "function_of_itself": itself,
    "functions_doubling": lambda: doubling(30),
    "expand": lambda: sized("Expand", {"s": [2**40, 2**40]}, ["x", "s"]),
    "range": lambda: sized("Range", {"a": 0, "b": 2**62, "c": 1}, ["a", "b", "c"]),
    "tile": lambda: sized("Tile", {"w": np.ones(3, "float32"), "s": [2**61]}, ["w", "s"]),
    "pad": lambda: sized("Pad", {"p": [2**62, 2**62]}, ["x", "p"]),
    "one_hot": lambda: sized("OneHot", {"i": [1, 2], "d": 2**61, "v": [0.0, 1.0]}, ["i", "d", "v"]),
    "wrong_mode": lambda: model_of([node("GridSample", ["x", "g"], ["y"], name="/sample", mode="dense")],
                                   {"x": [1, 1, 2, 2], "g": [1, 2, 2, 2]}, ["y"]),
    "wrong_direction": lambda: model_of([node("GRU", ["x", "w", "r"], ["y"], name="/gru", hidden_size=2, direction="up")],
                                        {"x": [3, 1, 2], "w": [1, 6, 2], "r": [1, 6, 2]}, ["y"]),
    "stride_0": lambda: model_of([node("MaxPool", ["x"], ["y"], name="/pool", kernel_shape=[2], strides=[0])],
                                 {"x": [1, 1, 4]}, ["y"]),
    "node_without_inputs": lambda: changed(lambda m: (
        m.graph.node[1].CopyFrom(node("Sqrt", [], ["y"], name="/sqrt")),
        m.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])))),
    "node_without_outputs": lambda: model_of([node("Sqrt", ["x"], [], name="/sqrt")], {"x": [1]}, ["y"]),
    "reshape_without_outputs": lambda: model_of([node("Cast", ["x"], ["s"], to=TensorProto.INT64),
                                                 node("Reshape", ["x", "s"], [], name="/reshape")], {"x": ["n"]}, ["s"]),
    "value_of_another_dtype": lambda: declaring(TensorProto.INT32, ["n", 4]),
    "value_declared_a_sequence": lambda: changed(lambda m: m.graph.value_info.append(helper.make_value_info("a", SEQUENCE))),
    "output_declared_a_tensor": lambda: changed(lambda m: (
        m.graph.node[1].CopyFrom(node("SequenceConstruct", ["a"], ["y"], name="/list")),
        m.graph.output[0].type.CopyFrom(TENSOR))),
    "stored_of_another_size": lambda: changed(lambda m: m.graph.input.append(
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [5]))),
    "sparse_out_of_range": lambda: with_sparse([4], [0, 4]),
    "sparse_of_three_axes": lambda: with_sparse([2, 2], [[0, 0, 0], [0, 0, 1]]),
    "sparse_not_ascending": lambda: with_sparse([4], [2, 1]),
    "sparse_without_end": lambda: with_sparse([2**20, 2**20], [0, 1]),
    "unknown_opset": lambda: changed(lambda m: setattr(m.opset_import[0], "version", 999)),
    "unknown_opset_of_a_function": lambda: changed(lambda m: m.functions.append(helper.make_function(
        "own", "F", ["a"], ["b"], [node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 999)]))),
    "kernel_of_another_shape": lambda: model_of(
        [node("Conv", ["x", "w"], ["y"], name="/conv", kernel_shape=[5, 5])], {"x": [1, 2, "h", "w"]}, ["y"],
        {"w": np.ones((3, 2, 3, 3), "float32")}),
    "kernel_of_another_shape_transposed": lambda: model_of(
        [node("ConvTranspose", ["x", "w"], ["y"], name="/conv", kernel_shape=[2, 2])], {"x": [1, 2, "h", "w"]}, ["y"],
        {"w": np.ones((2, 3, 3, 3), "float32")}),
    "groups_of_another_size": lambda: model_of(
        [node("Conv", ["x", "w"], ["y"], name="/conv", group=3)], {"x": [1, 2, "h", "w"]}, ["y"],
        {"w": np.ones((3, 2, 3, 3), "float32")}),
    "hidden_size_of_another_size": lambda: recurrent(hidden_size=3),
    "directions_of_another_number": lambda: recurrent(hidden_size=2, direction="bidirectional"),
    "outputs_of_another_number": lambda: model_of(
        [node("Split", ["x"], ["a", "b"], name="/split", num_outputs=3)], {"x": ["n", 4]}, ["a", "b"],
        opset_imports=[helper.make_opsetid("", 18)]),
    "split_by_both": lambda: model_of(
        [node("Split", ["x", "s"], ["a", "b"], name="/split", num_outputs=2)], {"x": ["n", 4]}, ["a", "b"],
        {"s": np.array([1, 3])}, opset_imports=[helper.make_opsetid("", 18)]),
    "pads_of_another_number": lambda: model_of(
        [node("Pad", ["x", "p"], ["y"], name="/pad")], {"x": ["n", 4]}, ["y"], {"p": np.array([1, 2, 3])}),
    "sequence_input": lambda: with_input(SEQUENCE),
    "optional_input": lambda: with_input(OPTIONAL),
    "sequence_grows": growing,
    "sequence_of_unknown_length": lambda: model_of(
        [node("SplitToSequence", ["x"], ["s"], name="/split"), node("SequenceAt", ["s", "zero"], ["y"])], {"x": ["n"]}, ["y"],
        {"zero": np.array(0)}),
    "absent_in_a_branch": absent_in_a_branch,
    "absent_result": absent,
    "absent_input": lambda: absent(node("Relu", ["o"], ["y"], name="/relu")),
    "absent_element": lambda: absent(node("OptionalGetElement", ["o"], ["y"], name="/get")),
    "slice_without_an_end": lambda: sliced(starts=[0, 0], ends=[1]),
    "slice_with_one_step": lambda: sliced(starts=[0, 0], ends=[1, 1], steps=[1]),
    "slice_of_too_many_axes": lambda: sliced(starts=[0, 0, 0], ends=[1, 1, 1]),
    "slice_by_floats": lambda: sliced(starts=[0.0], ends=[1]),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file, a folder, a link out of it and a pipe."""
    import os

    made = tmp_path_factory.mktemp("models")
    (made.parent / "secret").write_bytes(bytes(16))
    (made / "folder").mkdir()
    (made / "link.bin").symlink_to(made.parent / "secret")
    os.mkfifo(made / "pipe.bin")
    return made


#: A model that takes seconds to refuse.
SLOW = "functions_doubling"


@pytest.mark.extensive(name=[n for n in MODELS if n != SLOW])
@pytest.mark.parametrize("name", MODELS)
def test_a_wrong_model_is_one_error_and_takes_no_memory(
    name: str, folder: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MODELS[name]()
    data = model if isinstance(model, bytes) else model.SerializeToString()
    del model
    monkeypatch.chdir(folder)
    if name == SLOW:  # the limit is the same with fewer nodes
        monkeypatch.setattr(model_limits, "EACH_NODE", 16)
    Path("m.onnx").write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(relay.RelayError) as caught:
            relay.frontend.from_onnx("m.onnx")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    golden.check(FOLDER / f"{name}.txt", f"{caught.value.code}\n\n{caught.value}\n".replace(str(folder), "FOLDER"))
    assert peak <= EACH_BYTE * len(data) + ANY_FILE


def test_each_text_belongs_to_a_model() -> None:
    assert sorted(p.stem for p in FOLDER.glob("*.txt")) == sorted(MODELS)


@pytest.mark.extensive
def test_a_model_of_many_nodes() -> None:
    count = 30_000
    nodes = [node("Relu", [f"v{k}"], [f"v{k + 1}"]) for k in range(count)]
    nodes.append(node("MatMul", [f"v{count}"] * 2, ["y"], name="/last/MatMul"))
    with pytest.raises(relay.RelayError, match="MatMul '/last/MatMul': "):
        relay.frontend.from_onnx(model_of(nodes, {"v0": [2, 3]}, ["y"]))
