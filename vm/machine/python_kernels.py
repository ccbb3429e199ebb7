"""Calls of kernels written in Python, between two entries of the native interpreter loop."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import DTYPES, array_bytes, numpy_dtype
from ...ops.native import memory
from ...ops.native.memory import tensor as record_at
from ...ops.native.status import HOST_KERNEL
from ..bytecode.executable import PackedFunc, VMFunction
from ..bytecode.sync_reason import SyncReason, number_of
from ..device_table import CPU, DEVICE_TABLE
from ..diagnostics import codes
from ..diagnostics.source import Diagnostic, VMError
from ..runtime import requests
from ..runtime.kernels.python_call import call_in_python
from ..runtime.tracing.trace_events import HOST_CALL, Event
from ..state.state_layout import TRACE_OFF, TRACE_TYPES
from ..values.tensor import Tensor
from .runtime import Runtime
from .runtime_errors import locate, operators, runtime_error, span_of


@frozen
class _Call:
    """The kernel call at which the loop stopped: number and kernel, tensors, function and pc."""

    number: int
    packed: PackedFunc
    addresses: list[int]
    function: VMFunction
    pc: int


def call_python(runtime: Runtime) -> None:
    """Run the Python kernel at which the loop stopped, and advance the pc past the instruction.

    Raises VMError for an exception of the kernel, and for a failure of earlier device work.
    """
    state = runtime.view
    function, pc = locate(runtime.exe, runtime.tables.starts, int(state["pc"]))
    words = function.code[pc:]
    number, n = int(words[1]), int(words[3])
    packed = runtime.exe.packed[number]
    # copy the addresses, since queued kernels overwrite argv; only native implementations use a workspace
    call = _Call(number, packed, runtime.tables.argv[: n - packed.group.workspace].tolist(), function, pc)
    if not DEVICE_TABLE[call.packed.device].is_host_memory:
        _run_on_copies(runtime, call)
    else:
        _run_in_place(runtime, call)
    state["pc"] += 4 + n


def _run_in_place(runtime: Runtime, call: _Call) -> None:
    """Run a kernel on memory that the host can access, after all queued work has finished."""
    if call.packed.device != CPU:
        _wait(runtime, number_of(SyncReason.PYTHON_KERNEL))
    arrays = [_host_view(at) for at in call.addresses]
    with _counted(runtime, call):
        call_in_python(call.packed.group, arrays)


def _run_on_copies(runtime: Runtime, call: _Call) -> None:
    """Run a kernel that needs numpy arrays on host copies of a device's tensors; the copies are counted."""
    session, n = runtime.session, call.packed.n_inputs
    assert session is not None
    results = [np.empty(shape, numpy_dtype(dtype)) for _, shape, dtype in map(tensor_fields, call.addresses[n:])]
    copies = [_copy_to_host(runtime, at) for at in call.addresses[:n]]
    try:
        with _counted(runtime, call):
            call_in_python(
                call.packed.group, [*(_host_view(c._address if isinstance(c, Tensor) else c) for c in copies), *results]
            )
    finally:
        copies.clear()  # otherwise the traceback of an error would keep them alive
    for at, array in zip(call.addresses[n:], results, strict=True):
        session.copy_to_device(record_at(at).data, array)
        runtime.view["htod_copies"] += 1
        runtime.view["htod_bytes"] += array.nbytes
        runtime.view["outstanding"] = 1


def _copy_to_host(runtime: Runtime, at: int) -> int | Tensor:
    """The address of a tensor on the host, or a host copy of the tensor.  Raises VMError if the copy fails."""
    if DEVICE_TABLE[record_at(at).device].is_host_memory:
        return at
    copy = runtime.guard.obtain(requests.TO_HOST, at, number_of(SyncReason.PYTHON_KERNEL))
    if copy is None:
        raise runtime_error(runtime)
    return copy  # type: ignore[no-any-return]


def _wait(runtime: Runtime, why: int) -> None:
    runtime.view["status"] = runtime.request(requests.WAIT, why, 0)
    if runtime.view["status"]:
        raise runtime_error(runtime)


@contextmanager
def _counted(runtime: Runtime, call: _Call) -> Iterator[None]:
    """Count and trace the call in the ``with`` block, and attach the location in the program to its exception."""
    state = runtime.view
    state["host_calls"] += 1
    state["launches"] += 1
    start = time.monotonic_ns()
    try:
        yield
    except Exception as cause:
        text = f"{operators(runtime.exe, call.number)}: its kernel in Python failed: {type(cause).__name__}: {cause}"
        error = VMError(Diagnostic(text, span_of(runtime.exe, call.function, call.pc), code=codes.of_status(HOST_KERNEL)))
        error.status = HOST_KERNEL
        raise error from cause
    if state["tracing"] != TRACE_OFF and not state["traced_kernels"]:
        shown = [tensor_fields(at) for at in call.addresses] if state["tracing"] == TRACE_TYPES else []
        types = tuple((dtype, shape) for _, shape, dtype in shown)
        nbytes = sum(array_bytes(shape, dtype) for _, shape, dtype in shown)
        end, live = time.monotonic_ns(), int(state["live_bytes"])
        runtime.host_events.append(Event(HOST_CALL, int(state["pc"]), call.number, start, end, nbytes, start, end, live, types))


def tensor_fields(at: int) -> tuple[int, tuple[int, ...], str]:
    """Data address, shape and dtype of a tensor object."""
    t = record_at(at)
    return t.data, tuple(t.shape[i] for i in range(t.ndim)), DTYPES[t.dtype]


def _host_view(at: int) -> np.ndarray:
    """An array over the elements of a tensor object, without ownership."""
    address, shape, dtype = tensor_fields(at)
    return memory.ARRAYS[f"array_{dtype}"](address, math.prod(shape)).reshape(shape)
