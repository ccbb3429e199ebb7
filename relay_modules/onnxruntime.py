"""The interface of onnxruntime's Python package for inference, over the machine: ``import relayvm.onnxruntime as ort``."""

from __future__ import annotations

from .compiler.executors.session.inference_session import InferenceSession, ModelMetadata, NodeArg
from .compiler.executors.session.options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions
from .compiler.executors.session.providers import (
    ProviderWarning,
    get_all_providers,
    get_available_providers,
    get_device,
)
from .compiler.executors.session.values import IOBinding, OrtValue

__all__ = [
    "ExecutionMode", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg", "OrtValue",
    "ProviderWarning", "RunOptions", "SessionOptions", "get_all_providers", "get_available_providers", "get_device",
]  # fmt: skip
