"""Provider of a GPU's driver, libraries and arrays: the system and cupy, or (in tests) an emulated GPU."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
from typing import Any, Protocol

from .....declarations.frozen_dataclass import frozen
from .driver import NoCuda, load_library


@frozen
class Borrowed:
    """A contiguous array on a GPU, owned by another library; ``owner`` keeps it alive."""

    address: int
    shape: tuple[int, ...]
    dtype: str
    owner: Any


class Provider(Protocol):
    """Source of the driver, the libraries and the arrays of a GPU.  Nothing is loaded before it is needed."""

    def driver(self) -> ctypes.CDLL:
        """The driver's library.  Raises NoCuda."""

    def library(self, name: str) -> ctypes.CDLL:
        """A CUDA library such as ``cublas`` or ``cudnn``.  Raises NoCuda."""

    def on_stream(self, stream: int, ordinal: int) -> contextlib.AbstractContextManager[Any]:
        """Let the arrays' library work on a stream of the driver's on GPU ``ordinal`` inside the block."""

    def is_on_gpu(self, value: Any, ordinal: int) -> bool:
        """Whether ``value`` is another library's array on GPU ``ordinal``."""

    def borrow(self, value: Any) -> Borrowed:
        """Borrow another library's array, in place; the current stream of the library waits for its producer."""

    def stream_of(self, value: Any, ordinal: int) -> int | None:
        """The current stream of the array's owner in this thread; None if the owner never writes to such arrays."""


#: The driver's handle of the legacy default stream.
DEFAULT_STREAM = 1
#: The file of cuDNN, whose versions 9 have one interface.
_CUDNN = "libcudnn.so.9"
#: DLPack's number for CUDA devices.
_DL_CUDA = 2


class CupyProvider:
    """The system's driver; cupy, and the libraries that come with it."""

    def driver(self) -> ctypes.CDLL:
        return load_library()

    def library(self, name: str) -> ctypes.CDLL:
        if name == "cudnn":
            return _cudnn(self.library("cublasLt"))
        # libraries installed with cupy match the driver and cupy; a toolkit of the system may have any version
        problems = []
        try:
            from cuda.pathfinder import load_nvidia_dynamic_lib

            return ctypes.CDLL(str(load_nvidia_dynamic_lib(name).abs_path))
        except Exception as error:  # any exception there means that the library is not available
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

    @contextlib.contextmanager
    def on_stream(self, stream: int, ordinal: int) -> Any:
        cuda = self.xp.cuda
        with cuda.Device(ordinal), cuda.ExternalStream(stream, ordinal):
            yield

    def is_on_gpu(self, value: Any, ordinal: int) -> bool:
        where = getattr(value, "__dlpack_device__", None)
        if where is None:
            return hasattr(value, "__cuda_array_interface__")
        try:
            return tuple(where()) == (_DL_CUDA, ordinal)
        except Exception:  # any of a foreign object's code: the conversion to an array reports it
            return False

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


def _cudnn(cublas_lt: ctypes.CDLL) -> ctypes.CDLL:
    """cuDNN from the package nvidia-cudnn, else from the system.  Raises NoCuda.

    Its engines load cuBLASLt by name, and end the process if there is none: only the cuDNN for the CUDA of the loaded cuBLASLt is
    used.
    """
    problems = []
    spec = importlib.util.find_spec("nvidia")
    installed = [f"{folder}/cudnn/lib/{_CUDNN}" for folder in (spec.submodule_search_locations or ())] if spec else []
    for file in (*filter(os.path.exists, installed), _CUDNN):
        try:
            library = ctypes.CDLL(file)
        except OSError as error:
            problems.append(str(error))
            continue
        wanted, found = (_cuda_major(f) for f in (library.cudnnGetCudartVersion, cublas_lt.cublasLtGetCudartVersion))
        if wanted == found:
            return library
        problems.append(f"{file} is for CUDA {wanted}, and cuBLASLt for CUDA {found}")
    raise NoCuda(f"cuDNN cannot be loaded ({'; '.join(problems)}); pip install 'relayvm[cudnn13]' or '[cudnn12]'")


def _cuda_major(version: Any) -> int:
    """The major version of CUDA, by a library's function for the whole number."""
    version.restype = ctypes.c_size_t
    return int(version()) // 1000


#: The provider of all GPUs of this process.
provider: Provider = CupyProvider()
