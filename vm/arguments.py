"""Arguments of a call, the slow way: anything that people pass, checked in words, as objects of the machine on their device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ops.native.layout import TAG_TENSOR
from ..ops.native.memory import store_i64
from ..ops.native.memory import tensor as record_at
from ..ops.native.status import RESULT_LOST, STATUS
from ..ops.ty import DTYPES, TensorType, TupleType, Type
from . import requests
from .donation import give
from .executable import DEVICES
from .layout import CUDA
from .signature import Fitting, as_array
from .sim import is_lost
from .source import VMError
from .sync_reason import SyncReason
from .tensor import Tensor

if TYPE_CHECKING:
    from .machine import VirtualMachine


def prepare(machine: VirtualMachine, fitting: Fitting, name: str, ty: Type, value: Any, device: int) -> Any:
    """The argument as an array, a tensor of this machine, or a tuple of these, checked against its type.

    One that is taken on the host is on the host.
    """
    if isinstance(ty, TupleType):
        if not isinstance(value, (tuple, list)) or len(value) != len(ty.fields):
            what = f"{len(value)} values" if isinstance(value, (tuple, list)) else type(value).__name__
            raise VMError(f"@{fitting.function.name}: %{name} takes {len(ty.fields)} values in a tuple, not {what}")
        return tuple(
            prepare(machine, fitting, f"{name}.{i}", t, v, device) for i, (t, v) in enumerate(zip(ty.fields, value, strict=True))
        )
    if not isinstance(ty, TensorType):
        raise VMError(f"@{fitting.function.name} takes a function as %{name}: only the program itself can call it")
    if isinstance(value, Tensor):
        fitting.check(name, ty, value.shape, value.dtype.name)
        if value._vm is machine and value.device in (machine.device, "cpu"):
            if is_lost(value._address):
                raise lost(value)
            return value if device else _on_host(value)
        value = value.numpy()
    if device and machine._session is not None and machine._session.holds(value):
        there = machine._session.borrow(value)
        fitting.check(name, ty, there.shape, there.dtype)
        return there
    array = as_array(name, value, ty.dtype)
    fitting.check(name, ty, array.shape, array.dtype.name)
    return array


def _on_host(tensor: Tensor) -> Tensor:
    return tensor if tensor.device == DEVICES[0] else tensor._vm._to_host(tensor, SyncReason.PASSED_ON)


def object_of(machine: VirtualMachine, prepared: Any, device: int, donated: bool = False) -> int:
    """An object on ``device`` for a prepared argument, owned by the caller; what is copied there is nobody else's anyway.

    Raises VMError when there is no memory.
    """
    if isinstance(prepared, tuple):
        at = machine._some(machine._locked(machine._state, requests.NEW_TUPLE, len(prepared), 0))
        try:
            for i, p in enumerate(prepared):
                store_i64(record_at(at).data + 8 * i, object_of(machine, p, device))
        except BaseException:
            machine._locked(machine._state, requests.RELEASE, at, 0)
            raise
        return at
    if isinstance(prepared, Tensor):
        at = machine._locked(machine._state, requests.RETAIN, prepared._address, 0)
    else:
        at = machine._some(machine._locked(machine._state, requests.NEW_OBJECT, TAG_TENSOR, 0))
        t = record_at(at)
        on_card = not isinstance(prepared, np.ndarray)
        t.data, t.device = (prepared.address, CUDA) if on_card else (prepared.ctypes.data, 0)
        t.ndim, t.dtype = len(prepared.shape), DTYPES.index(prepared.dtype if on_card else prepared.dtype.name)
        for axis, size in enumerate(prepared.shape):
            t.shape[axis] = size
    if donated and device == 0:
        give(machine, at, prepared)
    if device == 0 or record_at(at).device == device:
        return at
    try:
        there = machine._locked(machine._state, requests.TO_DEVICE, at, device)
        if not there and machine._view["outstanding"]:  # the blocks that queued work may touch are free when it has run
            machine._wait(SyncReason.MEMORY)
            there = machine._locked(machine._state, requests.TO_DEVICE, at, device)
    finally:
        machine._locked(machine._state, requests.RELEASE, at, 0)
    return machine._some(there)


def lost(tensor: Tensor) -> VMError:
    """The error for a result whose work was dropped."""
    error = VMError(f"{tensor}: {STATUS[RESULT_LOST]}", help="run the program again; the failure itself was raised before")
    error.status = RESULT_LOST
    return error
