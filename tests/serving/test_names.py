"""Names of outputs and inputs with defaults in the server: metadata, requests by JSON and by gRPC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.serving.batches import batch_plan, check_batches
from relayvm.serving.protocol import grpc_form
from relayvm.serving.protocol.limits import Limits
from relayvm.serving.protocol.messages import message
from relayvm.serving.protocol.served_model import ServedModel

from .asgi import ask

#: Results with names; a parameter with the default 3.
PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n), float32], %k: Tensor[(), float32], output_names=["boxes", "logits"], defaults=["00004040"]) {
  (multiply(%x, %k), negative(%x))
}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "m.rvm"
    relay.compile(relay.parse(PROGRAM)).save(path)
    return path


@pytest.fixture(scope="module")
def app(file: Path) -> Iterator[Any]:
    from relayvm.serving.rest import application

    repository = relay.serving.load([f"m={file}"], limits=Limits(workers=1, reload_ms=0))
    yield application(repository, owns=False)
    repository.close()


def infer(app: Any, inputs: list[dict[str, Any]], **more: Any) -> Any:
    return ask(app, "/v2/models/m/infer", json.dumps({"inputs": inputs, **more}).encode())


X = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2]}


def test_metadata_has_the_names_and_tells_which_input_is_optional(app: Any) -> None:
    found = ask(app, "/v2/models/m").data
    assert [t["name"] for t in found["outputs"]] == ["boxes", "logits"]
    assert [t["parameters"].get("optional", False) for t in found["inputs"]] == [False, True]


def test_a_request_names_outputs_and_may_leave_out_a_default(app: Any) -> None:
    found = infer(app, [X]).data["outputs"]
    assert [(o["name"], o["data"]) for o in found] == [("boxes", [3, 6]), ("logits", [-1, -2])]
    k = {"name": "k", "datatype": "FP32", "shape": [], "data": [5]}
    found = infer(app, [k, X], outputs=[{"name": "boxes"}]).data["outputs"]
    assert [(o["name"], o["data"]) for o in found] == [("boxes", [5, 10])]
    refused = infer(app, [X], outputs=[{"name": "result.0"}])
    assert refused.status == 400 and "its outputs: boxes, logits" in refused.data["error"]
    assert "no data for the input x" in infer(app, [k]).data["error"]


def test_the_same_by_grpc(file: Path) -> None:
    model = ServedModel.of("m", "1", relay.Executable.load(file))
    request = message("ModelInferRequest")(model_name="m")
    entry = request.inputs.add(name="x", datatype="FP32", shape=[2])
    entry.contents.fp32_contents.extend([1, 2])
    request.outputs.add(name="logits")
    decoded = grpc_form.decode(model, request, Limits())
    assert [float(a.sum()) for a in decoded.arguments] == [3, 3] and [w.number for w in decoded.wanted] == [1]


def test_metadata_by_grpc(file: Path) -> None:
    found = grpc_form.metadata(ServedModel.of("m", "1", relay.Executable.load(file)).metadata(["1"]))
    assert [t.name for t in (*found.inputs, *found.outputs)] == ["x", "k", "boxes", "logits"]
    assert found.inputs[1].parameters["optional"].bool_param and "optional" not in found.inputs[0].parameters
    assert found.inputs[0].parameters["dims"].string_param == "?n"


def test_requests_of_one_batch_share_the_values_of_defaults(file: Path) -> None:
    model = ServedModel.of("m", "1", relay.Executable.load(file))
    plan = batch_plan(model, ["n"])
    assert plan is not None and plan.inputs == ("n", "")
    vm = relay.VirtualMachine(model.exe)
    check_batches(plan, lambda arguments: [r.numpy().copy() for r in vm.run(*arguments)])
    three, five = np.float32(3).reshape(()), np.float32(5).reshape(())
    a, b = [np.ones(2, "float32"), three], [np.zeros(1, "float32"), three]
    assert plan.key(a) == plan.key(b) != plan.key([b[0], five])
    joined = plan.join([a, b])
    assert (joined[0].tolist(), joined[1].tolist()) == ([1, 1, 0], 3)
