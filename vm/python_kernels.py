"""Kernels that live in Python, called between two entries of the native loop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..ops.group import Group
from ..ops.implementation import HOST
from ..ops.native import memory
from ..ops.native.memory import tensor as record_at
from ..ops.native.status import HOST_KERNEL
from ..ops.ty import DTYPES, ITEMSIZE, numpy_dtype
from . import codes, requests
from .events import HOST_CALL, Event
from .executable import PackedFunc, VMFunction
from .failure import failure, locate, operators, span_of
from .layout import CPU, CUDA, TRACE_OFF, TRACE_TYPES
from .source import Diagnostic, VMError
from .sync_reason import SyncReason, number_of
from .tensor import Tensor

if TYPE_CHECKING:
    from .machine import VirtualMachine


@dataclass(frozen=True)
class _Call:
    """The call that the loop stopped at: the packed function by number, its tensors, and where it is."""

    number: int
    packed: PackedFunc
    addresses: list[int]
    function: VMFunction
    pc: int


def call_python(machine: VirtualMachine) -> None:
    """Run the kernel in Python that the loop stopped at, and step over it.

    Raises VMError for what it raises, and for work of the device that fails before it.
    """
    state = machine._view
    function, pc = locate(machine.exe, machine._starts, int(state["pc"]))
    words = function.code[pc:]
    number, n = int(words[1]), int(words[3])
    packed = machine.exe.packed[number]
    # the queue's kernels take their arguments from there too; a workspace is for other versions
    call = _Call(number, packed, machine._tables.argv[: n - packed.group.workspace].tolist(), function, pc)
    if call.packed.device == CUDA and number in machine._tables.sources:
        _ask_the_card(machine, call)
    elif call.packed.device == CUDA:
        _on_copies(machine, call)
    else:
        _in_place(machine, call)
    state["pc"] += 4 + n


def _in_place(machine: VirtualMachine, call: _Call) -> None:
    """A kernel on memory that the host can read: what is queued before it must have run."""
    if call.packed.device != CPU:
        _wait(machine, number_of(SyncReason.PYTHON_KERNEL))
    arrays = [_host_view(at) for at in call.addresses]
    with _counted(machine, call):
        _run(call.packed.group, arrays)


def _on_copies(machine: VirtualMachine, call: _Call) -> None:
    """A kernel that knows numpy only, for a card: on copies of its tensors, each counted like any other copy."""
    session, n = machine._session, call.packed.n_inputs
    assert session is not None
    results = [np.empty(shape, numpy_dtype(dtype)) for _, shape, dtype in map(described, call.addresses[n:])]
    copies = [_fetched(machine, at) for at in call.addresses[:n]]
    try:
        with _counted(machine, call):
            _run(call.packed.group, [*(_host_view(c._address if isinstance(c, Tensor) else c) for c in copies), *results])
    finally:
        copies.clear()  # the traceback of an error would keep them
    for at, array in zip(call.addresses[n:], results, strict=True):
        session.fill(record_at(at).data, array)
        machine._view["htod_copies"] += 1
        machine._view["htod_bytes"] += array.nbytes
        machine._view["outstanding"] = 1


def _fetched(machine: VirtualMachine, at: int) -> int | Tensor:
    """The tensor on the host: its address, or a copy.  Raises VMError."""
    if record_at(at).device != CUDA:
        return at
    copy = machine._guard.obtain(requests.TO_HOST, at, number_of(SyncReason.PYTHON_KERNEL))
    if copy is None:
        raise failure(machine)
    return copy  # type: ignore[no-any-return]


def _ask_the_card(machine: VirtualMachine, call: _Call) -> None:
    """A kernel that asks a card for its work; nobody waits."""
    state, session = machine._view, machine._session
    assert session is not None
    state["outstanding"] = 1
    state["n_launched"] += 1
    with _counted(machine, call, "asking the card for its work failed"):
        session.run_python(machine._tables.sources[call.number], [described(at) for at in call.addresses])
    if state["wait_each"]:
        _wait(machine, int(state["wait_each"]) - 1)


def _run(group: Group, arrays: Sequence[np.ndarray]) -> None:
    node = group.nodes[0]
    kernel = group.kernel_on(HOST)
    assert kernel is not None and kernel.body is not None
    kernel.body(*arrays, **kernel.attrs(node.attrs))


def _wait(machine: VirtualMachine, why: int) -> None:
    machine._view["status"] = machine._locked(requests.WAIT, why, 0)
    if machine._view["status"]:
        raise failure(machine)


@contextmanager
def _counted(machine: VirtualMachine, call: _Call, what: str = "its kernel in Python failed") -> Iterator[None]:
    """Count and trace what happens inside, and give its exception the place in the program."""
    state = machine._view
    state["host_calls"] += 1
    state["launches"] += 1
    start = time.monotonic_ns()
    try:
        yield
    except Exception as cause:
        text = f"{operators(machine.exe, call.number)}: {what}: {type(cause).__name__}: {cause}"
        error = VMError(Diagnostic(text, span_of(machine.exe, call.function, call.pc), code=codes.of_status(HOST_KERNEL)))
        error.status = HOST_KERNEL
        raise error from cause
    if state["tracing"] != TRACE_OFF:
        shown = [described(at) for at in call.addresses] if state["tracing"] == TRACE_TYPES else []
        types = tuple((dtype, shape) for _, shape, dtype in shown)
        nbytes = sum(int(np.prod(shape)) * ITEMSIZE[dtype] for _, shape, dtype in shown)
        end, live = time.monotonic_ns(), int(state["live_bytes"])
        machine._host_events.append(Event(HOST_CALL, int(state["pc"]), call.number, start, end, nbytes, start, end, live, types))


def described(at: int) -> tuple[int, tuple[int, ...], str]:
    """Address, shape and dtype of a tensor object's elements."""
    t = record_at(at)
    return t.data, tuple(t.shape[i] for i in range(t.ndim)), DTYPES[t.dtype]


def _host_view(at: int) -> np.ndarray:
    """The elements of a tensor object, as an array that does not own them."""
    address, shape, dtype = described(at)
    n = int(np.prod(shape, dtype=np.int64))
    return memory.ARRAYS[f"array_{dtype}"](address, n).reshape(shape)
