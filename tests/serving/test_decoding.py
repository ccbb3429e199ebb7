"""Laws of the decoders: a tensor that is encoded decodes to itself, and no body, however damaged, is an error of the server."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.core.tensor_types import DTYPES, numpy_dtype
from relayvm.serving.protocol import grpc_form, json_form, messages
from relayvm.serving.protocol.limits import Limits
from relayvm.serving.protocol.requests import wanted_outputs
from relayvm.serving.protocol.served_model import ServedModel
from relayvm.vm.diagnostics.source import RelayError

from ..tiers import examples
from .asgi import ask
from .test_rest import X, binary_request, rows


def model_of(dtype: str) -> ServedModel:
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?a, ?b), {dtype}]) {{ %x }}'
    return ServedModel.of("same", "1", relay.compile(relay.parse(text)))


MODELS = {dtype: model_of(dtype) for dtype in DTYPES}


@settings(max_examples=200)
@given(st.sampled_from(DTYPES), st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(0, 1 << 32), st.booleans())
def test_what_is_encoded_decodes_to_the_same(dtype: str, shape: tuple[int, int], seed: int, binary: bool) -> None:
    random = np.random.default_rng(seed)
    array = np.frombuffer(random.bytes(16 * numpy_dtype(dtype).itemsize), numpy_dtype(dtype))[: shape[0] * shape[1]].reshape(
        shape
    )
    if dtype == "bool":
        array = array.view("uint8") % 2 == 1
    finite = array if numpy_dtype(dtype).kind in "biu" else np.where(np.isfinite(array), array, array.dtype.type(1))
    array = array if binary else finite.astype(array.dtype)
    entry, data = json_form.tensor_entry("x", dtype, array, binary)
    head = json.dumps({"inputs": [entry]}).encode()
    (found,) = json_form.decode(MODELS[dtype], memoryview(head + (data or b"")), len(head), Limits()).arguments
    assert found.dtype == array.dtype and found.shape == array.shape and found.tobytes() == array.tobytes()


@settings(max_examples=200)
@given(st.sampled_from(DTYPES), st.integers(0, 5), st.integers(0, 1 << 32), st.booleans())
def test_what_a_message_holds_decodes_to_the_same(dtype: str, n: int, seed: int, raw: bool) -> None:
    """Each number of each dtype, NaN and infinities included: protobuf carries them all."""
    array = np.frombuffer(np.random.default_rng(seed).bytes(8 * n), numpy_dtype(dtype))[:n]
    kind = numpy_dtype(dtype).kind
    if dtype == "bool":
        array = array.view("uint8") % 2 == 1
    elif kind not in "biu":
        special = [np.nan, np.inf, -np.inf, -0.0, 5e-324, *array][:n]
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array) if seed % 2 else np.array(special, array.dtype)
    model, array = MODELS[dtype], array.reshape(1, n)
    answer = grpc_form.encode(model, "1", wanted_outputs(model, [], raw), [array])
    entry = {"name": "x", "datatype": answer.outputs[0].datatype, "shape": array.shape}
    contents = list(answer.raw_output_contents)
    request = messages.message("ModelInferRequest")(model_name="same", inputs=[entry], raw_input_contents=contents)
    if not contents and n:
        request.inputs[0].contents.CopyFrom(answer.outputs[0].contents)
    request = messages.parsed("ModelInferRequest", request.SerializeToString())
    (found,) = grpc_form.decode(model, request, Limits()).arguments
    assert found.dtype == array.dtype and found.shape == array.shape and np.array_equal(found, array, equal_nan=kind not in "biu")
    assert np.array_equal(np.signbit(found), np.signbit(array)) or kind in "biu"


@pytest.mark.skipif(sys.byteorder != "little", reason="other computers convert")
def test_binary_tensors_take_a_machine_s_short_way_in(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array whose dtype is another object than numpy's own is prepared at five times the cost of a short run."""
    model = ServedModel.of("rows", "1", relay.Executable.load(models / "rows.rvm"))
    data, tail = binary_request(X, np.arange(len(X), dtype="int32"))
    head = json.dumps(data).encode()
    head += b" " * (-len(head) % 64)
    body = np.frombuffer(head + tail, np.uint8).copy()
    assert body.ctypes.data % 16 == 0
    request = json_form.decode(model, body.data, len(head), Limits())
    machine = relay.VirtualMachine(model.exe)
    monkeypatch.setattr("relayvm.vm.machine.machine_core.Entry._call_general", None)
    assert np.array_equal(machine.run(*request.arguments)[0].numpy(), 2 * X)


def test_our_messages_are_those_of_the_protocol() -> None:
    """Field by field as in another implementation of the protocol; fields that it lacks are optional metadata."""
    from tritonclient.grpc import service_pb2

    theirs = service_pb2.DESCRIPTOR.message_types_by_name
    for name in messages.MESSAGES:
        other, own = theirs[name.partition(".")[0]], messages.message(name).DESCRIPTOR
        if "." in name:
            other = other.nested_types_by_name[name.partition(".")[2]]
        fields = {f.number: (f.name, f.type, f.is_repeated) for f in other.fields}
        found = {f.number: (f.name, f.type, f.is_repeated) for f in own.fields}
        extra = found.keys() - fields.keys()
        assert {n: found[n] for n in fields} == fields, name
        assert not extra or name == "ModelMetadataResponse.TensorMetadata"
    methods = {m.name for m in service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods}
    from relayvm.serving.protocol.endpoints import ENDPOINTS

    assert {e.rpc for e in ENDPOINTS if e.rpc} <= methods


# ---- damage ------------------------------------------------------------------------------------------------------------------


def bodies() -> list[tuple[bytes, int]]:
    """Good bodies, each with the number of its bytes of JSON."""
    request, tail = binary_request(X, np.array([5, 6], "int32"))
    head = json.dumps(request).encode()
    plain = json.dumps({"id": "a", "inputs": rows(X), "outputs": [{"name": "result.1"}]}).encode()
    return [(plain, len(plain)), (head + tail, len(head))]


WORDS = [
    b"-1",
    b"1e999",
    b"null",
    b"[]",
    b"{}",
    b"[[[]]]",
    b'"',
    b"18446744073709551616",
    b"true",
    b"NaN",
    b"\xff",
    b"\\u0000",
    b"0.5",
]


def damaged(body: bytes, random: np.random.Generator) -> bytes:
    """A body with some bytes removed, repeated, flipped or replaced by words."""
    for _ in range(random.integers(1, 4)):
        at, size = int(random.integers(0, len(body) + 1)), int(random.integers(0, 9))
        part = (
            b"",
            body[at : at + 2 * size],
            random.bytes(size),
            WORDS[random.integers(len(WORDS))],
        )[random.integers(4)]
        body = body[:at] + part + body[at + size :]
    return body


def check_damage(app: Any, count: int, seed: int) -> Counter[int]:
    random, found = np.random.default_rng(seed), Counter[int]()
    for i in range(count):
        good, length = bodies()[i % 2]
        body = damaged(good, random)
        headers = {json_form.JSON_LENGTH: str(length + int(random.integers(-1, 2)))} if i % 2 else {}
        answer = ask(app, "/v2/models/rows/infer", body, headers)
        assert answer.status in (200, 400, 413), (answer, body)
        if answer.status != 200:
            assert answer.data["error"], body
        found[answer.status] += 1
    assert ask(app, "/v2/models/rows/infer", bodies()[0][0]).status == 200
    return found


def test_damaged_bodies_are_refused(application: Any) -> None:
    assert check_damage(application, examples(1000), 1)[400] > 100


@pytest.mark.extensive
def test_ten_thousand_damaged_bodies(application: Any) -> None:
    assert sum(check_damage(application, 10_000, 2).values()) == 10_000


def test_damaged_messages_are_refused(models: Path) -> None:
    model = ServedModel.of("rows", "1", relay.Executable.load(models / "rows.rvm"))
    kind, random, found = messages.message("ModelInferRequest"), np.random.default_rng(3), Counter[str]()
    inputs = [{"name": t["name"], "datatype": t["datatype"], "shape": t["shape"]} for t in rows(X)]
    raw = [X.tobytes(), np.array([5, 6], "int32").tobytes(), b"\0\1"]
    good = kind(model_name="rows", inputs=inputs, raw_input_contents=raw).SerializeToString()
    from google.protobuf.message import DecodeError

    for _ in range(1000):
        try:
            request = kind.FromString(damaged(good, random))
        except DecodeError:
            found["no message"] += 1
            continue
        try:
            grpc_form.decode(model, request, Limits())
        except RelayError:
            found["refused"] += 1
        else:
            found["decoded"] += 1
    assert found["refused"] > 10 and found["no message"] > 10, found
