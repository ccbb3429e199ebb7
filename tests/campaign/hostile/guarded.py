"""Arrays that end where a page begins that nobody may touch, and that nobody may write: who goes too far ends the process."""

from __future__ import annotations

import ctypes
import functools
import mmap

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_NOTHING, _READ, _WRITE = 0, 1, 2
_PAGE = mmap.PAGESIZE


@functools.lru_cache(maxsize=2048)
def _copy(data: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    size = max(1, -(-len(data) // _PAGE)) * _PAGE
    block = _LIBC.mmap(None, size + 2 * _PAGE, _READ | _WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    assert block not in (None, ctypes.c_void_p(-1).value), "no memory"
    address = block + _PAGE + size - len(data)
    ctypes.memmove(address, data, len(data))
    for start, length, access in (
        (block, _PAGE, _NOTHING),
        (block + _PAGE, size, _READ),
        (block + _PAGE + size, _PAGE, _NOTHING),
    ):
        assert _LIBC.mprotect(start, length, access) == 0
    # the pages stay for as long as the process: what keeps an address too long shall find them
    raw = (ctypes.c_ubyte * max(1, len(data))).from_address(address if data else address - 1)
    array = np.frombuffer(raw, np.uint8)[: len(data)].view(dtype).reshape(shape)
    array.setflags(write=False)
    return array


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy of ``array`` between two pages without access, in pages that can only be read; equal arrays share it."""
    if array.dtype.name == "bfloat16":
        return array
    return _copy(np.ascontiguousarray(array).tobytes(), array.dtype.str, array.shape)
