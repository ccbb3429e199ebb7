"""Arguments on the host as the machine's objects: numpy arrays and numbers, read through their C structures."""

from __future__ import annotations

import numpy as np

from ...ops.core.tensor_types import DTYPES
from ...ops.native.memory import bits_float, float32_bits, float_bits, load_i32, load_i64, native, store_i64, tensor
from ...ops.native.object_layout import TAG_TENSOR
from ..runtime.objects.chunks import LARGE, new_object
from ..state.state_layout import state_at
from ..values.signature import NUMBER_OFFSET, SCRATCH_OFFSET, parameter_at
from .c_api import _CONTIGUOUS_ALIGNED, _FLAGS, _NDIM, array_at, object_at, py_long_as_and_overflow

_FLOAT32, _FLOAT64, _INT32 = (DTYPES.index(d) for d in ("float32", "float64", "int32"))
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
#: The int after the largest int32, and the largest below which float32 holds every int.
_END_OF_INT32, _EXACT_IN_FLOAT32 = 2**31, 2**24


@native
def sizes_fit(state: int, dims: int, ndim: int, parameter: int) -> bool:
    """Whether the ``ndim`` sizes at ``dims`` fit the parameter, and the named sizes of the parameters before it."""
    s = state_at(state)
    for i in range(ndim):
        size, wanted = load_i64(dims + 8 * i), parameter_at(parameter).sizes[i]
        if wanted >= 0:
            if size != wanted:
                return False
        elif wanted < -1:
            slot = s.slots + 8 * (-2 - wanted)
            if load_i64(slot) < 0:
                store_i64(slot, size)
            elif load_i64(slot) != size:
                return False
    return True


@native
def wrap_array(state: int, array: int, parameter: int) -> int:
    """A host tensor that borrows the memory of a numpy array; 0 if the array does not fit the parameter."""
    if array_at(array).descr != parameter_at(parameter).descr:
        return 0
    ndim = load_i32(array + _NDIM) + 0
    if ndim != parameter_at(parameter).rank or (load_i32(array + _FLAGS) & _CONTIGUOUS_ALIGNED) != _CONTIGUOUS_ALIGNED:
        return 0
    dims = array_at(array).dims
    if not sizes_fit(state, dims, ndim, parameter):
        return 0
    at = new_object(state, TAG_TENSOR, LARGE)
    if at == 0:
        return 0
    t = tensor(at)
    t.data = array_at(array).data
    t.ndim = ndim
    t.dtype = parameter_at(parameter).dtype
    t.device = 0
    for i in range(ndim):
        t.shape[i] = load_i64(dims + 8 * i)
    return at


@native
def wrap_number(state: int, number: int, parameter: int) -> int:
    """A host tensor over the memory of a number, or over the room of the parameter with the number in it; 0 if the number does
    not fit the parameter, or its conversion is left to ``signature.as_array``."""
    kind, data = object_at(number).type, 0
    if kind == parameter_at(parameter).numpy_number:
        data = number + NUMBER_OFFSET
    elif kind == parameter_at(parameter).float:
        data = float_element(number, parameter)
    elif kind == parameter_at(parameter).int:
        data = int_element(number, parameter)
    at = new_object(state, TAG_TENSOR, LARGE) if data != 0 else 0
    if at == 0:
        return 0
    t = tensor(at)
    t.data = data
    t.ndim = 0
    t.dtype = parameter_at(parameter).dtype
    t.device = 0
    return at


@native
def float_element(number: int, parameter: int) -> int:
    """The address of a Python float as an element of the parameter's dtype; 0 for one that float32 cannot hold."""
    if parameter_at(parameter).dtype == _FLOAT64:
        return number + NUMBER_OFFSET
    value = bits_float(load_i64(number + NUMBER_OFFSET))
    if abs(value) > _LARGEST_FLOAT32:
        return 0
    parameter_at(parameter).converted = float32_bits(np.float32(value))
    return parameter + SCRATCH_OFFSET


@native
def int_element(number: int, parameter: int) -> int:
    """The address of a Python int as an element of the parameter's dtype; 0 for one that might change its value."""
    converted, dtype = parameter + SCRATCH_OFFSET, parameter_at(parameter).dtype
    value = py_long_as_and_overflow(number, converted)
    overflow = load_i32(converted)
    if overflow != 0 or (dtype == _INT32 and not -_END_OF_INT32 <= value < _END_OF_INT32):
        return 0
    if dtype == _FLOAT32 or dtype == _FLOAT64:
        if not -_EXACT_IN_FLOAT32 <= value <= _EXACT_IN_FLOAT32:
            return 0
        store_i64(converted, float_bits(np.float64(value)) if dtype == _FLOAT64 else float32_bits(np.float32(value)))
    else:
        store_i64(converted, value)  # of an int32, the low half
    return converted
