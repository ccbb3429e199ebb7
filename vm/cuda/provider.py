"""Where a card's driver, libraries and arrays come from: the system and cupy, or (in tests) an emulated card."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from dataclasses import dataclass
from typing import Any, Protocol

from .driver import NoCuda, load_library


@dataclass(frozen=True)
class Borrowed:
    """An array on a card that somebody else owns, contiguous; ``owner`` keeps it alive."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    owner: Any


class Provider(Protocol):
    """What a card is opened with.  Nothing is loaded before it is asked for."""

    def driver(self) -> ctypes.CDLL:
        """The driver's library.  Raises NoCuda."""

    def library(self, name: str) -> ctypes.CDLL:
        """A CUDA library such as ``cublas``.  Raises NoCuda."""

    @property
    def xp(self) -> Any:
        """The module with numpy's interface over arrays of the card.  Raises NoCuda."""

    def array(self, address: int, shape: tuple[int, ...], dtype: str, ordinal: int) -> Any:
        """An array of ``xp`` over memory of the card that somebody else owns."""

    def on_stream(self, stream: int, ordinal: int) -> contextlib.AbstractContextManager[Any]:
        """While this is open, ``xp`` works on a stream of the driver's on card ``ordinal``."""

    def is_here(self, value: Any, ordinal: int) -> bool:
        """Is ``value`` another library's array on card ``ordinal``?"""

    def borrow(self, value: Any) -> Borrowed:
        """That array, in place; the current stream of ``xp`` waits for what makes it."""

    def stream_of(self, value: Any, ordinal: int) -> int | None:
        """The stream that the array's owner works on now in this thread; None where nobody writes into such arrays."""


#: The process's default stream, by the driver's name for it.
DEFAULT_STREAM = 1
#: DLPack's number for CUDA devices.
_DL_CUDA = 2


class CupyProvider:
    """The system's driver; cupy, and the libraries that come with it."""

    def driver(self) -> ctypes.CDLL:
        return load_library()

    def library(self, name: str) -> ctypes.CDLL:
        # what came with cupy fits the driver and cupy; a toolkit of the system may be of any age
        problems = []
        try:
            from cuda.pathfinder import load_nvidia_dynamic_lib

            return ctypes.CDLL(str(load_nvidia_dynamic_lib(name).abs_path))
        except Exception as error:  # each kind of failure there means the same here: it cannot be had
            problems.append(str(error).strip().partition("\n")[0] or type(error).__name__)
        for file in (f"lib{name}.so.13", f"lib{name}.so.12"):
            try:
                return ctypes.CDLL(file)
            except OSError as error:
                problems.append(str(error))
        raise NoCuda(f"{name} cannot be loaded ({'; '.join(problems)}); pip install 'relayvm[cuda13]' or '[cuda12]'")

    @property
    def xp(self) -> Any:
        try:
            import cupy
        except ImportError as error:
            raise NoCuda(f"cupy cannot be imported ({error}); pip install 'relayvm[cuda13]' or '[cuda12]'") from None
        return cupy

    def array(self, address: int, shape: tuple[int, ...], dtype: str, ordinal: int) -> Any:
        import math

        from ...ops.ty import ITEMSIZE, numpy_dtype

        cupy = self.xp
        nbytes = math.prod(shape) * ITEMSIZE[dtype]
        memory = cupy.cuda.UnownedMemory(address, max(nbytes, 1), None, ordinal)
        return cupy.ndarray(shape, numpy_dtype(dtype), cupy.cuda.MemoryPointer(memory, 0))

    @contextlib.contextmanager
    def on_stream(self, stream: int, ordinal: int) -> Any:
        cuda = self.xp.cuda
        with cuda.Device(ordinal), cuda.ExternalStream(stream, ordinal):
            yield

    def is_here(self, value: Any, ordinal: int) -> bool:
        where = getattr(value, "__dlpack_device__", None)
        if where is None:
            return hasattr(value, "__cuda_array_interface__")
        return tuple(where()) == (_DL_CUDA, ordinal)

    def borrow(self, value: Any) -> Borrowed:
        cupy = self.xp
        array = cupy.from_dlpack(value) if hasattr(value, "__dlpack__") else cupy.asarray(value)
        array = cupy.ascontiguousarray(array)
        return Borrowed(int(array.data.ptr), tuple(array.shape), array.dtype.name, (value, array))

    def stream_of(self, value: Any, ordinal: int) -> int | None:
        library = type(value).__module__.partition(".")[0]
        if library in ("jax", "jaxlib"):
            return None
        if library == "torch":
            return int(sys.modules["torch"].cuda.current_stream(ordinal).cuda_stream) or DEFAULT_STREAM
        if library == "cupy":
            with self.xp.cuda.Device(ordinal):
                return int(self.xp.cuda.get_current_stream().ptr) or DEFAULT_STREAM
        described = getattr(value, "__cuda_array_interface__", None) or {}
        return int(described.get("stream") or DEFAULT_STREAM)


#: What cards are opened with.
provider: Provider = CupyProvider()
