"""onnxruntime's names of errors, as the errors here: code that catches the first catches the second.

onnxruntime has them in the module ``onnxruntime.capi.onnxruntime_pybind11_state``.
"""

from __future__ import annotations

from ....vm.diagnostics.source import FileError, InputError, ModelError, RelayError, VMError

__all__ = [
    "DeviceReset", "EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoadCanceled",
    "ModelLoaded", "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NotFound", "NotImplemented", "RuntimeException",
]  # fmt: skip

Fail = RelayError
InvalidArgument = InputError
InvalidGraph = InvalidProtobuf = ModelError
NoSuchFile = FileError
#: Of a model with an operator that no kernel computes.
NotImplemented = ModelError
RuntimeException = VMError


class _Unraised(RelayError):
    """An error of what does not happen here: scripts name it in ``except``."""


DeviceReset = EPFail = EngineError = ModelLoadCanceled = ModelLoaded = ModelRequiresCompilation = NoModel = NotFound = _Unraised
