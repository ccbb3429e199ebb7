"""Requests and answers of the REST transport: JSON, with binary tensors behind it (the extension ``binary_tensor_data``)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.core.tensor_types import numpy_dtype
from ...vm.diagnostics import codes
from .datatypes import DATATYPE, little_endian
from .limits import Limits
from .refusals import RequestError, UnreadError, refusal, status_of, text_of
from .requests import InferRequest, Inputs, Wanted, from_bytes, from_numbers, timeout_of, wanted_outputs
from .served_model import ServedModel, TensorSpec

#: The header with the number of bytes of JSON in a body with binary tensors.
JSON_LENGTH = "Inference-Header-Content-Length"
#: Bodies with at least so many bytes of JSON are decoded in another thread: other requests go on meanwhile.
LONG = 1 << 16
#: Statuses of requests that are not read to their end.
_LAST = {408, 413, 431}
#: The parameter with the number of bytes of a binary tensor.
BINARY_SIZE = "binary_data_size"


def json_length(header: str | None, total: int) -> int:
    """The number of bytes of JSON at the beginning of a body of ``total`` bytes.  Raises RequestError."""
    if header is None:
        return total
    if not (header.isascii() and header.isdigit() and len(header) < 20 and int(header) <= total):
        raise RequestError(f"the header {JSON_LENGTH} is {header[:40]!r}, and the body has {total} bytes")
    return int(header)


def decode(model: ServedModel, body: memoryview, length: int, limits: Limits) -> InferRequest:
    """The request in a body whose first ``length`` bytes are JSON.  Binary tensors are arrays over the body itself.

    Raises RequestError for another body, InputError for tensors that do not fit the model.
    """
    data = _object("the request", _parsed(bytes(body[:length])))
    parameters = _object("parameters", data.get("parameters", {}))
    inputs, rest = Inputs(model, limits), body[length:]
    for entry in _objects("inputs", data.get("inputs")):
        rest = _decode_input(inputs, entry, rest)
    if len(rest):
        raise RequestError(f"{len(rest)} bytes follow the data of the last binary input")
    named = [_wanted(entry, parameters) for entry in _objects("outputs", data.get("outputs", []))]
    wanted = wanted_outputs(model, named, _flag("binary_data_output", parameters))
    return InferRequest(_text("id", data.get("id", "")), inputs.arguments(), wanted, timeout_of(parameters))


def _parsed(data: bytes) -> Any:
    try:
        return _DECODER.decode(data.decode(json.detect_encoding(data), "surrogatepass"))
    except (ValueError, RecursionError) as error:
        reason = (
            str(error) if isinstance(error, json.JSONDecodeError) else "text that is no UTF-8, too long a number, or too deep"
        )
        raise RequestError(f"the request is no JSON: {reason}") from None


def _refuse_constant(name: str) -> Any:
    raise RequestError(f"JSON has no {name}", help="send the tensor as binary data")


#: As ``json.loads``, which would make a decoder for each request.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _decode_input(inputs: Inputs, entry: Mapping[str, Any], rest: memoryview) -> memoryview:
    """Decode one input; the bytes behind its binary data."""
    shape = entry.get("shape")
    if not isinstance(shape, list):
        raise RequestError("an input has no shape", help="a list of sizes")
    name, datatype = _text("name", entry.get("name")), _text("datatype", entry.get("datatype"))
    spec = inputs.admit(name, datatype, shape)
    size = _object("parameters", entry.get("parameters", {})).get(BINARY_SIZE)
    if size is None:
        inputs.add(spec.name, from_numbers(spec, shape, _flat(spec, shape, entry.get("data"))))
        return rest
    if type(size) is not int or not 0 <= size <= len(rest) or "data" in entry:
        raise RequestError(f"the input {name} has an invalid {BINARY_SIZE}, with {len(rest)} bytes left in the body")
    inputs.add(spec.name, from_bytes(spec, shape, rest[:size]))
    return rest[size:]


def _flat(spec: TensorSpec, shape: Sequence[int], given: Any) -> list[Any]:
    """The elements of ``given``: a flat list, or lists nested as the shape says.  Raises RequestError."""
    if not isinstance(given, list):
        raise RequestError(f"the input {spec.name} has no data", help=f"a list of numbers, or the parameter {BINARY_SIZE}")
    data: list[Any] = given
    for size in shape[:-1]:
        if not any(isinstance(item, list) for item in data):
            return data
        if not all(isinstance(item, list) for item in data) or (data and len(data) % size if size else data):
            raise RequestError(f"the input {spec.name} has lists that do not fit its shape {list(shape)}")
        if len({len(item) for item in data}) > 1:
            raise RequestError(f"the input {spec.name} has lists of different lengths")
        data = list(itertools.chain.from_iterable(data))
    return data


def _wanted(entry: Mapping[str, Any], parameters: Mapping[str, Any]) -> tuple[str, bool]:
    own = _object("parameters", entry.get("parameters", {}))
    default = _flag("binary_data_output", parameters)
    return _text("name", entry.get("name")), _flag("binary_data", own) if "binary_data" in own else default


def _flag(name: str, parameters: Mapping[str, Any]) -> bool:
    value = parameters.get(name, False)
    if not isinstance(value, bool):
        raise RequestError(f"the parameter {name} cannot be {str(value)[:40]!r}", help="true or false")
    return value


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str):
        raise RequestError(f"the {what} of the request or of a tensor is missing, or no text")
    return value


def _object(what: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(f"{what} must be a JSON object")
    return value


def _objects(what: str, value: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, list):
        raise RequestError(f"{what} must be a list of JSON objects")
    return [_object(f"an item of {what}", item) for item in value]


# ---- answers -----------------------------------------------------------------------------------------------------------------


def encode(
    model: ServedModel, request_id: str, wanted: Sequence[Wanted], arrays: Sequence[np.ndarray]
) -> tuple[bytes, int | None]:
    """The body of an answer, and the number of its bytes of JSON if binary tensors follow.

    Raises RequestError for NaN and infinities that are wanted as JSON.
    """
    entries, chunks = [], []
    for each in wanted:
        entry, chunk = tensor_entry(each.spec.name, each.spec.type.dtype, arrays[each.number], each.binary)
        entries.append(entry)
        chunks += [] if chunk is None else [chunk]
    head = {"model_name": model.name, "model_version": model.version}
    text = json.dumps(head | ({"id": request_id} if request_id else {}) | {"outputs": entries}).encode()
    return (b"".join([text, *chunks]), len(text)) if chunks else (text, None)


def answer_headers(json_length: int | None) -> dict[str, str]:
    """The headers of an answer besides its length; ``json_length``: the result of ``encode``."""
    if json_length is None:
        return {"content-type": "application/json"}
    return {JSON_LENGTH.lower(): str(json_length), "content-type": "application/octet-stream"}


def encode_refusal(error: BaseException) -> tuple[int, dict[str, str], bytes]:
    """The status, headers and body of the protocol's error answer."""
    found = refusal(error)
    status, headers = status_of(found).http, {"content-type": "application/json"}
    if status == 429:
        headers["retry-after"] = "1"
    if status in _LAST or isinstance(found, UnreadError):
        headers["connection"] = "close"  # the rest of the request is not read
    return status, headers, json.dumps({"error": text_of(found), "code": found.code}).encode()


def tensor_entry(name: str, dtype: str, array: np.ndarray, binary: bool) -> tuple[dict[str, Any], bytes | None]:
    """A tensor's JSON and its binary data, None if the JSON has the elements.  Raises RequestError as ``encode``."""
    entry: dict[str, Any] = {"name": name, "datatype": DATATYPE[dtype], "shape": list(array.shape)}
    if binary:
        data = array.astype(little_endian(dtype), copy=False).tobytes()
        return entry | {"parameters": {BINARY_SIZE: len(data)}}, data
    if numpy_dtype(dtype).kind not in "biu" and not np.isfinite(array).all():
        message = f"the output {name} has NaN or infinite elements, which JSON cannot hold"
        raise RequestError(message, help="want the output as binary data", code=codes.Serve.RESULT)
    return entry | {"data": array.ravel().tolist()}, None
