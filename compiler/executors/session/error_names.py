"""onnxruntime's names of errors, as the errors here: code that catches the first catches the second.

onnxruntime has them in the module ``onnxruntime.capi.onnxruntime_pybind11_state``.
"""

from __future__ import annotations

from ....vm.diagnostics.source import FileError, InputError, ModelError, RelayError, VMError

__all__ = [
    "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NoSuchFile", "NotImplemented", "RuntimeException",
]  # fmt: skip

Fail = RelayError
InvalidArgument = InputError
InvalidGraph = InvalidProtobuf = ModelError
NoSuchFile = FileError
#: Of a model with an operator that no kernel computes.
NotImplemented = ModelError
RuntimeException = VMError
