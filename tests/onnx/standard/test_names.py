"""Names of a model's inputs and outputs, any text, from the model to the server; stored tensors that inputs replace."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import relayvm as relay

from ...serving.asgi import ask
from ..test_import import model_of, refusal

X = np.array([[1, -2]], "float32")
#: Texts that are no words of the text format, and their form in messages and files where it is another.
NAMES = {
    "a\nb": "a\\nb", 'quote"s': None, "back\\slash": None, "%p": None, "x.1": None, "日本": None, "a b": None, "input:0": None,
    "/layer/out": None, "\x1b[31m": "\\x1b[31m", "\u202e": "\\u202e", "nul\0": "nul\\x00", "self": None, "def": None, "1": None,
    "#": None, "file": None, "donate": None,
}  # fmt: skip


def two_results(name: str) -> onnx.ModelProto:
    """A model with one input and two outputs, whose names begin with this name."""
    nodes = [helper.make_node("Relu", [name], [f"{name}+"]), helper.make_node("Neg", [f"{name}+"], [f"{name}-"])]
    return model_of(nodes, {name: ["n", 2]}, [f"{name}+", f"{name}-"])


@pytest.mark.parametrize("name", list(NAMES), ids=ascii)
@pytest.mark.extensive(name=list(NAMES)[1:])
def test_any_name_works_from_the_model_to_the_server(name: str, tmp_path: Path) -> None:
    module, _ = relay.frontend.from_onnx(two_results(name))
    text = module.astext()
    assert relay.parse(text).astext() == text
    relay.compile(module).save(tmp_path / "m.rvm")
    exe = relay.Executable.load(tmp_path / "m.rvm")
    shown = NAMES[name] or name
    assert [n for n, _ in (*exe.inputs, *exe.outputs)] == [shown, f"{shown}+", f"{shown}-"]
    vm = relay.VirtualMachine(exe)
    assert vm.run(**{name: X})[0].numpy().tolist() == vm.run(**{shown: X})[0].numpy().tolist() == [[1, 0]]
    assert vm.run(X, outputs=[f"{name}-"])[0].numpy().tolist() == [[-1, 0]]
    repository = relay.serving.load([f"m={tmp_path / 'm.rvm'}"])
    try:
        from relayvm.serving.rest import application

        tensor = {"name": name, "datatype": "FP32", "shape": [1, 2], "data": [1, -2]}
        body = json.dumps({"inputs": [tensor], "outputs": [{"name": f"{name}-"}]}).encode()
        answer = ask(application(repository, owns=False), "/v2/models/m/infer", body).data
    finally:
        repository.close()
    assert [(o["name"], o["data"]) for o in answer["outputs"]] == [(f"{shown}-", [-1.0, 0.0])]


def test_an_output_that_is_listed_twice_has_two_names() -> None:
    module, _ = relay.frontend.from_onnx(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n"]}, ["y", "y"]))
    assert module["main"].attrs["output_names"] == ("y", "y1")


def test_the_backend_s_results_have_names() -> None:
    found = relay.frontend.OnnxBackend.prepare(two_results("x")).run([X])
    assert len(found) == 2 and found["x-"].tolist() == found[1].tolist() == [[-1, 0]]


# ---- stored tensors that are inputs ----------------------------------------------------------------------------------------


def with_default(sizes: Sequence[int] = (), ir_version: int = 9) -> onnx.ModelProto:
    """``x * k``, where ``k`` is stored, 3, and an input."""
    model = model_of([helper.make_node("Mul", ["x", "k"], ["y"])], {"x": ["n", 2]}, ["y"], {"k": np.full(sizes, 3, "float32")})
    model.graph.input.append(helper.make_tensor_value_info("k", TensorProto.FLOAT, sizes))
    model.ir_version = ir_version
    return model


def test_a_stored_tensor_that_is_an_input_can_be_replaced(tmp_path: Path) -> None:
    onnx.save(with_default(), tmp_path / "m.onnx")
    module, params = relay.frontend.from_onnx(tmp_path / "m.onnx")
    assert not params
    parsed = relay.parse(module.astext())
    for program, given in ((module, params), (tmp_path / "m.onnx", None), (parsed, None)):
        vm = relay.VirtualMachine(relay.compile(program, params=given))
        assert vm.run(x=X).numpy().tolist() == [[3, -6]]
        assert vm.run(x=X, k=np.float32(5)).numpy().tolist() == [[5, -10]]


@pytest.mark.parametrize(
    ("model", "overridable", "wanted"),
    [
        (with_default(ir_version=3), None, ["x"]),  # its format lists all stored tensors among the inputs
        (with_default((100, 2)), None, ["x"]),  # as the weights of a network
        (with_default((100, 2)), True, ["x", "k"]),
        (with_default((100, 2)), ["k"], ["x", "k"]),
        (with_default(), False, ["x"]),
        (with_default(ir_version=3), True, ["x", "k"]),
    ],
    ids=["version_3", "large", "all", "by_name", "none", "version_3_all"],
)
def test_the_stored_tensors_that_can_be_replaced(model: Any, overridable: Any, wanted: list[str]) -> None:
    module, _ = relay.frontend.from_onnx(model, overridable=overridable)
    assert [p.name for p in module["main"].params] == wanted


def test_names_that_cannot_be_replaced() -> None:
    found = refusal(with_default(), overridable=["x"])
    assert "names of stored tensors that are inputs, too" in found and "the model lists these among its inputs: k" in found
    assert "True, False, or names of stored tensors" in refusal(with_default(), overridable="k")


def test_a_stored_tensor_that_the_import_must_know_stays_a_constant() -> None:
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["z"]), helper.make_node("Squeeze", ["z"], ["y"], name="/squeeze")]
    model = model_of(nodes, {"x": [4]}, ["y"], {"shape": np.array([1, 4])})
    model.graph.input.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [2]))
    with pytest.warns(relay.frontend.ModelWarning) as caught:
        module, _ = relay.frontend.from_onnx(model)
    assert [str(w.message) for w in caught] == [
        "<model>: the stored tensors shape cannot be given as inputs, but are constants: Squeeze '/squeeze': without axes, every "
        "size must be known at import, for the rank of the result depends on them"
    ]
    assert [p.name for p in module["main"].params] == ["x"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relay.frontend.from_onnx(model, overridable=False)
    assert "every size must be known" in refusal(model, overridable=True)
