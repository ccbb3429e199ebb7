"""The names of ``relay.frontend``: importers of models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .compiler.onnx_frontend.from_onnx import from_onnx
from .compiler.onnx_frontend.metadata import onnx_metadata
from .compiler.onnx_frontend.model import ModelWarning
from .compiler.onnx_frontend.reading import onnx_package

if TYPE_CHECKING:
    from .compiler.onnx_frontend.backend import OnnxBackend

__all__ = ["ModelWarning", "OnnxBackend", "from_onnx", "onnx_metadata"]


def __getattr__(name: str) -> Any:
    """``OnnxBackend``, whose base class is of the package ``onnx``.

    Raises ArgumentError if that is not installed, AttributeError for any other name.
    """
    if name == "OnnxBackend":
        onnx_package()
        from .compiler.onnx_frontend.backend import OnnxBackend

        return OnnxBackend
    raise AttributeError(f"there is no relay.frontend.{name}; there are {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
