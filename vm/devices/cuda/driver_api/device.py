"""A GPU and its primary context, opened once in a process: its attributes and its loaded kernels."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from .....ops.codegen.cuda.device_code import nvrtc
from .....ops.codegen.cuda.device_code.matrix_instructions import PROOF, PROOF_BYTES, PROOF_THREADS, proof, uses_teams
from .....ops.native.compiled import kernel_store
from .....ops.native.memory import native
from . import provider as providers
from .driver import DRIVER, NoCuda, addresses

_WORD = ctypes.c_int64
#: Attributes of devices and functions, by the driver's numbers.
_MAJOR, _MINOR, _POOLS, _MOST_SHARED = 75, 76, 115, 97
_FUNCTION_SHARED = 8
#: CU_STREAM_CAPTURE_MODE_RELAXED: calls that could conflict with a capture are allowed.
_RELAXED = 2
#: Most static shared memory of a kernel with dynamic shared memory: the driver rejects a sum beyond the limit.
STATIC_SHARED_BYTES = 4 << 10
_OLDEST = 12000
#: The only compute capability with products by teams of warps.
TEAMS = 90
_ERRORS = {
    100: "there is no CUDA device",
    35: "the driver is older than this program needs",
    803: "the driver and the CUDA libraries do not belong together",
    3: "the driver is not initialised; a process that was forked from one that uses CUDA has to be started with `spawn`",
}


#: The error number of a call in a forked process; no error of the driver has it.
FORKED = 1 << 20
FORKED_TEXT = "the GPU was opened by the process that this one was forked from, and cannot be used here"
FORKED_HELP = "start such processes with multiprocessing's method `spawn`, or make the first machine after the fork"

#: Every driver of this process.
_opened: weakref.WeakSet[Driver] = weakref.WeakSet()


class CudaError(Exception):
    """The driver rejected a call: ``number``, and in the text the error's name and meaning."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


@native
def refuse() -> int:
    """The replacement of every driver function in a forked process."""
    return FORKED


class Driver:
    """The driver's functions as Python callables, and for machine code.

    ``is_disabled``: this process was forked from the one that opened the driver, and must not call it.
    """

    is_disabled = False

    def __init__(self) -> None:
        import numpy as np

        self.library = providers.provider.driver()
        self._table = np.array(addresses(self.library), np.int64)
        self._refuse = 0
        self._functions = {
            name: ctypes.CFUNCTYPE(ctypes.c_int32, *[_WORD] * f.n_args)(int(self._table[f.index])) for name, f in DRIVER.items()
        }

    def call(self, name: str, *args: int) -> None:
        """Call a function.  Raises CudaError."""
        error = FORKED if self.is_disabled else self._functions[name](*args)
        if error:
            raise CudaError(error, self.describe(error) if error == FORKED else f"{name}: {self.describe(error)}")

    def get(self, name: str, *args: int, out: int = 0) -> int:
        """Call a function that writes one word through its argument number ``out``; that word.  Raises CudaError."""
        cell = _WORD(0)
        self.call(name, *args[:out], ctypes.addressof(cell), *args[out:])
        return cell.value

    def table(self) -> int:
        """The address of the function table for machine code; in a forked process all entries are ``refuse``."""
        # compiled lazily: a query for the number of devices needs no machine code
        self._refuse = self._refuse or kernel_store.address_of(refuse, "int64()", "the driver's part in a forked process")
        return self._table.ctypes.data

    def disable(self) -> None:
        """Disable every function of the driver, for machine code too."""
        self.is_disabled = True
        self._table[:] = self._refuse

    def describe(self, error: int) -> str:
        """The name and meaning of an error, as ``CUDA_ERROR_OUT_OF_MEMORY: out of memory``."""
        if error == FORKED:
            return FORKED_TEXT
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            cell = ctypes.c_char_p()
            ok = self._functions[name](error, ctypes.addressof(cell)) == 0
            texts.append(cell.value.decode() if ok and cell.value else f"error {error}")
        return ": ".join(dict.fromkeys(texts))


@functools.cache
def driver() -> Driver:
    """The initialised driver.  Raises NoCuda with the reason."""
    found = Driver()
    _opened.add(found)
    try:
        found.call("cuInit", 0)
        version = found.get("cuDriverGetVersion")
    except CudaError as error:
        raise NoCuda(f"no CUDA device can be used: {_ERRORS.get(error.number, error)}") from None
    if version < _OLDEST:
        raise NoCuda(f"the CUDA driver supports CUDA {version // 1000}.{version % 1000 // 10}; CUDA 12 or newer is needed")
    return found


def _disable_all() -> None:
    """Disable all drivers in a forked process: a context belongs to the process that made it; calls with it are undefined."""
    for each in list(_opened):
        each.disable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disable_all)


def count() -> int:
    """The number of GPUs.  Raises NoCuda without a driver."""
    return driver().get("cuDeviceGetCount") & 0xFFFFFFFF


class Device:
    """A GPU: ``ordinal``, ``name``, ``compute_capability`` (90), ``architecture`` (``sm_90``), ``total_bytes``, and its primary
    ``context``."""

    def __init__(self, ordinal: int) -> None:
        self.driver, self.ordinal = driver(), ordinal
        there = count()
        if not 0 <= ordinal < there:
            gpus = "one GPU" if there == 1 else f"{there} GPUs"
            raise NoCuda(f"there is no CUDA device {ordinal}: this machine has {gpus}, counted from 0")
        self._device = self.driver.get("cuDeviceGet", ordinal) & 0xFFFFFFFF
        chars = ctypes.create_string_buffer(256)
        self.driver.call("cuDeviceGetName", ctypes.addressof(chars), 256, self._device)
        self.name = chars.value.decode()
        self.compute_capability = 10 * self.attribute(_MAJOR) + self.attribute(_MINOR)
        self.architecture = f"sm_{self.compute_capability}"
        self.total_bytes = self.driver.get("cuDeviceTotalMem", self._device)
        self.most_shared_bytes = self.attribute(_MOST_SHARED)
        if not self.attribute(_POOLS):
            raise NoCuda(f"{self.name} has no stream-ordered memory pools")
        try:
            self.context = self.driver.get("cuDevicePrimaryCtxRetain", self._device)
        except CudaError as error:
            raise NoCuda(f"{self.name} cannot be used: {error}") from None
        self._lock = threading.Lock()
        self._modules: dict[str, int] = {}
        self._functions: dict[tuple[str, str], int] = {}

    def attribute(self, number: int) -> int:
        """An attribute by the driver's number."""
        return self.driver.get("cuDeviceGetAttribute", number, self._device) & 0xFFFFFFFF

    @functools.cached_property
    def has_teams(self) -> bool:
        """Whether teams of warps multiply matrices, and do so as generated kernels expect (see ``matrix_instructions``).

        The layout of operands is that of the PTX ISA and of published kernels, but it is stated there for fewer cases than are
        generated.  So each GPU is asked once in a process, and a warning says if it differs.
        """
        if self.compute_capability != TEAMS:
            return False
        found = self.team_differences()
        if found:
            message = f"{self.name} multiplies matrices by teams of warps otherwise than expected ({found} differences)"
            help = "attention of halves multiplies by single warps, which is slower"
            warnings.warn(f"{message}: {help}", RuntimeWarning, stacklevel=2)
        return not found

    def team_differences(self) -> int:
        """The number of elements for which products by teams and by warps differ.  Raises CudaError."""
        image = nvrtc.cubin(proof(), f"{self.architecture}a", "products of teams")
        held, name = ctypes.create_string_buffer(image, len(image)), ctypes.create_string_buffer(PROOF.encode())
        get, call = self.driver.get, self.driver.call
        with self.as_current():
            module = get("cuModuleLoadData", ctypes.addressof(held))
            function = get("cuModuleGetFunction", module, ctypes.addressof(name))
            stream, found = get("cuStreamCreate", 1), get("cuMemHostAlloc", 8, 0)
            cell = _WORD.from_address(found)
            cell.value = -1
            words, size = (_WORD * 1)(found), ctypes.c_size_t(8)
            extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(words), 2, ctypes.addressof(size), None)
            try:
                call("cuLaunchKernel", function, 1, 1, 1, PROOF_THREADS, 1, 1, PROOF_BYTES, stream, 0, ctypes.addressof(extra))
                call("cuStreamSynchronize", stream)
                return cell.value
            finally:
                call("cuMemFreeHost", found)
                call("cuStreamDestroy", stream)
                call("cuModuleUnload", module)

    def architecture_of(self, text: str) -> str:
        """The architecture for which CUDA C is compiled: ``sm_90a`` for kernels that multiply by teams."""
        return f"{self.architecture}a" if uses_teams(text) and self.has_teams else self.architecture

    def make_current(self) -> None:
        """Set this GPU's primary context as the thread's current one."""
        self.driver.call("cuCtxSetCurrent", self.context)

    @contextlib.contextmanager
    def as_current(self) -> Iterator[None]:
        """Set this GPU's context as current inside the block, and relax the thread's capture mode.

        ``context_switch`` does the same for machine code.  Raises CudaError.
        """
        mode = ctypes.c_int32(_RELAXED)
        before = self.driver.get("cuCtxGetCurrent")
        self.make_current()
        self.driver.call("cuThreadExchangeStreamCaptureMode", ctypes.addressof(mode))
        try:
            yield
        finally:
            with contextlib.suppress(CudaError):  # of a failed GPU, which is reported elsewhere
                self.driver.call("cuThreadExchangeStreamCaptureMode", ctypes.addressof(mode))
                self.driver.call("cuCtxSetCurrent", before)

    def free_bytes(self) -> tuple[int, int]:
        """Free and total bytes of device memory, for all processes."""
        free, total = _WORD(0), _WORD(0)
        with self.as_current():
            self.driver.call("cuMemGetInfo", ctypes.addressof(free), ctypes.addressof(total))
        return free.value, total.value

    def functions(self, text: str, entries: Mapping[str, bool]) -> dict[str, int]:
        """The kernels of a CUDA C source, compiled (through the kernel cache) and loaded once in a process.

        ``entries``: their names, and whether they are launched with dynamic shared memory.  Raises CudaError if the driver cannot
        load them.
        """
        with self._lock:
            if any((text, e) not in self._functions for e in entries):
                image = nvrtc.cubin(text, self.architecture_of(text))
                with self.as_current():
                    self._load(text, image, entries)
        return {e: self._functions[text, e] for e in entries}

    def _load(self, text: str, image: bytes, entries: Mapping[str, bool]) -> None:
        if text not in self._modules:
            held = ctypes.create_string_buffer(image, len(image))
            self._modules[text] = self.driver.get("cuModuleLoadData", ctypes.addressof(held))
        for entry, is_dynamic in entries.items():
            name = ctypes.create_string_buffer(entry.encode())
            function = self.driver.get("cuModuleGetFunction", self._modules[text], ctypes.addressof(name))
            if is_dynamic:
                self.driver.call("cuFuncSetAttribute", function, _FUNCTION_SHARED, self.most_shared_bytes - STATIC_SHARED_BYTES)
            self._functions[text, entry] = function


@functools.cache
def device(ordinal: int) -> Device:
    """Open GPU number ``ordinal``.  Raises NoCuda with the reason in one line."""
    return Device(ordinal)


@functools.cache
def _library(name: str) -> Any:
    return providers.provider.library(name)


def library_function(library: str, function: str) -> int:
    """The address of a function of a CUDA library.  Raises NoCuda."""
    return ctypes.cast(getattr(_library(library), function), ctypes.c_void_p).value or 0
