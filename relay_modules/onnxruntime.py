"""The interface of onnxruntime's Python package for inference, over the machine: ``import relayvm.onnxruntime as ort``."""

from __future__ import annotations

from types import ModuleType

from . import __version__ as __version__
from .compiler.builder.import_paths import importable
from .compiler.executors.session import error_names
from .compiler.executors.session.error_names import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    RuntimeException,
)
from .compiler.executors.session.inference_session import InferenceSession, ModelMetadata, NodeArg
from .compiler.executors.session.options import ExecutionMode, GraphOptimizationLevel, RunOptions, SessionOptions
from .compiler.executors.session.package_functions import (
    disable_telemetry_events,
    enable_telemetry_events,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
from .compiler.executors.session.providers import (
    ProviderWarning,
    get_all_providers,
    get_available_providers,
    get_device,
)
from .compiler.executors.session.values import IOBinding, OrtValue

__all__ = [
    "ExecutionMode", "Fail", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "InvalidArgument", "InvalidGraph",
    "InvalidProtobuf", "ModelMetadata", "NoSuchFile", "NodeArg", "OrtValue", "ProviderWarning", "RunOptions",
    "RuntimeException", "SessionOptions", "__version__", "disable_telemetry_events", "enable_telemetry_events",
    "get_all_providers", "get_available_providers", "get_device", "set_default_logger_severity", "set_default_logger_verbosity",
    "set_seed",
]  # fmt: skip

#: onnxruntime's module with the names of its errors.
capi = ModuleType(f"{__name__}.capi")
vars(capi)["onnxruntime_pybind11_state"] = error_names
importable(__name__, {"capi": capi, "capi.onnxruntime_pybind11_state": error_names})
