"""The protocol's protobuf messages, built from a table when they are first needed.

No generated file: protoc's output is bound to the versions of protobuf that it was made for, this table to none.  The descriptors
are in a pool of their own, so a client's copy of the same messages in one process is no conflict.
"""

from __future__ import annotations

import functools
from typing import Any

from .refusals import RequestError

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"

_PARAMETERS = "map InferParameter parameters"
_TENSOR = ("string name 1", "string datatype 2", "repeated int64 shape 3")
#: Messages and their fields: label (none, ``repeated``, ``map``: from texts), type, name, number.
MESSAGES: dict[str, tuple[str, ...]] = {
    "InferParameter": (
        "oneof bool bool_param 1", "oneof int64 int64_param 2", "oneof string string_param 3", "oneof double double_param 4",
        "oneof uint64 uint64_param 5",
    ),
    "InferTensorContents": (
        "repeated bool bool_contents 1", "repeated int32 int_contents 2", "repeated int64 int64_contents 3",
        "repeated uint32 uint_contents 4", "repeated uint64 uint64_contents 5", "repeated float fp32_contents 6",
        "repeated double fp64_contents 7", "repeated bytes bytes_contents 8",
    ),
    "ServerLiveRequest": (),
    "ServerLiveResponse": ("bool live 1",),
    "ServerReadyRequest": (),
    "ServerReadyResponse": ("bool ready 1",),
    "ModelReadyRequest": ("string name 1", "string version 2"),
    "ModelReadyResponse": ("bool ready 1",),
    "ServerMetadataRequest": (),
    "ServerMetadataResponse": ("string name 1", "string version 2", "repeated string extensions 3"),
    "ModelMetadataRequest": ("string name 1", "string version 2"),
    "ModelMetadataResponse.TensorMetadata": (*_TENSOR, f"{_PARAMETERS} 4"),
    "ModelMetadataResponse": (
        "string name 1", "repeated string versions 2", "string platform 3",
        "repeated ModelMetadataResponse.TensorMetadata inputs 4", "repeated ModelMetadataResponse.TensorMetadata outputs 5",
    ),
    "ModelInferRequest.InferInputTensor": (*_TENSOR, f"{_PARAMETERS} 4", "one InferTensorContents contents 5"),
    "ModelInferRequest.InferRequestedOutputTensor": ("string name 1", f"{_PARAMETERS} 2"),
    "ModelInferRequest": (
        "string model_name 1", "string model_version 2", "string id 3", f"{_PARAMETERS} 4",
        "repeated ModelInferRequest.InferInputTensor inputs 5",
        "repeated ModelInferRequest.InferRequestedOutputTensor outputs 6", "repeated bytes raw_input_contents 7",
    ),
    "ModelInferResponse.InferOutputTensor": (*_TENSOR, f"{_PARAMETERS} 4", "one InferTensorContents contents 5"),
    "ModelInferResponse": (
        "string model_name 1", "string model_version 2", "string id 3", f"{_PARAMETERS} 4",
        "repeated ModelInferResponse.InferOutputTensor outputs 5", "repeated bytes raw_output_contents 6",
    ),
}  # fmt: skip


@functools.cache
def message(name: str) -> Any:
    """The class of a message."""
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def parsed(name: str, data: bytes) -> Any:
    """The message in these bytes.  Raises RequestError for bytes that are no such message."""
    from google.protobuf.message import DecodeError

    try:
        return message(name).FromString(data)
    except DecodeError:
        raise RequestError(f"the request is no message {name}") from None


@functools.cache
def _pool() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool

    file = descriptor_pb2.FileDescriptorProto(name="open_inference.proto", package=PACKAGE, syntax="proto3")
    found: dict[str, Any] = {}
    for name in sorted(MESSAGES, key=lambda name: name.count(".")):
        outer, _, inner = name.rpartition(".")
        found[name] = (found[outer].nested_type if outer else file.message_type).add(name=inner)
    for name, lines in MESSAGES.items():
        for line in lines:
            _add_field(found[name], name, line.split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


def _add_field(owner: Any, owner_name: str, words: list[str]) -> None:
    label, kind, name, number = words if len(words) == 4 else ["", *words]
    field = owner.field.add(name=name, number=int(number), label=3 if label in ("repeated", "map") else 1)
    if label == "map":
        entry = owner.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        for part in ("string key 1", f"{kind} value 2"):
            _add_field(entry, owner_name, part.split())
        kind = f"{owner_name}.{entry.name}"
    if label == "oneof":
        if not owner.oneof_decl:
            owner.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0
    scalar = getattr(field, f"TYPE_{kind.upper()}", None)
    if scalar is None:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        field.type = scalar
