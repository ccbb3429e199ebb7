"""``relay.frontend.onnx_metadata``: the texts that an exporter stored in a model beside the graph."""

from __future__ import annotations

from typing import Any

from .reading import read_proto


def onnx_metadata(model: Any) -> dict[str, str]:
    """The metadata of an ONNX model, text by key, such as the characters that a recognition model knows.

    ``model``: a path, a file's contents, or a ModelProto.  Of a key that occurs twice the last text holds.  Raises FileError,
    ModelError and ArgumentError as ``from_onnx``.
    """
    return {entry.key: entry.value for entry in read_proto(model, "onnx_metadata").metadata_props}
