"""Every refusal of a request has a status, a code and a text in the protocol's form."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from .asgi import ask
from .test_rest import X, rows, tensor


def changed(**fields: Any) -> dict[str, Any]:
    """A good request whose first input has other fields; None: without the field."""
    first = {k: v for k, v in (rows(X)[0] | fields).items() if v is not None}
    return {"inputs": [first, *rows(X)[1:]]}


BINARY = {"data": None, "parameters": {"binary_data_size": 32}}
LENGTH = "Inference-Header-Content-Length"
SIZES = "a list of sizes, whole numbers of at least 0"
CASES: list[tuple[str, Any, int, str, str]] = [
    ("rows", b"{", 400, "request",
     "the request is no JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    ("rows", b"[" * 4000, 400, "request", "the request is no JSON: text that is no UTF-8, too long a number, or too deep"),
    ("rows", b"\xff", 400, "request", "the request is no JSON: text that is no UTF-8, too long a number, or too deep"),
    ("rows", b"[]", 400, "request", "the request must be a JSON object"),
    ("rows", {}, 400, "request", "inputs must be a list of JSON objects"),
    ("rows", {"inputs": [1]}, 400, "request", "an item of inputs must be a JSON object"),
    ("rows", {"inputs": [], "parameters": 1}, 400, "request", "parameters must be a JSON object"),
    ("rows", {"inputs": rows(X)[:1]}, 400, "request", "no data for the input k, on (the model's inputs: x, k, on)"),
    ("rows", {"inputs": rows(X) + rows(X)}, 400, "request", "the input x is given twice"),
    ("rows", changed(name="y"), 400, "request", "the model rows has no input 'y' (its inputs: x, k, on)"),
    ("rows", changed(name=None), 400, "request", "the name of the request or of a tensor is missing, or no text"),
    ("rows", changed(shape=None), 400, "request", "an input has no shape (a list of sizes)"),
    ("rows", changed(shape=[2.0, 4]), 400, "request", f"the input x has an invalid shape ({SIZES})"),
    ("rows", changed(shape=[-2, 4]), 400, "request", f"the input x has an invalid shape ({SIZES})"),
    ("rows", changed(datatype="FP64"), 400, "request", "the input x has the datatype 'FP64', not FP32"),
    ("rows", changed(shape=[2, 4, 1]), 400, "type", "@main: %x has rank 3, not 2 "
     "(%x is declared Tensor[(?n, 4), float32], the value is Tensor[(2, 4, 1), float32])"),
    ("rows", changed(shape=[4, 2]), 400, "type", "@main: %x has size 2 on axis 1, not 4 "
     "(%x is declared Tensor[(?n, 4), float32], the value is Tensor[(4, 2), float32])"),
    ("rows", {"inputs": [*rows(X)[:1], *rows(X[:1])[1:]]}, 400, "sizes", "@main: %k has size 1 on axis 0, but ?n is 2 "
     "(?n is 2 because of %x axis 0; equal names are equal sizes)"),
    ("rows", changed(data=None), 400, "request",
     "the input x has no data (a list of numbers, or the parameter binary_data_size)"),
    ("rows", changed(data=[1.0]), 400, "request", "the input x has 1 elements, its shape [2, 4] needs 8"),
    ("rows", changed(data=[[1.0], [1.0, 2.0]]), 400, "request", "the input x has lists of different lengths"),
    ("rows", changed(data=[[1.0] * 4] * 3), 400, "request", "the input x has lists that do not fit its shape [2, 4]"),
    ("rows", changed(data=["a"] * 8), 400, "request", "the input x is FP32 and has elements of another type: str"),
    ("rows", changed(data=[True] * 8), 400, "request", "the input x is FP32 and has elements of another type: bool"),
    ("rows", changed(data=[1e39] * 8), 400, "request", "the input x has an element out of the range of FP32"),
    ("rows", changed(data=[10**400] * 8), 400, "request", "the input x has an element out of the range of FP32"),
    ("rows", changed(data=[float("nan")] * 8), 400, "request", "JSON has no NaN (send the tensor as binary data)"),
    ("rows", changed(**BINARY), 400, "request", "the input x has an invalid binary_data_size, with 0 bytes left in the body"),
    ("rows", changed(shape=[10**9, 4]), 413, "limit",
     "the input x has 16000000000 bytes, more than the 1024 of a tensor (the option --tensor-bytes of the server)"),
    ("rows", changed(shape=[0, 4], data=[[1.0]]), 400, "request", "the input x has lists that do not fit its shape [0, 4]"),
    ("rows", {"inputs": rows(X), "id": 3}, 400, "request", "the id of the request or of a tensor is missing, or no text"),
    ("rows", {"inputs": rows(X), "outputs": [{"name": "y"}]}, 400, "request",
     "the model rows has no output 'y' (its outputs: result.0, result.1, result.2)"),
    ("rows", {"inputs": rows(X), "outputs": [{"name": "result.1"}] * 2}, 400, "request", "an output is named twice"),
    ("rows", {"inputs": rows(X), "parameters": {"binary_data_output": 1}}, 400, "request",
     "the parameter binary_data_output cannot be '1' (true or false)"),
    ("rows", {"inputs": rows(X), "parameters": {"timeout": -1}}, 400, "request",
     "the parameter timeout cannot be -1 (a whole number of microseconds, above 0)"),
    ("rows", b" " * 5000, 413, "limit", "the body is longer than 4096 bytes (the option --body-bytes of the server)"),
    ("none", {}, 404, "model", "there is no model 'none'"),
    ("..%2frows.rvm", {}, 404, "model", "there is no model '..%2frows.rvm'"),
    ("rows/versions/2", {}, 404, "model", "the model rows has no version '2' (its versions: 1, 3)"),
    ("pick", {"inputs": [tensor("x", "FP32", np.ones(2)), tensor("i", "INT32", np.array(5)) | {"data": [5]}]}, 422,
     "index-out-of-range", "take: an index is out of range"),
    ("rows/nothing", {}, 404, "endpoint", "there is no endpoint /v2/models/rows/nothing/infer"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "request_", "status", "code", "text"), CASES)
def test_a_refusal(application: Any, model: str, request_: Any, status: int, code: str, text: str) -> None:
    body = request_ if isinstance(request_, bytes) else json.dumps(request_).encode()
    found = ask(application, f"/v2/models/{model}/infer", body)
    assert found.status == status, found.body
    assert (found.data["error"], found.data["code"].partition("/")[2]) == (text, code)


@pytest.mark.parametrize(
    ("headers", "status", "text"),
    [
        ({LENGTH: "9"}, 400, f"the header {LENGTH} is '9', and the body has 2 bytes"),
        ({LENGTH: "-1"}, 400, f"the header {LENGTH} is '-1', and the body has 2 bytes"),
        ({LENGTH: "1"}, 400, "the request is no JSON: Expecting property name enclosed in double quotes: "
         "line 1 column 2 (char 1)"),
        ({"Content-Encoding": "gzip"}, 415, "the content encoding 'gzip' is not supported (send the body as it is)"),
    ],
)  # fmt: skip
def test_a_header_that_is_refused(application: Any, headers: dict[str, str], status: int, text: str) -> None:
    found = ask(application, "/v2/models/rows/infer", b"{}", headers)
    assert (found.status, found.data["error"]) == (status, text)


def test_a_body_without_a_length_is_read_up_to_the_limit(application: Any) -> None:
    found = ask(application, "/v2/models/rows/infer", b" " * 5000, {"Content-Length": ""})
    assert (found.status, found.data["code"]) == (413, "serve/limit")


def test_a_method_that_is_refused(application: Any) -> None:
    found = ask(application, "/v2/models/rows/infer")
    assert (found.status, found.data["error"]) == (405, "the endpoint does not take GET")


def test_an_infinite_result_needs_the_binary_form(application: Any) -> None:
    x = np.full((1, 4), 3e38, "float32")
    found = ask(application, "/v2/models/rows/infer", json.dumps({"inputs": rows(x)}).encode())
    text = "the output result.0 has NaN or infinite elements, which JSON cannot hold (want the output as binary data)"
    assert (found.status, found.data["error"]) == (422, text)
    outputs = [{"name": "result.0", "parameters": {"binary_data": True}}]
    found = ask(application, "/v2/models/rows/infer", json.dumps({"inputs": rows(x), "outputs": outputs}).encode())
    assert found.status == 200 and np.isinf(np.frombuffer(found.body[-16:], "float32")).all()
