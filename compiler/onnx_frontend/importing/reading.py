"""Reading of model files: a path, bytes, or a ModelProto."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ....vm.diagnostics import codes
from ....vm.diagnostics.argument_errors import wrong
from ....vm.diagnostics.source import ArgumentError, FileError, ModelError
from ..model import MAX_NESTING, Model, label_of, printable, too_deep
from .nesting import deep_node

#: The name of a model that was not read from a file.
NO_FILE = "<model>"


def read_model(model: Any, opset: int | None = None, who: str = "from_onnx") -> Model:
    """The model of a path, a file's contents, or a ModelProto.  ``who`` is named in messages about the arguments.

    Raises FileError for a file that cannot be read, ModelError for one that is no model, ArgumentError for anything else.
    """
    onnx = onnx_package()
    if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int) or opset < 1):
        raise wrong(f"{who}: opset", "a positive integer", opset)
    name, folder = NO_FILE, None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        name, folder = str(path), path.parent
        try:
            model = path.read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise FileError(f"{path} cannot be read: {reason}") from None
    if isinstance(model, (bytes, bytearray, memoryview)):
        model = _parsed(bytes(model), name, onnx)
    if not isinstance(model, onnx.ModelProto):
        raise wrong(f"{who}: the model", "a path, bytes or a ModelProto", model)
    _check_texts(model, name)
    return Model.of(model, name, folder, opset)


def _parsed(data: bytes, name: str, onnx: Any) -> Any:
    from google.protobuf.message import DecodeError

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        deep = deep_node(data, MAX_NESTING)
        if deep is not None:
            raise too_deep(printable(label_of(*deep))) from None
        raise ModelError(f"{name} is no ONNX model, or it is damaged", code=codes.Model.FORMAT) from None
    if not proto.HasField("graph"):
        raise ModelError(f"{name} is no ONNX model: it has no graph", code=codes.Model.FORMAT)
    return proto


def _check_texts(proto: Any, name: str) -> None:
    """Raise ModelError for a text that is not UTF-8; the package reads it as bytes."""
    waiting = [proto]
    while waiting:
        for field, value in waiting.pop().ListFields():
            single = hasattr(value, "ListFields") or isinstance(value, (str, bytes))
            if field.type == field.TYPE_MESSAGE:
                waiting += [value] if single else value
            elif field.type == field.TYPE_STRING and any(isinstance(v, bytes) for v in ([value] if single else value)):
                raise ModelError(f"{name} is damaged: the field {field.full_name} is no text in UTF-8", code=codes.Model.FORMAT)


def onnx_package() -> Any:
    """The package ``onnx``.  Raises ArgumentError if it is not installed."""
    try:
        import onnx
    except ImportError:
        message = "models are read with the package onnx, which is not installed"
        raise ArgumentError(message, help="pip install 'relayvm[onnx]'") from None
    return onnx
