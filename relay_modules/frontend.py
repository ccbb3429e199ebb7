"""The names of ``relay.frontend``: importers of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .compiler.onnx_frontend.importing.from_onnx import from_onnx
from .compiler.onnx_frontend.importing.metadata import onnx_metadata
from .compiler.onnx_frontend.importing.reading import onnx_package
from .compiler.onnx_frontend.model import ModelWarning
from .compiler.torch_frontend.importing.from_torch import from_torch

if TYPE_CHECKING:
    from .compiler.executors.onnx_backend import OnnxBackend

__all__ = ["ModelWarning", "OnnxBackend", "from_onnx", "from_torch", "onnx_metadata"]


def __getattr__(name: str) -> Any:
    """``OnnxBackend``, whose base class is of the package ``onnx``.

    Raises ArgumentError if that is not installed, AttributeError for any other name.
    """
    if name == "OnnxBackend":
        onnx_package()
        from .compiler.executors.onnx_backend import OnnxBackend

        return OnnxBackend
    raise AttributeError(f"there is no relay.frontend.{name}; there are {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
