"""One context, stream and pool of the GPU, for tests that run a kernel and check its results."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
import pytest

from . import emulator, real
from .platform import forget

#: The driver's attribute of a function: most dynamic shared memory; and how much there may be without setting it.
_DYNAMIC_SHARED, _SHARED_UNASKED = 8, 48 << 10


class CudaError(Exception):
    """A call of the driver failed: its ``code`` (a CUresult), the function, and what the emulator says about it."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: {code}: {emulator.text() if real.gpu is None else real.gpu.text(code)}")
        self.code = code


def call(function: str, *args: Any) -> None:
    """Calls the driver's function of that symbol.  Raises CudaError."""
    code = getattr(emulator.library(), function)(*args)
    if code:
        raise CudaError(function, code)


def refused(code: int, function: str, *args: object) -> str:
    """Call the driver, which must fail with ``code``; the emulator's message."""
    with pytest.raises(CudaError) as caught:
        call(function, *args)
    assert caught.value.code == code, str(caught.value)
    return str(caught.value)


def made(function: str, *args: Any) -> int:
    """Calls a function whose first parameter is where it writes a handle or an address, and returns that."""
    out = ctypes.c_uint64()
    call(function, ctypes.byref(out), *args)
    return out.value


def word(value: int) -> ctypes.c_uint64:
    """Any integer as the 64-bit word that the driver is passed."""
    return ctypes.c_uint64(value & (1 << 64) - 1)


class Session:
    """A fresh GPU: the emulator is reset when the session starts and when it ends."""

    def __enter__(self) -> Session:
        emulator.reset()
        call("cuInit", 0)
        call("cuCtxSetCurrent", word(made("cuDevicePrimaryCtxRetain", 0)))
        self.pool = made("cuMemPoolCreate", (ctypes.c_int * 64)(1, 0, 1, 0))
        self.stream = self.new_stream()
        self._functions: dict[tuple[bytes, str], int] = {}
        self._modules: list[int] = []
        self._blocks: dict[int, None] = {}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if real.gpu is not None:
            real.gpu.close(self.stream, self.pool, list(self._blocks), self._modules)
        emulator.reset()
        forget()  # machines of later tests open it anew

    def new_stream(self) -> int:
        """Another stream."""
        return made("cuStreamCreate", 1)

    def allocate(self, nbytes: int, stream: int | None = None) -> int:
        """The address of new memory of the device."""
        address = made("cuMemAllocFromPoolAsync", word(nbytes), word(self.pool), word(stream or self.stream))
        self._blocks[address] = None
        return address

    def free(self, address: int, stream: int | None = None) -> None:
        """Gives memory back, when the stream gets there."""
        self._blocks.pop(address, None)
        call("cuMemFreeAsync", word(address), word(stream or self.stream))

    def pinned(self, shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
        """Pinned memory of the host, as an array."""
        n = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return emulator.array(made("cuMemHostAlloc", word(n), 0), shape, dtype)

    def put(self, array: np.ndarray[Any, Any], stream: int | None = None) -> int:
        """The address of a copy of ``array`` on the device."""
        array = np.ascontiguousarray(array)
        address = self.allocate(max(1, array.nbytes), stream)
        call("cuMemcpyHtoDAsync_v2", word(address), word(array.ctypes.data), word(array.nbytes), word(stream or self.stream))
        return address

    def get(self, address: int, shape: Sequence[int], dtype: Any) -> np.ndarray[Any, Any]:
        """The contents of a device array after all work in the stream."""
        self.wait()
        if real.gpu is None:
            return emulator.array(address, shape, dtype).copy()
        out = np.empty(shape, dtype)
        if out.nbytes:
            self.to_host(out, address)
            self.wait()
        return out

    def to_host(self, array: np.ndarray[Any, Any], address: int, stream: int | None = None) -> None:
        """Enqueue a copy of the device memory to ``array``."""
        size, stream = word(array.nbytes), stream or self.stream
        call("cuMemcpyDtoHAsync_v2", word(array.ctypes.data), word(address), size, word(stream))

    def function(self, image: bytes, entry: str) -> int:
        """The handle of a kernel; an image is loaded once."""
        if (image, entry) not in self._functions:
            module = made("cuModuleLoadData", image)
            self._modules.append(module)
            self._functions[image, entry] = made("cuModuleGetFunction", word(module), entry.encode())
        return self._functions[image, entry]

    def allow_shared(self, image: bytes, entry: str, nbytes: int) -> None:
        """Let launches of a kernel have so much dynamic shared memory; any kernel may have 48 KiB."""
        if nbytes > _SHARED_UNASKED:
            call("cuFuncSetAttribute", word(self.function(image, entry)), _DYNAMIC_SHARED, nbytes)

    def launch(
        self,
        image: bytes,
        entry: str,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[int],
        shared_bytes: int = 0,
        stream: int | None = None,
    ) -> None:
        """Enqueues one launch; ``args`` are addresses and int64 numbers."""
        buffer = (ctypes.c_uint64 * max(1, len(args)))(*(word(value).value for value in args))
        size = ctypes.c_size_t(8 * len(args))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), None)
        (gx, gy, gz), (bx, by, bz) = ((*sizes, 1, 1)[:3] for sizes in (grid, block))
        handle = word(self.function(image, entry))
        if real.gpu is not None:
            self.allow_shared(image, entry, shared_bytes)
        call("cuLaunchKernel", handle, gx, gy, gz, bx, by, bz, shared_bytes, word(stream or self.stream), None, extra)

    def wait(self, stream: int | None = None) -> None:
        """Run the work in the stream."""
        call("cuStreamSynchronize", word(stream or self.stream))
