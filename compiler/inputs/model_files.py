"""The names of model files; without the importer, which other programs do not need."""

from __future__ import annotations

from pathlib import Path

#: The suffix of a model's file.
SUFFIX = ".onnx"


def is_model_file(file: object) -> bool:
    """Whether a path, or a text of one line, is the name of a model's file."""
    text = str(file) if isinstance(file, (str, Path)) else ""
    return text.endswith(SUFFIX) and "\n" not in text
