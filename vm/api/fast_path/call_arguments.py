"""Arguments of a call as the machine's objects, all or none: arrays and numbers of the host, tensors of the machine."""

from __future__ import annotations

from ....ops.native.jit.c_functions import call_4
from ....ops.native.memory import load_i64, native, store_i64, tensor
from ...bytecode.signature import DEVICE, DTYPE, PARAMETER_WORDS, RANK
from ...devices.sim.simulated_device import is_lost
from ...runtime.heap import retain
from ...runtime.requests import RELEASE, TO_DEVICE
from ...runtime.state_layout import state_at
from ..c_api import _TYPE, SHAPE_OFFSET, py_long_as
from . import handles
from .host_values import sizes_fit, wrap_array, wrap_number


@native
def wrap_tensor(state: int, handle: int, value: int, parameter: int) -> int:
    """The object of a Tensor, with one more reference; 0 if it is no tensor of this machine, or does not fit the parameter.

    Also 0 for a tensor whose work was dropped, and for a tensor on a device whose parameter is on the host.
    """
    number = load_i64(value + handles.ADDRESS_SLOT)
    if load_i64(value + handles.HANDLE_SLOT) != load_i64(handle + 8 * handles.SELF) or number == 0:
        return 0
    at = py_long_as(number)
    t = tensor(at)
    if t.dtype != load_i64(parameter + 8 * DTYPE) or t.ndim != load_i64(parameter + 8 * RANK):
        return 0
    if (t.device != 0 and t.device != load_i64(parameter + 8 * DEVICE)) or is_lost(at):
        return 0
    return retain(at) if sizes_fit(state, at + SHAPE_OFFSET, t.ndim, parameter) else 0


@native
def wrap(state: int, handle: int, array_type: int, value: int, parameter: int) -> int:
    """The object of an argument, on the device where it is; 0 if the general path decides about the argument."""
    kind = load_i64(value + _TYPE)
    if kind == array_type:
        return wrap_array(state, value, parameter)
    if kind == load_i64(handle + 8 * handles.TENSOR):
        return wrap_tensor(state, handle, value, parameter)
    return wrap_number(state, value, parameter)


@native
def wrap_arguments(entry: int, handle: int, args: int, n: int) -> bool:
    """Store ``n`` arguments in the state's ``argv``; False, with no object kept, if an argument does not fit its parameter."""
    state, machine = load_i64(handle + 8 * handles.STATE), load_i64(handle + 8 * handles.MACHINE)
    parameters, array_type = load_i64(entry + 8 * handles.PARAMETERS), load_i64(entry + 8 * handles.ARRAY_TYPE)
    s = state_at(state)
    for i in range(load_i64(entry + 8 * handles.N_NAMED)):
        store_i64(s.slots + 8 * i, -1)
    for i in range(n):
        at = wrap(state, handle, array_type, load_i64(args + 8 * i), parameters + 8 * PARAMETER_WORDS * i)
        if at == 0:
            release_arguments(state, machine, i)
            return False
        store_i64(s.argv + 8 * i, at)
    # only now: the general path, which takes over if an argument does not fit, copies all arguments itself
    for i in range(n):
        at, device = load_i64(s.argv + 8 * i), load_i64(parameters + 8 * (PARAMETER_WORDS * i + DEVICE))
        if tensor(at).device != device:
            there = call_4(machine, state, TO_DEVICE, at, device)
            if there == 0:
                release_arguments(state, machine, n)
                return False
            call_4(machine, state, RELEASE, at, 0)
            store_i64(s.argv + 8 * i, there)
    return True


@native
def release_arguments(state: int, machine: int, n: int) -> None:
    """Release the first ``n`` arguments in the state's ``argv``."""
    for i in range(n):
        call_4(machine, state, RELEASE, load_i64(state_at(state).argv + 8 * i), 0)
