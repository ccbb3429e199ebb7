"""Reading of model files: a path, bytes, or a ModelProto."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ....vm.diagnostics import codes
from ....vm.diagnostics.argument_errors import wrong
from ....vm.diagnostics.source import ArgumentError, FileError, ModelError
from ..model import MAX_NESTING, Model, label_of, printable, too_deep
from ..tensors import TensorReader
from .large_tensors import without_large_tensors
from .nesting import deep_node

T = TypeVar("T")

#: The name of a model that was not read from a file.
NO_FILE = "<model>"


def read_model(model: Any, opset: int | None = None, who: str = "from_onnx") -> Model:
    """The model of a path, a file's contents, or a ModelProto.  ``who`` is named in messages about the arguments.

    Raises FileError for a file that cannot be read, ModelError for one that is no model, ArgumentError for anything else.
    """
    onnx = onnx_package()
    if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int) or opset < 1):
        raise wrong(f"{who}: opset", "a positive integer", opset)
    name, folder, apart = NO_FILE, None, dict[str, np.ndarray]()
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        name, folder = str(path), path.parent
        model, apart = _of_file(path, onnx)
    return Model.of(_proto(model, name, who, onnx), name, TensorReader(folder, apart), opset)


def read_proto(model: Any, who: str) -> Any:
    """The ModelProto of a path, a file's contents, or a ModelProto, with all tensors of the file.  Raises as ``read_model``."""
    onnx = onnx_package()
    if not isinstance(model, (str, os.PathLike)):
        return _proto(model, NO_FILE, who, onnx)
    return _proto(_contents(Path(model), BufferedReader.read), str(model), who, onnx)


def _contents(path: Path, read: Callable[[BufferedReader], T]) -> T:
    """The result of ``read`` for an opened file.  Raises FileError."""
    try:
        with path.open("rb") as file:
            return read(file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileError(f"{path} cannot be read: {reason}") from None


def _of_file(path: Path, onnx: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """The ModelProto of a file, and its large tensors; the contents of a file without any, and of one that is no model."""
    from google.protobuf.message import DecodeError

    data, apart = _contents(path, without_large_tensors)
    if not apart:
        return data, apart
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        return _contents(path, BufferedReader.read), {}
    return proto, apart


def _proto(model: Any, name: str, who: str, onnx: Any) -> Any:
    """The checked ModelProto of a file's contents, or of a ModelProto."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        model = _parsed(bytes(model), name, onnx)
    if not isinstance(model, onnx.ModelProto):
        raise wrong(f"{who}: the model", "a path, bytes or a ModelProto", model)
    _check_texts(model, name)
    return model


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
