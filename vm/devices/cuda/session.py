"""A machine's session on a GPU: streams, memory pool, tables of launches."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ....ops.codegen.cuda import cuda_source
from ....ops.codegen.cuda.cuda_program import Convolution, CudaSource, Launch, MatrixProduct
from ....ops.codegen.cuda.device_code import nvrtc
from ....ops.codegen.cuda.device_code.nvrtc import NoNvrtc
from ....ops.codegen.dependent_launch import FIRST_ARCHITECTURE, waiting
from ....ops.core.group import Group
from ....ops.core.implementation import GPU as ON_GPU
from ....ops.strategy.choice import FORCED
from ...bytecode.executable import PackedFunc
from ...diagnostics.source import ConfigError, VMError
from ...state.gpu_layout import GPU, GRAPH, GRAPHS, LAUNCH_CONFIG, MAX_VARIANTS, OUT_WORDS, PROGRAMMATIC_SERIALIZATION, VARIANT
from ...state.state_layout import HOST_COPIES
from ..device_session import DeviceSession
from .cublas_lt import ProductLibrary
from .cudnn.library import ConvolutionLibrary, report_missing
from .driver_api import provider as providers
from .driver_api.device import FORKED, FORKED_HELP, FORKED_TEXT, CudaError, Device, device, library_function
from .driver_api.driver import NoCuda
from .driver_api.provider import Borrowed
from .gpu import serve
from .interop import StreamInterop
from .launch_table import Plan, Symbols, plan

#: Most regions of launches that are remembered.  A region with library calls has a graph for each of its sizes.
_GRAPH_LIMIT = 512
#: CU_STREAM_NON_BLOCKING: streams that do not synchronize with the legacy default stream.
_NON_BLOCKING = 1
_PORTABLE, _MAPPED = 1, 2
_RELEASE_THRESHOLD = 4
_KEEP_ALL = (1 << 63) - 1
#: Workspace for cuBLAS, cuBLASLt and cuDNN, which work on one stream, in bytes, so that cuBLAS allocates nothing itself (the size
#: that its guide recommends for the newest GPUs).
_WORKSPACE_BYTES = 32 << 20
#: The share of the GPU's memory that cuDNN's workspace takes where that is more.  Engines that need it are rarely the first
#: permitted ones: two convolutions of ResNet-50 on an H100 used none.
_CONVOLUTIONS_SHARE = 256
#: CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: partial sums are not rounded to a 16-bit result before they are added.
_FULL_SUMS = 16
#: Words of a CUlaunchAttribute, and the first driver whose graphs can have kernels that start early.
_ATTRIBUTE_WORDS, _EARLY_IN_GRAPHS = 9, 12030


#: Every session of this process, for reports of memory use.
_open: weakref.WeakSet[Session] = weakref.WeakSet()


def _disable_all() -> None:
    """Disable all launches in a forked process."""
    for each in list(_open):
        each.record["error"] = FORKED


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disable_all)


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Convert an error of the driver or of NVRTC, before a machine runs, to a ConfigError."""
    try:
        yield
    except (NoCuda, NoNvrtc, CudaError) as error:
        forked = isinstance(error, CudaError) and error.number == FORKED
        help = FORKED_HELP if forked else "`cpu` and `sim` need no GPU; `relayvm env` lists the devices found"
        raise ConfigError(str(error), help=help) from None


class Session(DeviceSession):
    """A machine's session on a GPU.  Raises NoCuda with the reason in one line.

    ``tf32``: whether libraries may round the factors of float32 of products and convolutions to TF32, for tensor cores.
    ``record``: the GPU record that machine code works with.
    """

    takes_arrays = True
    host_pool = HOST_COPIES  # page-locked
    is_host_memory = False

    def __init__(self, ordinal: int, graphs: str = "auto", dependent_launch: bool = False, tf32: bool = False) -> None:
        self.device: Device = device(ordinal)
        if dependent_launch and self.device.compute_capability < FIRST_ARCHITECTURE:
            raise NoCuda(
                f"dependent_launch=on needs a GPU of sm_{FIRST_ARCHITECTURE} or newer: {self.device.name} is "
                f"{self.device.architecture}"
            )
        self._provider, self._driver = providers.provider, self.device.driver
        self._handles: dict[str, int] = {}
        self._workspace = 0
        self._tf32 = tf32
        self._products: ProductLibrary | None = None
        self._convolutions: ConvolutionLibrary | None = None
        self._finalizers: list[Callable[[], None]] = []
        self._plans: list[Plan] = []
        self._borrowed: list[Borrowed] = []
        self._owners: set[int] = set()
        super().__init__(ON_GPU, serve, GPU)
        self._out = np.zeros(OUT_WORDS, np.int64)
        self._rows, self._variants = np.zeros(_GRAPH_LIMIT, GRAPH), np.zeros(_GRAPH_LIMIT * MAX_VARIANTS, VARIANT)
        self._scratch = np.zeros(1, np.int64)
        self.interop = StreamInterop(self.device, self.record)
        self._config = np.zeros(1, LAUNCH_CONFIG)
        with self.device.as_current():
            self._open(graphs)
        if dependent_launch:
            self._start_early()

    def _open(self, graphs: str) -> None:
        record, driver = self.record, self._driver
        record["driver"], record["context"] = driver.table(), self.device.context
        record["out"], record["graph_rows"], record["graph_limit"] = self._out.ctypes.data, self._rows.ctypes.data, _GRAPH_LIMIT
        record["graphs"], record["variants"] = GRAPHS[graphs], self._variants.ctypes.data
        for stream in ("compute", "copies"):
            record[stream] = driver.get("cuStreamCreate", _NON_BLOCKING)
            self._on_close("cuStreamDestroy", int(record[stream]))
        record["pool"] = self._new_pool()
        self._on_close("cuMemPoolDestroy", int(record["pool"]))
        record["fault"] = driver.get("cuMemHostAlloc", 8, _PORTABLE | _MAPPED)
        self._on_close("cuMemFreeHost", int(record["fault"]))
        ctypes.memset(int(record["fault"]), 0, 8)

    def _start_early(self) -> None:
        """Let the GPU start a kernel before the kernel in front of it has ended (see ``ops.codegen.dependent_launch``)."""
        config, word = self._config[0], np.dtype(np.int64).itemsize
        config["stream"], config["n_attributes"] = self.record["compute"], 1
        config["attribute"], config["is_allowed"][0] = PROGRAMMATIC_SERIALIZATION, 1
        config["attributes"] = self._config.ctypes.data + LAUNCH_CONFIG.itemsize - _ATTRIBUTE_WORDS * word
        self.record["launch_config"] = self._config.ctypes.data
        self.record["captures_early"] = self._driver.get("cuDriverGetVersion") >= _EARLY_IN_GRAPHS

    def _on_close(self, function: str, argument: int) -> None:
        """Call a function of the driver when the session closes."""
        # no reference to the session here: a cycle would keep its memory until the garbage collector runs
        self._finalizers.append(functools.partial(self._driver.call, function, argument))

    def _new_pool(self) -> int:
        """A memory pool that keeps its memory: returning it at every synchronization would cost more than the work."""
        properties = np.zeros(11, np.int64)
        properties.view(np.int32)[[0, 2, 3]] = 1, 1, self.device.ordinal  # plain memory, on a device, this one
        pool = self._driver.get("cuMemPoolCreate", properties.ctypes.data)
        keep = np.array([_KEEP_ALL], np.int64)
        self._driver.call("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, keep.ctypes.data)
        return pool

    def close(self) -> None:
        """Destroy streams, pool and handles.  After an error of the GPU they are lost with its context."""
        with contextlib.suppress(CudaError), self.device.as_current():
            for finalize in reversed(self._finalizers):
                with contextlib.suppress(CudaError, NoCuda):
                    finalize()
        self._finalizers.clear()

    def __del__(self) -> None:
        if getattr(self, "_finalizers", None):
            self.close()

    # ---- launches --------------------------------------------------------------------------------------------------

    def attach(self, state: Any, address: int) -> None:
        """Attach the machine with this STATE record to the GPU."""
        super().attach(state, address)
        self.record["state"] = address
        _open.add(self)

    def plans(self, packed: Iterable[PackedFunc]) -> list[int]:
        """The address of the words of each packed function's launches.

        Raises VMError if an implementation is forced whose library is missing, ConfigError if the GPU cannot be used.
        """
        with reported():
            return self._planned(packed)

    def _planned(self, packed: Iterable[PackedFunc]) -> list[int]:
        with self.device.as_current():
            sources = [(p.group, self._waiting(self._possible(cuda_source(p.group), p))) for p in packed]
        nvrtc.compile_all(
            [(s.text, self.device.architecture_of(s.text)) for _, s in sources if s.text], [g.name for g, s in sources if s.text]
        )
        with self.device.as_current():
            found = [self._plan(group, source) for group, source in sources]
        self._scratch = np.zeros(max([p.n_scratch for p in self._plans] + [1]), np.int64)
        self.record["workspaces"] = self._scratch.ctypes.data
        return found

    def _waiting(self, source: CudaSource) -> CudaSource:
        """The source, whose kernels wait for the kernels before them if they may start early."""
        return replace(source, text=waiting(source.text)) if int(self.record["launch_config"]) else source

    def _plan(self, group: Group, source: CudaSource) -> int:
        launches = [s for s in source.steps if isinstance(s, Launch)]
        functions = self.device.functions(source.text, {s.entry: s.shared_bytes != 0 for s in launches}) if launches else {}
        find = functions.__getitem__
        fault = int(self.record["fault"])
        symbols = Symbols(find, self._library_function, self._handle, self._product, self._convolution, fault)
        made = plan(group, source, symbols)
        self._plans.append(made)
        return made.words.ctypes.data

    def _library_function(self, name: str) -> int:
        assert name.startswith("cublas"), name
        return library_function("cublas", name)

    def _handle(self, library: str) -> int:
        """The handle of a library on this session's stream, made once.  Raises NoCuda."""
        assert library == "cublas", library
        if library not in self._handles:
            self._handles[library] = self._new_cublas()
        return self._handles[library]

    def _new_cublas(self) -> int:
        handle = ctypes.c_int64(0)
        _cublas("cublasCreate_v2", ctypes.addressof(handle))
        _cublas("cublasSetStream_v2", handle.value, int(self.record["compute"]))
        _cublas("cublasSetMathMode", handle.value, _FULL_SUMS)
        workspace = self._new_workspace()
        # after the workspace: finalizers run in reverse order
        self._finalizers.append(functools.partial(_cublas, "cublasDestroy_v2", handle.value))
        _cublas("cublasSetWorkspace_v2", handle.value, workspace, _WORKSPACE_BYTES)
        return handle.value

    def _new_workspace(self) -> int:
        """The workspace of all libraries, made once: they work on one stream, so one call uses it after another."""
        if not self._workspace:
            self._workspace = self._allocated(_WORKSPACE_BYTES)
        return self._workspace

    def _allocated(self, nbytes: int) -> int:
        """Memory of the GPU until the session is closed."""
        stream, pool = int(self.record["compute"]), int(self.record["pool"])
        address = self._driver.get("cuMemAllocFromPoolAsync", nbytes, pool, stream)
        self._finalizers.append(functools.partial(self._driver.call, "cuMemFreeAsync", address, stream))
        return address

    def _product(self, step: MatrixProduct, alpha: int, beta: int) -> int:
        """The record of a product by cuBLASLt.  Raises NoCuda."""
        if self._products is None:
            self._products = ProductLibrary(
                functools.partial(library_function, "cublasLt"),
                self._new_workspace(),
                _WORKSPACE_BYTES,
                self._finalizers.append,
                self._tf32,
            )
            self.record["products"] = self._products.address
        return self._products.product(step, alpha, beta)

    def _possible(self, source: CudaSource, packed: PackedFunc) -> CudaSource:
        """The source without convolutions by cuDNN if the library is missing: the steps after them do their work."""
        if not any(isinstance(step, Convolution) for step in source.steps):
            return source
        try:
            self._convolution_library()
        except NoCuda as error:
            op, name = packed.group.nodes[0].op, packed.group.implementation
            if packed.because == FORCED:
                raise VMError(f"{op}: its implementation {name!r}, which is forced, cannot be used: {error}") from error
            report_missing(op, packed.group.nodes[0].operator.kernels_on(ON_GPU)[-1].name, str(error))
            return replace(source, steps=tuple(s for s in source.steps if not isinstance(s, Convolution)))
        return source

    def _convolution_library(self) -> ConvolutionLibrary:
        """cuDNN on this session's stream, opened once.  Raises NoCuda."""
        if self._convolutions is None:
            find, stream = functools.partial(library_function, "cudnn"), int(self.record["compute"])
            nbytes, on_close = max(_WORKSPACE_BYTES, self.device.total_bytes // _CONVOLUTIONS_SHARE), self._finalizers.append
            workspace = self._new_workspace() if nbytes == _WORKSPACE_BYTES else self._allocated(nbytes)
            self._convolutions = ConvolutionLibrary(find, stream, workspace, nbytes, on_close, self._tf32)
            self.record["convolutions"] = self._convolutions.address
        return self._convolutions

    def _convolution(self, step: Convolution) -> int:
        """The record of a convolution by cuDNN."""
        return self._convolution_library().convolution(step)

    # ---- arrays of other libraries ---------------------------------------------------------------------------------------------

    def is_here(self, value: Any) -> bool:
        """Whether ``value`` is another library's array on this GPU."""
        return self._provider.is_on_gpu(value, self.device.ordinal)

    def borrow(self, value: Any) -> Borrowed:
        """Borrow another library's array, in place and contiguous, for a call that keeps it: see ``keep``.

        Raises VMError while its owner's stream is under capture, and for an invalid stream.
        """
        owner = self._provider.stream_of(value, self.device.ordinal)
        with self.device.as_current():
            if owner is not None and self._is_capturing(owner):
                raise VMError(
                    "an argument's owner captures a graph: what the machine launches cannot become a part of it",
                    help="run the program before the capture, or pass a numpy array",
                )
            with self._provider.on_stream(int(self.record["compute"]), self.device.ordinal):
                found = self._provider.borrow(value)
        if owner is not None:
            self._owners.add(owner)
        return found

    def keep(self, arguments: Any) -> None:
        """Keep the borrowed arrays among the arguments of a call alive, in tuples too, until ``release_borrowed``."""
        for value in arguments:
            if isinstance(value, Borrowed):
                self._borrowed.append(value)
            elif isinstance(value, tuple):
                self.keep(value)

    def _is_capturing(self, owner: int) -> bool:
        try:
            return self.interop.is_capturing(owner)
        except CudaError as error:
            raise VMError(f"the stream of an argument's owner cannot be used: {error}") from None

    def make_owners_wait(self) -> None:
        """Make the streams of owners of borrowed arrays wait for all launches so far: owners may then overwrite the arrays."""
        owners, self._owners = self._owners, set()
        if not int(self.record["error"]):
            with contextlib.suppress(CudaError):  # the next wait for results reports the error
                for stream in owners:
                    self.interop.make_wait(stream)

    def release_borrowed(self) -> None:
        """Drop borrowed arrays, between two calls, once the host has waited for the work that may read them."""
        self.interop.record_uses()
        if not int(self.state["outstanding"]):
            self._borrowed.clear()

    # ---- copies and messages -----------------------------------------------------------------------------------------------

    def copy_to_device(self, address: int, array: np.ndarray) -> None:
        """Copy a host array to the GPU, in stream order.  Raises CudaError."""
        if array.nbytes:
            with self.device.as_current():
                self._driver.call("cuMemcpyHtoDAsync", address, array.ctypes.data, array.nbytes, int(self.record["compute"]))

    def memory_text(self) -> str:
        """Describe the use of the GPU's memory: by this machine, by other machines of this process, by everything else."""
        mine = int(self.state["pool_bytes"])
        others = sum(int(s.state["pool_bytes"]) for s in _open if s is not self and s.device is self.device)
        free, total = self.device.free_bytes()
        rest = max(0, total - free - mine - others)
        return (
            f"of the {total} bytes of {self.device.name} this machine holds {mine}, other machines of this process {others}, "
            f"everything else {rest}; {free} are free"
        )

    @property
    def ordinal(self) -> int:
        """The number of the GPU."""
        return self.device.ordinal

    @property
    def stream(self) -> int:
        """The driver's handle of the compute stream."""
        return int(self.record["compute"])

    def export(self, tensor: Any, stream: int | None) -> Any:
        """The owner object for another library that uses a tensor on its own stream (see ``interop``)."""
        return self.interop.export(tensor, stream)

    @property
    def error(self) -> int:
        """The number of the error that the GPU has reported; 0: none."""
        return int(self.record["error"])

    @property
    def help(self) -> str:
        """The help for an error of the GPU."""
        if int(self.record["error"]) == FORKED:
            return FORKED_HELP
        return (
            "nothing on the GPU can be trusted after this: make a new VirtualMachine, after an illegal address in a new "
            "process; compile with debug_sync=on to learn which launch it is"
        )

    def describe_error(self, number: int) -> str:
        """The meaning of an error number of the GPU's record, in a sentence."""
        if number == FORKED:
            return FORKED_TEXT
        if number < 0:  # the statuses of cuDNN have four digits
            return f"the GPU reports {'cuDNN' if number <= -1000 else 'cuBLAS'} status {-number}"
        return f"the GPU reports {self._driver.describe(number)}"


def _cublas(function: str, *args: int) -> None:
    """Call a function of cuBLAS.  Raises NoCuda."""
    error = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * len(args))(library_function("cublas", function))(*args)
    if error:
        raise NoCuda(f"{function} failed with cuBLAS status {error}")


__all__ = ["GRAPHS", "NoCuda", "Session"]
