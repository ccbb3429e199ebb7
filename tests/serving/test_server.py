"""A server process: clients that others wrote, replaced models, and its end under load."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm as relay

from ..example_programs import example_modules  # noqa: F401  a fixture
from .conftest import ROWS, Server

ROOT = Path(__file__).resolve().parents[2]
DETECTION = ROOT / "examples" / "detection_tail.relay"
LIMIT = 8 << 20


@pytest.fixture(scope="module")
def server(start_server: Callable[..., Server]) -> Server:
    return start_server(f"detector={DETECTION}", "--body-bytes", LIMIT, "--tensor-bytes", LIMIT, "--workers", 2)


def candidates(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    from detection_reference import candidates as drawn

    boxes, logits = drawn(n, seed)
    return boxes, logits


def inferred(client: Any, module: Any, n: int, seed: int, **form: bool) -> list[np.ndarray]:
    """The results of one request through a client of another package."""
    inputs = []
    for name, array in zip(("boxes", "logits"), candidates(n, seed), strict=True):
        inputs.append(module.InferInput(name, list(array.shape), "FP32"))
        inputs[-1].set_data_from_numpy(array, **form)
    outputs = [module.InferRequestedOutput(f"result.{i}", **form) for i in range(3)]
    found = client.infer("detector", inputs, outputs=outputs)
    return [found.as_numpy(f"result.{i}") for i in range(3)]


def check_clients(server: Server, count: int) -> None:
    """``count`` inferences of mixed sizes by each client and form have the results of a local run."""
    import tritonclient.grpc
    import tritonclient.http

    machine = relay.VirtualMachine(relay.compile(DETECTION))
    rest, rpc = (
        tritonclient.http.InferenceServerClient(server.rest),
        tritonclient.grpc.InferenceServerClient(server.grpc),
    )
    for client in (rest, rpc):
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("detector")
    random = np.random.default_rng(0)
    for seed in range(count):
        n = int(random.choice([0, 1, random.integers(0, 200), random.integers(0, 2000)]))
        wanted = [tensor.numpy() for tensor in machine.run(*candidates(n, seed))]
        for client, module, form in (
            (rest, tritonclient.http, {"binary_data": True}), (rest, tritonclient.http, {"binary_data": False}),
            (rpc, tritonclient.grpc, {}),
        ):  # fmt: skip
            found = inferred(client, module, n, seed, **form)
            for a, b in zip(wanted, found, strict=True):  # tritonclient gives empty tensors another dtype
                assert np.array_equal(a, b) and (a.dtype == b.dtype or not a.size), (n, module)
    metadata = rpc.get_model_metadata("detector", as_json=True)
    assert metadata["inputs"][0]["shape"] == ["-1", "4"] and rest.get_model_metadata("detector")["inputs"][0]["shape"] == [-1, 4]


def test_clients_of_another_package(server: Server) -> None:
    check_clients(server, 8)


@pytest.mark.extensive
def test_hundreds_of_inferences(server: Server) -> None:
    check_clients(server, 120)
    check_curl(server, 80)


def curl(*arguments: str, given: bytes = b"") -> bytes:
    """The answer to a request by curl; ``given``: its standard input."""
    return subprocess.run(["curl", "-s", *arguments], input=given, capture_output=True, check=True).stdout


def test_curl(server: Server) -> None:
    assert json.loads(curl(f"{server.rest}/v2/models/detector"))["inputs"][0]["parameters"] == {"dims": "?n, 4"}
    for endpoint in ("health/live", "health/ready", "models/detector/ready"):
        assert curl("-o", "/dev/null", "-w", "%{http_code}", f"{server.rest}/v2/{endpoint}") == b"200"
    check_curl(server, 4)


def check_curl(server: Server, count: int) -> None:
    """``count`` inferences of mixed sizes by curl, in JSON and in binary, have the results of a local run."""
    machine, random = relay.VirtualMachine(relay.compile(DETECTION)), np.random.default_rng(1)
    address = f"{server.rest}/v2/models/detector/infer"
    for seed in range(count):
        n = seed if seed < 2 else int(random.integers(0, 200))
        arrays = dict(zip(("boxes", "logits"), candidates(n, seed), strict=True))
        wanted = [tensor.numpy() for tensor in machine.run(*arrays.values())]
        inputs = [{"name": k, "datatype": "FP32", "shape": a.shape} for k, a in arrays.items()]
        for entry, array in zip(inputs, arrays.values(), strict=True):
            entry["data"] = array.ravel().tolist()
        found = json.loads(curl(address, "--data-binary", "@-", given=json.dumps({"inputs": inputs}).encode()))["outputs"]
        for entry, array in zip(found, wanted, strict=True):
            assert np.array_equal(np.array(entry["data"], array.dtype).reshape(entry["shape"]), array)
        for entry, array in zip(inputs, arrays.values(), strict=True):
            del entry["data"]
            entry["parameters"] = {"binary_data_size": array.nbytes}
        head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
        header = f"Inference-Header-Content-Length: {len(head)}"
        body = head + b"".join(a.tobytes() for a in arrays.values())
        answer = curl("-H", header, address, "--data-binary", "@-", given=body)
        assert answer.endswith(b"}" + b"".join(a.tobytes() for a in wanted))


def test_typed_contents_and_refusals_of_grpc(server: Server) -> None:
    import grpc

    from relayvm.serving.protocol.messages import SERVICE, message

    with grpc.insecure_channel(server.grpc) as channel:

        def call(method: str, **fields: Any) -> Any:
            kind, answer = message(f"{method}Request"), message(f"{method}Response")
            stub = channel.unary_unary(f"/{SERVICE}/{method}", kind.SerializeToString, answer.FromString)
            return stub(kind(**fields), timeout=30)

        def refused(**fields: Any) -> tuple[str, str]:
            with pytest.raises(grpc.RpcError) as error:
                call("ModelInfer", **{"model_name": "detector", **fields})
            return error.value.code().name, error.value.details()

        assert call("ServerMetadata").extensions == ["binary_tensor_data"]
        found = call("ModelMetadata", name="detector").inputs[0]
        assert (list(found.shape), found.parameters["dims"].string_param) == ([-1, 4], "?n, 4")
        boxes, logits = candidates(3, 1)
        arrays = {"boxes": boxes, "logits": logits}
        typed = [
            {"name": k, "datatype": "FP32", "shape": a.shape, "contents": {"fp32_contents": a.ravel().tolist()}}
            for k, a in arrays.items()
        ]
        machine = relay.VirtualMachine(relay.compile(DETECTION))
        wanted = [tensor.numpy() for tensor in machine.run(boxes, logits)]
        answer = call("ModelInfer", model_name="detector", inputs=typed)
        contents = [answer.outputs[0].contents.fp32_contents, answer.outputs[1].contents.fp32_contents]
        assert not answer.raw_output_contents and list(answer.outputs[2].contents.int_contents) == wanted[2].tolist()
        assert all(np.array_equal(np.float32(a), b.ravel()) for a, b in zip(contents, wanted, strict=False))

        assert refused(model_name="none") == ("NOT_FOUND", "there is no model 'none'")
        assert refused(inputs=typed, raw_input_contents=[b""]) == ("INVALID_ARGUMENT", "1 raw contents for 2 inputs")
        both = refused(inputs=typed, raw_input_contents=[b"", b""])
        assert both == ("INVALID_ARGUMENT", "the input boxes has raw and typed contents")
        other = [{**typed[0], "contents": {"int_contents": [1]}}]
        assert refused(inputs=other) == ("INVALID_ARGUMENT", "the input boxes is FP32 and has int_contents (give fp32_contents)")
        huge = [{"name": "boxes", "datatype": "FP32", "shape": [10**9, 4]}]
        assert refused(inputs=huge)[0] == "RESOURCE_EXHAUSTED"
        code, _ = refused(inputs=typed, raw_input_contents=[bytes(2 * LIMIT), b""])
        assert code == "RESOURCE_EXHAUSTED"
        stub = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        with pytest.raises(grpc.RpcError) as error:
            stub(b"\xff", timeout=30)
        text = "the request is no message ModelInferRequest"
        assert (error.value.code().name, error.value.details()) == ("INVALID_ARGUMENT", text)


def test_a_client_that_sends_half_a_request(server: Server) -> None:
    host, _, port = server.rest.partition(":")
    for _ in range(20):
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"POST /v2/models/detector/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")
    check_clients(server, 1)


def test_a_long_body_is_refused_unread(server: Server) -> None:
    """The status comes before the body."""
    host, _, port = server.rest.partition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"POST /v2/models/detector/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 413 ") and b"serve/limit" in answer


# ---- load --------------------------------------------------------------------------------------------------------------------


class Load:
    """Clients in threads that ask until the server is gone.  ``found``: the factors of the answers and the failures, counted."""

    def __init__(self, address: str, clients: int) -> None:
        self.found: Counter[str] = Counter()
        self._address, self._stop = address, threading.Event()
        self.threads = [threading.Thread(target=self._ask, args=(n,), daemon=True) for n in range(1, clients + 1)]
        for thread in self.threads:
            thread.start()

    def _ask(self, n: int) -> None:
        x = [[1.0] * 4] * n
        inputs = [("x", "FP32", [n, 4], x), ("k", "INT32", [n], [0] * n), ("on", "BOOL", [n], [True] * n)]
        request = {"inputs": [dict(zip(("name", "datatype", "shape", "data"), t, strict=True)) for t in inputs]}
        body, connection = json.dumps(request), http.client.HTTPConnection(self._address, timeout=30)
        while not self._stop.is_set():
            try:
                connection.request("POST", "/v2/models/rows/infer", body)
            except OSError:
                self.found["not sent"] += 1
                return
            try:
                answer = connection.getresponse()
                data = json.loads(answer.read())
            except ConnectionError:  # not read by the server
                self.found["closed"] += 1
                return
            if answer.status != 200:
                self.found[f"status {answer.status}"] += 1
                continue
            elements = data["outputs"][0]["data"]
            good = len(elements) == 4 * n and len(set(elements)) == 1
            self.found[f"factor {elements[0]:g}" if good else "wrong"] += 1

    def end(self) -> Counter[str]:
        """Stop the clients; the counts."""
        self._stop.set()
        for thread in self.threads:
            thread.join(60)
        return self.found


def replace_model(text: str, path: Path) -> None:
    """Write an executable beside the file, and rename it."""
    fresh = path.with_suffix(".new.rvm")
    relay.compile(relay.parse(text)).save(fresh)
    os.replace(fresh, path)


def test_a_replaced_model_is_loaded_without_a_lost_request(
    models: Path, tmp_path: Path, start_server: Callable[..., Server]
) -> None:
    path = tmp_path / "rows.rvm"
    shutil.copy(models / "rows.rvm", path)
    server = start_server(path, "--reload-ms", "20", "--batch", "n")
    load = Load(server.rest, 4)
    for wanted, factor in (("factor 3", "3f"), ("factor 5", "5f")):
        replace_model(ROWS.replace("2f", factor), path)
        until = time.monotonic() + 60
        while not load.found[wanted] and time.monotonic() < until:
            time.sleep(0.01)
    path.with_suffix(".bad").write_bytes(b"no executable")
    os.replace(path.with_suffix(".bad"), path)
    time.sleep(0.3)
    before = load.found["factor 5"]
    time.sleep(0.3)
    found = load.end()
    assert set(found) == {"factor 2", "factor 3", "factor 5"} and found["factor 5"] > before, found
    assert "was replaced and cannot be loaded; the model rows stays" in server.stop()


@pytest.mark.parametrize("clients", [8])
def test_the_end_under_load_answers_every_accepted_request(
    models: Path, start_server: Callable[..., Server], clients: int
) -> None:
    """Every request that the server has counted as answered has reached its client, and none was answered wrongly."""
    server = start_server(models / "rows.rvm")
    load = Load(server.rest, clients)
    while load.found["factor 2"] < 50:
        time.sleep(0.01)
    server.stop()
    found = load.end()
    assert set(found) <= {"factor 2", "closed", "not sent", "status 503"}, found
    assert found["closed"] + found["not sent"] == clients, found
