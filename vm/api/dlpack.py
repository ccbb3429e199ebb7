"""DLPack with bfloat16: numpy does not support the dtype, so numpy sees uint16 and the dtype in the capsule is patched."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ...ops.core.tensor_types import numpy_dtype

#: Byte offset of the dtype (type code, bits, lanes) in the capsule's structure, by the capsule's name.
_DTYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 32 + 20}
_UNSIGNED, _BFLOAT = 1, 4
#: DLPack's device type of the CPU.
CPU = 1


def as_array(value: Any) -> np.ndarray:
    """An array that shares memory with an object with ``__dlpack__``; a copy for another device, if the producer supports it.

    Raises the exceptions of numpy and of the producer.
    """
    view = _Readable(value)
    array = np.from_dlpack(view) if view.__dlpack_device__()[0] == CPU else np.from_dlpack(view, device="cpu")
    return array.view(numpy_dtype("bfloat16")) if view.is_bfloat16 else array


def capsule(array: np.ndarray, max_version: Any) -> Any:
    """The DLPack capsule of an array of any supported dtype."""
    if array.dtype.name != "bfloat16":
        return array.__dlpack__(max_version=max_version)
    made = array.view(np.uint16).__dlpack__(max_version=max_version)
    _kind(made).value = _BFLOAT
    return made


class _Readable:
    """Wrapper of a producer that presents bfloat16 as uint16."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.is_bfloat16 = False

    def __dlpack_device__(self) -> Any:
        return self._value.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        made = self._value.__dlpack__(**options)
        kind = _kind(made)
        if kind.value == _BFLOAT:
            self.is_bfloat16, kind.value = True, _UNSIGNED
        return made


def _kind(capsule: Any) -> ctypes.c_uint8:
    """A writable view of the dtype's type code in a fresh capsule."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    if name not in _DTYPE_AT:
        raise BufferError(f"a capsule called {name!r} is not one of DLPack's")
    return ctypes.c_uint8.from_address(api.PyCapsule_GetPointer(capsule, name) + _DTYPE_AT[name])
