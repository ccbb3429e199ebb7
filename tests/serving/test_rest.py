"""The REST transport: health, metadata, inference with JSON and binary tensors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.serving.protocol.endpoints import ENDPOINTS, endpoints_table
from relayvm.serving.protocol.limits import limits_table

from .asgi import Answer, ask
from .conftest import SMALL

ROOT = Path(__file__).resolve().parents[2]
X = np.arange(8, dtype="float32").reshape(2, 4)


def tensor(name: str, datatype: str, array: np.ndarray, **more: Any) -> dict[str, Any]:
    return {"name": name, "datatype": datatype, "shape": list(array.shape), "data": array.tolist()} | more


def rows(x: np.ndarray) -> list[dict[str, Any]]:
    n = len(x)
    return [tensor("x", "FP32", x), tensor("k", "INT32", np.arange(n)), tensor("on", "BOOL", np.arange(n) % 2 == 0)]


def infer(app: Any, model: str, request: Any, tail: bytes = b"", **headers: str) -> Answer:
    head = json.dumps(request).encode()
    if tail:
        headers["Inference-Header-Content-Length"] = str(len(head))
    return ask(app, f"/v2/models/{model}/infer", head + tail, headers)


def test_the_page_has_every_endpoint_and_every_limit() -> None:
    text = (ROOT / "docs" / "serving.md").read_text()
    assert endpoints_table() in text and limits_table() in text


def test_health(application: Any) -> None:
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/rows/ready", "/v2/models/rows/versions/3/ready"):
        assert ask(application, path).status == 200, path
    assert ask(application, "/v2/models/none/ready").status == 404
    assert ask(application, "/v2").data["extensions"] == ["binary_tensor_data"]


def test_metadata_has_the_names_of_sizes(application: Any) -> None:
    found = ask(application, "/v2/models/rows").data
    assert found["versions"] == ["1", "3"] and found["platform"] == "relayvm_relay"
    assert found["inputs"][0] == {"name": "x", "datatype": "FP32", "shape": [-1, 4], "parameters": {"dims": "?n, 4"}}
    assert [(t["name"], t["datatype"], t["shape"]) for t in found["outputs"]] == [
        ("result.0", "FP32", [-1, 4]), ("result.1", "INT32", [-1]), ("result.2", "BOOL", [-1]),
    ]  # fmt: skip
    kept = ask(application, "/v2/models/kept").data["outputs"]
    assert [(t["name"], t["shape"], t["parameters"]) for t in kept] == [("result", [-1], {"dims": "?"})]


@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_json(application: Any, n: int) -> None:
    x = np.arange(4 * n, dtype="float32").reshape(n, 4) / 3
    found = infer(application, "rows", {"id": "a", "inputs": rows(x)}).data
    assert (found["model_name"], found["model_version"], found["id"]) == ("rows", "3", "a")
    data = {t["name"]: t for t in found["outputs"]}
    assert np.array_equal(np.float32(data["result.0"]["data"]), 2 * x.ravel()) and data["result.0"]["shape"] == [n, 4]
    assert data["result.1"]["data"] == [i + 1 for i in range(n)] and data["result.2"]["data"] == [i % 2 == 1 for i in range(n)]


def test_flat_data_named_outputs_and_a_version(application: Any) -> None:
    inputs = rows(X)
    inputs[0]["data"] = X.ravel().tolist()
    request = {"inputs": inputs, "outputs": [{"name": "result.1"}]}
    found = ask(application, "/v2/models/rows/versions/1/infer", json.dumps(request).encode()).data
    assert found == {
        "model_name": "rows", "model_version": "1",
        "outputs": [{"name": "result.1", "datatype": "INT32", "shape": [2], "data": [1, 2]}],
    }  # fmt: skip


def binary_request(x: np.ndarray, k: np.ndarray) -> tuple[dict[str, Any], bytes]:
    n = len(k)
    inputs = [
        {"name": "x", "datatype": "FP32", "shape": [n, 4], "parameters": {"binary_data_size": x.nbytes}},
        tensor("on", "BOOL", np.zeros(n, bool)),
        {"name": "k", "datatype": "INT32", "shape": [n], "parameters": {"binary_data_size": k.nbytes}},
    ]
    return {"inputs": inputs, "parameters": {"binary_data_output": True}}, x.tobytes() + k.tobytes()


@pytest.mark.parametrize("pad", range(4))
def test_binary_tensors_at_any_offset(application: Any, pad: int) -> None:
    k = np.array([5, 6], "int32")
    request, tail = binary_request(X, k)
    found = infer(application, "rows", {"id": "x" * pad} | request, tail)
    length = int(found.headers["inference-header-content-length"])
    outputs, rest = json.loads(found.body[:length])["outputs"], found.body[length:]
    assert [t["parameters"]["binary_data_size"] for t in outputs] == [32, 8, 2] and len(rest) == 42
    assert rest == (2 * X).tobytes() + (k + 1).tobytes() + b"\1\1"


def test_binary_tensors_are_not_copied(application: Any) -> None:
    """The array that reaches the machine is over the body's buffer, and aligned."""
    from relayvm.serving.protocol import json_form
    from relayvm.serving.protocol.limits import Limits

    model = application.routes[0].endpoint.__wrapped__.__self__._repository.pool("rows").model
    request, tail = binary_request(X, np.array([5, 6], "int32"))
    head = json.dumps(request).encode()
    buffer = np.frombuffer(head + tail, np.uint8).copy()
    decoded = json_form.decode(model, buffer.data, len(head), Limits())
    x, k, _ = decoded.arguments
    assert x.ctypes.data == buffer.ctypes.data + len(head) and k.ctypes.data == x.ctypes.data + x.nbytes


def test_sizes_that_depend_on_values(application: Any) -> None:
    x = np.array([1, -1, 3, 0], "float32")
    found = infer(application, "kept", {"inputs": [tensor("x", "FP32", x)]}).data
    assert found["outputs"] == [{"name": "result", "datatype": "FP32", "shape": [2], "data": [1.0, 3.0]}]


def test_statistics(application: Any) -> None:
    infer(application, "kept", {"inputs": [tensor("x", "FP32", np.ones(2))]})
    infer(application, "kept", {"inputs": []})
    text = ask(application, "/metrics").body.decode()
    for status in ("OK", "INVALID_ARGUMENT"):
        assert f'relayvm_requests_total{{model="kept",status="{status}",transport="rest",version="1"}}' in text
    assert 'relayvm_queue_requests{model="kept",version="1"} 0.0' in text


def test_statistics_of_batches(models: Path) -> None:
    repository = relay.serving.load([models / "rows.rvm", models / "kept.rvm"], limits=SMALL, batch=["rows=n"])
    text = repository.metrics.text().decode()
    repository.close()
    assert 'relayvm_batch_requests_count{model="rows"' in text and 'relayvm_batch_requests_count{model="kept"' not in text


def test_every_endpoint_answers(application: Any) -> None:
    for endpoint in ENDPOINTS:
        for path in endpoint.paths:
            found = ask(application, path.format(name="rows", version="1"), b"{}" if endpoint.method == "POST" else None)
            assert found.status == (400 if endpoint.method == "POST" else 200), path
