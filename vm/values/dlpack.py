"""Tensors of other libraries by DLPack: the devices whose memory the CPU reads, and bfloat16.

numpy does not support bfloat16, so numpy sees uint16 and the dtype in the capsule is patched.
"""

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
#: Names of DLPack's device types (``DLDeviceType`` in dlpack.h).
_NAMES = {
    CPU: "CPU", 2: "CUDA", 3: "CUDA_HOST", 4: "OPENCL", 7: "VULKAN", 8: "METAL", 9: "VPI", 10: "ROCM", 11: "ROCM_HOST",
    12: "EXT_DEV", 13: "CUDA_MANAGED", 14: "ONEAPI", 15: "WEBGPU", 16: "HEXAGON", 17: "MAIA", 18: "TRN",
}  # fmt: skip
#: Device types whose memory the CPU reads in place: its own, memory that a driver has pinned, and memory that moves by itself.
_ON_HOST = frozenset({CPU, 3, 11, 13})


class ElsewhereError(BufferError):
    """A tensor on a device whose memory the CPU does not read.  ``device``: its name; ``reason``: the producer's words."""

    def __init__(self, device: str, reason: str) -> None:
        super().__init__(f"it is on the DLPack device {device}, whose memory the CPU does not read")
        self.device, self.reason = device, reason


def as_array(value: Any) -> np.ndarray:
    """An array that shares memory with an object with ``__dlpack__``; a copy for another device, if the producer supports it.

    Raises ElsewhereError for a device whose tensors the producer does not copy, and the exceptions of numpy and of the producer.
    """
    device, number = _device_of(value)
    if device in _ON_HOST:
        return _read(value)
    try:
        return _read(value, device="cpu")
    except Exception as error:  # any of a foreign object's code; old producers do not know the argument
        reason = "" if isinstance(error, TypeError) else str(error)
        raise ElsewhereError(_name(device, number), reason) from error


def in_place(value: Any) -> np.ndarray:
    """An array that shares memory with an object with ``__dlpack__``; never a copy.

    Raises ElsewhereError for a tensor that the CPU does not reach, and the exceptions of numpy and of the producer.
    """
    device, number = _device_of(value)
    if device not in _ON_HOST:
        raise ElsewhereError(_name(device, number), "")
    return _read(value)


def _device_of(value: Any) -> tuple[int, int]:
    """The device's type and number.  Raises BufferError for a producer that does not say."""
    found = value.__dlpack_device__()
    if not (isinstance(found, tuple) and len(found) == 2 and all(isinstance(n, int) for n in found)):
        raise BufferError(f"its __dlpack_device__ returns {found!r}, not a type and a number")
    return int(found[0]), int(found[1])


def _name(device: int, number: int) -> str:
    return f"{_NAMES.get(device, f'of type {device}')}:{number}"


def _read(value: Any, **options: Any) -> np.ndarray:
    view = _Readable(value)
    array = np.from_dlpack(view, **options)
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
