"""DLPack of bfloat16, which numpy does not know: it is passed through numpy as uint16, and only the capsule says better."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ..ops.ty import numpy_dtype

#: Where, in what a capsule points at, the description of the dtype is: kind code, bits and lanes.
_DTYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 32 + 20}
_UNSIGNED, _BFLOAT = 1, 4
#: The number of the processor among kinds of devices.
_CPU = 1


def as_array(value: Any) -> np.ndarray:
    """An array over the memory of anything with ``__dlpack__``; a copy of what is on another device, if its producer makes one.

    Raises what numpy or the producer raises.
    """
    view = _Readable(value)
    array = np.from_dlpack(view) if view.__dlpack_device__()[0] == _CPU else np.from_dlpack(view, device="cpu")
    return array.view(numpy_dtype("bfloat16")) if view.is_bfloat16 else array


def capsule(array: np.ndarray, max_version: Any) -> Any:
    """The capsule of an array of any dtype there is."""
    if array.dtype.name != "bfloat16":
        return array.__dlpack__(max_version=max_version)
    made = array.view(np.uint16).__dlpack__(max_version=max_version)
    _kind(made).value = _BFLOAT
    return made


class _Readable:
    """A producer whose bfloat16 is given out as uint16."""

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
    """The code of the kind of number in a fresh capsule, to be read or written."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = api.PyCapsule_GetName(capsule)
    if name not in _DTYPE_AT:
        raise BufferError(f"a capsule called {name!r} is not one of DLPack's")
    return ctypes.c_uint8.from_address(api.PyCapsule_GetPointer(capsule, name) + _DTYPE_AT[name])
