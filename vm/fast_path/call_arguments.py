"""Arguments of a call as the machine's objects, all or none: arrays and numbers of the host, tensors of the machine, tuples."""

from __future__ import annotations

from ...ops.native.c_functions import call_4
from ...ops.native.inlining import keep_out_of_line
from ...ops.native.memory import load_i64, native, store_i64, tensor
from ...ops.native.object_layout import TAG_ADT
from ...ops.native.objects import adt_at
from ..runtime.objects.heap import is_lost, new_record, retain
from ..runtime.requests import RELEASE, TO_DEVICE
from ..state.state_layout import state_at
from ..values.signature import PARAMETER_BYTES, parameter_at
from .c_api import SHAPE_OFFSET, TUPLE_ITEMS, object_at, py_long_as, tuple_at
from .handles import entry_at, machine_at, slots_at
from .host_values import sizes_fit, wrap_array, wrap_number


@native
def wrap_tensor(state: int, handle: int, value: int, parameter: int) -> int:
    """The object of a Tensor, with one more reference; 0 if it is no tensor of this machine, or does not fit the parameter.

    Also 0 for a tensor whose work was dropped, and for a tensor on a device whose parameter is on the host.
    """
    number = slots_at(value).number
    if slots_at(value).handle != machine_at(handle).itself or number == 0:
        return 0
    at = py_long_as(number)
    t = tensor(at)
    if t.dtype != parameter_at(parameter).dtype or t.ndim != parameter_at(parameter).rank:
        return 0
    if (t.device != 0 and t.device != parameter_at(parameter).device) or is_lost(at):
        return 0
    return retain(at) if sizes_fit(state, at + SHAPE_OFFSET, t.ndim, parameter) else 0


@native
def wrap_tuple(state: int, entry: int, value: int, parameter: int) -> int:
    """A tuple whose fields are still empty; 0 if ``value`` is no tuple of as many fields.

    The general path takes lists: one that changes during the run does not keep its arrays.
    """
    keep_out_of_line()
    n = parameter_at(parameter).n_fields
    if object_at(value).type != entry_at(entry).tuple_type or tuple_at(value).size != n:
        return 0
    parameter_at(parameter).value = value
    return new_record(state, TAG_ADT, 0, n)


@native
def wrap(state: int, entry: int, handle: int, value: int, parameter: int) -> int:
    """The object of an argument, on the device where it is; 0 if the general path decides about the argument."""
    if parameter_at(parameter).n_fields >= 0:
        return wrap_tuple(state, entry, value, parameter)
    kind = object_at(value).type
    if kind == entry_at(entry).array_type:
        return wrap_array(state, value, parameter)
    if kind == machine_at(handle).tensor:
        return wrap_tensor(state, handle, value, parameter)
    return wrap_number(state, value, parameter)


@native
def place_of(state: int, parameters: int, parameter: int) -> int:
    """The address of the word for the object of a parameter or field: in the state's ``argv``, or in the tuple around it."""
    around, field = parameter_at(parameter).around, parameter_at(parameter).field
    if around < 0:
        return state_at(state).argv + 8 * field
    fields: int = adt_at(parameter_at(parameters + PARAMETER_BYTES * around).object).fields
    return fields + 8 * field


@native
def wrap_arguments(entry: int, handle: int, args: int, n: int) -> bool:
    """Store ``n`` arguments in the state's ``argv``; False, with no object kept, if an argument does not fit its parameter."""
    state, machine = machine_at(handle).state, machine_at(handle).machine
    parameters, n_rows = entry_at(entry).parameters, entry_at(entry).n_rows
    s = state_at(state)
    for i in range(entry_at(entry).n_named):
        store_i64(s.slots + 8 * i, -1)
    for i in range(n_rows):
        row = parameters + PARAMETER_BYTES * i
        around, items = parameter_at(row).around, args
        if around >= 0:
            items = parameter_at(parameters + PARAMETER_BYTES * around).value + TUPLE_ITEMS
        at = wrap(state, entry, handle, load_i64(items + 8 * parameter_at(row).field), row)
        if at == 0:
            release_arguments(state, machine, min(i, n))
            return False
        parameter_at(row).object = at
        store_i64(place_of(state, parameters, row), at)
    # only now: the general path, which takes over if an argument does not fit, copies all arguments itself
    for i in range(n_rows):
        row = parameters + PARAMETER_BYTES * i
        at, device = parameter_at(row).object, parameter_at(row).device
        if parameter_at(row).n_fields < 0 and tensor(at).device != device:
            there = call_4(machine, state, TO_DEVICE, at, device)
            if there == 0:
                release_arguments(state, machine, n)
                return False
            call_4(machine, state, RELEASE, at, 0)
            store_i64(place_of(state, parameters, row), there)
    return True


@native
def release_arguments(state: int, machine: int, n: int) -> None:
    """Release the first ``n`` arguments in the state's ``argv``."""
    keep_out_of_line()
    for i in range(n):
        call_4(machine, state, RELEASE, load_i64(state_at(state).argv + 8 * i), 0)
