"""The door between Python and the machine: built-in functions whose bodies are machine code.

``enter(*arrays)`` reads numpy arrays through their C structure, runs the loop without the interpreter lock and returns the
address of the result object: some 0.1 µs where a ctypes call would take 1 µs.  Whatever it does not know (other array
types, strides, wrong shapes) it leaves to the slow way in ``machine``, which also words the errors.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ops.native import store
from ..ops.native.by_address import call_2, call_4, call_8
from ..ops.native.layout import TAG_TENSOR
from ..ops.native.memory import alloc, free, load_i32, load_i64, native, store_i32, store_i64, store_u8, tensor
from ..ops.ty import DTYPES, ITEMSIZE, MAX_RANK, numpy_dtype
from . import requests
from .growth import grown
from .heap import new_object
from .layout import ARGUMENTS, BUSY, state_at
from .requests import CLOSE, OPEN, OWN, RELEASE, RUN, TO_DEVICE

# ---- Python's C interface, by symbol -----------------------------------------------------------------------------------


def _c_function(name: str, result: Any, n: int) -> Callable[..., Any]:
    """A function of Python's C interface over int64; as a twin it goes through ctypes."""
    plain = getattr(ctypes.PyDLL(None), name)
    plain.restype, plain.argtypes = result, [ctypes.c_int64] * n

    def machine() -> Any:
        from llvmlite import ir
        from numba import types

        from ..ops.native import intrinsics

        if result is None:
            return intrinsics.external(name, types.void, ir.VoidType(), n)
        return intrinsics.external(name, types.int64, ir.IntType(64), n)

    def twin(*args: int) -> Any:
        return plain(*args)

    twin.__native__, twin.__machine__ = "twin", machine  # type: ignore[attr-defined]
    return twin


_word = ctypes.c_int64
py_long_from = _c_function("PyLong_FromLongLong", _word, 1)
py_long_as = _c_function("PyLong_AsLongLong", _word, 1)
py_incref = _c_function("Py_IncRef", None, 1)
py_decref = _c_function("Py_DecRef", None, 1)
save_thread = _c_function("PyEval_SaveThread", _word, 0)
restore_thread = _c_function("PyEval_RestoreThread", None, 1)
capsule_new = _c_function("PyCapsule_New", _word, 3)
capsule_pointer = _c_function("PyCapsule_GetPointer", _word, 2)
capsule_context = _c_function("PyCapsule_GetContext", _word, 1)
capsule_name = _c_function("PyCapsule_GetName", _word, 1)
gil_ensure = _c_function("PyGILState_Ensure", _word, 0)
gil_release = _c_function("PyGILState_Release", None, 1)
thread_ident = _c_function("PyThread_get_thread_ident", _word, 0)


_MACHINE_WITHOUT_LOCK = ctypes.CFUNCTYPE(_word, _word, _word, _word, _word)
_MACHINE_WITH_LOCK = ctypes.PYFUNCTYPE(_word, _word, _word, _word, _word)

# ---- numpy arrays -------------------------------------------------------------------------------------------------------

# Offsets in PyArrayObject (public since numpy 1.0; tested at start by ``arrays_are_readable``).
_TYPE, _DATA, _NDIM, _DIMS, _DESCR, _FLAGS = 8, 16, 24, 32, 56, 64
_CONTIGUOUS_ALIGNED = 0x0001 | 0x0100

#: A parameter, as the door checks it: descr object, dtype number, rank, device, then sizes: >= 0 fixed, -1 any,
#: -2 - k: equal to every other size with the same k.
PARAMETER_WORDS = 4 + MAX_RANK

#: The handle of a function: what ``self`` of ``enter`` holds.
#: The last two: rank and dtype of the result, -1 where it is no tensor.
(_STATE, _MACHINE, _FUNCTION, _N_PARAMETERS, _PARAMETERS, _ARRAY_TYPE, _N_NAMED, _RANK, _DTYPE) = range(9)
HANDLE_WORDS = 9


@native
def wrap_array(state, array, parameter, array_type):
    """A borrowed host tensor over a numpy array that fits the parameter; 0 where it does not fit."""
    if load_i64(array + _TYPE) != array_type or load_i64(array + _DESCR) != load_i64(parameter):
        return 0
    ndim = load_i32(array + _NDIM) + 0
    if ndim != load_i64(parameter + 16) or (load_i32(array + _FLAGS) & _CONTIGUOUS_ALIGNED) != _CONTIGUOUS_ALIGNED:
        return 0
    s = state_at(state)
    dims = load_i64(array + _DIMS)
    for i in range(ndim):
        size, wanted = load_i64(dims + 8 * i), load_i64(parameter + 32 + 8 * i)
        if wanted >= 0:
            if size != wanted:
                return 0
        elif wanted < -1:
            slot = s.slots + 8 * (-2 - wanted)
            if load_i64(slot) < 0:
                store_i64(slot, size)
            elif load_i64(slot) != size:
                return 0
    at = new_object(state, TAG_TENSOR)
    if at == 0:
        return 0
    t = tensor(at)
    t.data = load_i64(array + _DATA)
    t.ndim = ndim
    t.dtype = load_i64(parameter + 8)
    t.device = 0
    for i in range(ndim):
        t.shape[i] = load_i64(dims + 8 * i)
    return at


@native
def wrap_arguments(state, handle, args):
    """Put the arguments into the first registers of a fresh stack; False, nothing held, where one does not fit."""
    s = state_at(state)
    machine = load_i64(handle + 8 * _MACHINE)
    n = load_i64(handle + 8 * _N_PARAMETERS)
    for i in range(load_i64(handle + 8 * _N_NAMED)):
        store_i64(s.slots + 8 * i, -1)
    for i in range(n):
        parameter = load_i64(handle + 8 * _PARAMETERS) + 8 * PARAMETER_WORDS * i
        at = wrap_array(state, load_i64(args + 8 * i), parameter, load_i64(handle + 8 * _ARRAY_TYPE))
        device = load_i64(parameter + 24)
        if at != 0 and device != 0:
            there = call_4(machine, state, TO_DEVICE, at, device)
            call_4(machine, state, RELEASE, at, 0)
            at = there
        if at == 0:
            for k in range(i):
                call_4(machine, state, RELEASE, load_i64(s.argv + 8 * k), 0)
            return False
        store_i64(s.argv + 8 * i, at)
    return True


@native
def enter(self, args, n):
    """The built-in ``enter(*arrays)``: address of the result tensor; 0: see the state's reason (DONE: the result is none,
    not as declared, or there was no memory to own it); or a negated reason."""
    handle = load_i64(self + _DATA)
    state = load_i64(handle + 8 * _STATE)
    s = state_at(state)
    if s.busy != 0:
        return py_long_from(-BUSY)
    s.owner = thread_ident()
    s.result = 0  # from here to the next call, what ``VirtualMachine._abandon`` finds
    if n != load_i64(handle + 8 * _N_PARAMETERS):
        return py_long_from(-ARGUMENTS)
    machine = load_i64(handle + 8 * _MACHINE)
    s.busy = 1
    s.status = 0
    if not wrap_arguments(state, handle, args):
        s.busy = 0
        return py_long_from(-ARGUMENTS)
    call_4(machine, state, OPEN, load_i64(handle + 8 * _FUNCTION), n)
    thread = save_thread()
    reason = call_4(machine, state, RUN, 0, 0)
    restore_thread(thread)
    result = 0
    if reason == 0:
        t = tensor(s.result)
        rank = load_i64(handle + 8 * _RANK)
        if t.tag == TAG_TENSOR and t.ndim == rank and t.dtype == load_i64(handle + 8 * _DTYPE):
            result = s.result
            if t.storage == 0:
                result = call_4(machine, state, OWN, result, 0)
                s.result = result
            if result != 0:  # else there was no memory for the copy
                s.busy = 0
    return py_long_from(result)


@native
def give_up(self, args, n):
    """The built-in ``give_up(address)``: the caller owns the object no more.  Safe from any thread."""
    handle = load_i64(self + _DATA)
    state = load_i64(handle + 8 * _STATE)
    s = state_at(state)
    at = py_long_as(load_i64(args))
    if s.busy == 0:
        call_4(load_i64(handle + 8 * _MACHINE), state, RELEASE, at, 0)
    else:
        if s.n_deferred == s.deferred_words:
            capacity = 2 * s.deferred_words + 64
            block = grown(s.deferred, s.n_deferred, capacity)
            if block == 0:
                return py_long_from(0)  # the machine's end takes it
            s.deferred = block
            s.deferred_words = capacity
        store_i64(s.deferred + 8 * s.n_deferred, at)
        s.n_deferred += 1
    return py_long_from(0)


def _shape_offset() -> int:
    from ..ops.native.layout import TENSOR

    assert TENSOR.fields is not None
    return TENSOR.fields["shape"][1]


_SHAPE_OFFSET = _shape_offset()


# ---- numpy arrays over results ---------------------------------------------------------------------------------------------

#: The handle of ``as_array``: two functions of numpy's C interface, the array type, then the descr of each dtype.
(_NEW_FROM_DESCR, _SET_BASE, _NEW_TYPE, _FIRST_DESCR) = range(4)
#: Their places in numpy's table, part of its binary interface.
_NEW_FROM_DESCR_INDEX, _SET_BASE_INDEX = 94, 282
_WRITEABLE_CARRAY = _CONTIGUOUS_ALIGNED | 0x0400


@native
def as_array(self, args, n):
    """The built-in ``as_array(tensor, address)``: a writeable numpy array over a host tensor; its base is ``tensor``."""
    handle = load_i64(self + _DATA)
    owner = load_i64(args)
    at = py_long_as(load_i64(args + 8))
    t = tensor(at)
    descr = load_i64(handle + 8 * (_FIRST_DESCR + t.dtype))
    py_incref(descr)  # the call below takes it over
    kind = load_i64(handle + 8 * _NEW_TYPE)
    new = load_i64(handle + 8 * _NEW_FROM_DESCR)
    array = call_8(new, kind, descr, t.ndim, at + _SHAPE_OFFSET, 0, t.data, _WRITEABLE_CARRAY, 0)
    if array != 0:
        py_incref(owner)
        call_2(load_i64(handle + 8 * _SET_BASE), array, owner)
    return array


@functools.cache
def array_maker() -> Callable[[Any, int], np.ndarray]:
    """The built-in ``as_array``."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(_multiarray_umath._ARRAY_API, None)
    handle = np.zeros(_FIRST_DESCR + len(DTYPES), np.int64)
    handle[_NEW_FROM_DESCR] = ctypes.c_int64.from_address(table + 8 * _NEW_FROM_DESCR_INDEX).value
    handle[_SET_BASE] = ctypes.c_int64.from_address(table + 8 * _SET_BASE_INDEX).value
    handle[_NEW_TYPE] = id(np.ndarray)
    handle[_FIRST_DESCR:] = [id(numpy_dtype(d)) for d in DTYPES]
    return builtin(as_array, handle)


# ---- DLPack -----------------------------------------------------------------------------------------------------------------

_ITEMSIZES = tuple(ITEMSIZE[d] for d in DTYPES)
#: Words of the handle of ``export``: deleter, destructor, name and used name of a versioned capsule.
(_DELETER, _DESTRUCTOR, _NAME) = range(3)
EXPORT_WORDS = 3
_VERSIONED_NAME = b"dltensor_versioned"
_MANAGED_BYTES, _DL_TENSOR = 96, 32
#: The first word of a dtype's name -> DLPack's code of the kind.
_KINDS = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_KIND_CODES = tuple(_KINDS[d.rstrip("0123456789")] for d in DTYPES)


@native
def export(self, args, n):
    """The built-in ``export(tensor, address, device)``: a versioned DLPack capsule over a tensor that it keeps alive.

    ``device``: DLPack's number of the kind of device, and the device's own << 32.
    """
    handle = load_i64(self + _DATA)
    owner = load_i64(args)
    at = py_long_as(load_i64(args + 8))
    t = tensor(at)
    managed = alloc(_MANAGED_BYTES)
    store_i32(managed, 1)
    store_i32(managed + 4, 0)
    store_i64(managed + 8, owner)
    store_i64(managed + 16, load_i64(handle + 8 * _DELETER))
    store_i64(managed + 24, 0)
    dl = managed + _DL_TENSOR
    store_i64(dl, t.data)
    store_i64(dl + 8, py_long_as(load_i64(args + 16)))
    store_i32(dl + 16, t.ndim)
    store_u8(dl + 20, _KIND_CODES[t.dtype])
    store_u8(dl + 21, 8 * _ITEMSIZES[t.dtype])
    store_u8(dl + 22, 1)
    store_u8(dl + 23, 0)
    store_i64(dl + 24, at + _SHAPE_OFFSET)
    store_i64(dl + 32, 0)
    store_i64(dl + 40, 0)
    py_incref(owner)
    return capsule_new(managed, load_i64(handle + 8 * _NAME), load_i64(handle + 8 * _DESTRUCTOR))


@native
def delete_managed(managed):
    """The deleter of an exported tensor: may be called from any thread."""
    lock = gil_ensure()
    py_decref(load_i64(managed + 8))
    gil_release(lock)
    free(managed)


@native
def destroy_capsule(capsule):
    """The destructor of a capsule: deletes what no consumer took (a consumer renames the capsule)."""
    name = capsule_name(capsule)
    # "dltensor_versioned" against "used_dltensor_versioned": the first byte tells
    if load_i64(name) & 0xFF == _VERSIONED_NAME[0]:
        delete_managed(capsule_pointer(capsule, name))


# ---- making built-in functions -------------------------------------------------------------------------------------------------


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("meth", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_METH_FASTCALL = 0x0080
_alive: list[Any] = []


def builtin(body: Callable[..., Any], handle: np.ndarray) -> Callable[..., Any]:
    """A built-in function whose ``self`` is ``handle`` (an int64 array) and whose body is machine code."""
    address = store.address_of(body, "int64(int64, int64, int64)")
    definition = _method_definition(body.__name__, address)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(definition), handle, None)


@functools.cache
def _method_definition(name: str, address: int) -> _MethodDef:
    return _MethodDef(name.encode(), address, _METH_FASTCALL, None)


@functools.cache
def machine_address() -> int:
    """The address of the machine's one entry point: ``requests.machine``."""
    return store.address_of(requests.machine, "int64(int64, int64, int64, int64)", "the virtual machine")


@functools.cache
def machine(*, with_lock: bool) -> Callable[[int, int, int, int], int]:
    """The machine as a Python callable ``(state, request, a, b)``, keeping the interpreter lock or not."""
    return (_MACHINE_WITH_LOCK if with_lock else _MACHINE_WITHOUT_LOCK)(machine_address())


@native
def close_capsule(capsule):
    """The destructor of what ``closer`` makes."""
    handle = capsule_pointer(capsule, 0)
    call_4(load_i64(handle + 8), load_i64(handle), CLOSE, load_i64(handle + 16), 0)
    py_decref(capsule_context(capsule))


def closer(state: int, n_constants: int, memory: tuple[Any, ...]) -> Any:
    """An object that closes a machine when it goes, and keeps the ``memory`` that this takes until then.

    A capsule, because of the order: when the garbage collector finds a machine and its results together, it runs all their
    ``__del__`` first, in any order, and lets go of capsules only then.
    """
    handle = np.array([state, machine_address(), n_constants], np.int64)
    held = (handle, *memory)
    interface = ctypes.PyDLL(None)
    interface.PyCapsule_New.restype, interface.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    interface.PyCapsule_SetContext.argtypes = [ctypes.py_object, ctypes.c_void_p]
    capsule = interface.PyCapsule_New(handle.ctypes.data, None, store.address_of(close_capsule, "void(int64)"))
    interface.PyCapsule_SetContext(capsule, id(held))
    interface.Py_IncRef(ctypes.py_object(held))
    return capsule


@functools.cache
def exporter() -> Callable[[Any, int, int], Any]:
    """The built-in ``export``."""
    name = ctypes.create_string_buffer(_VERSIONED_NAME)
    handle = np.zeros(EXPORT_WORDS, np.int64)
    handle[_DELETER] = store.address_of(delete_managed, "void(int64)")
    handle[_DESTRUCTOR] = store.address_of(destroy_capsule, "void(int64)")
    handle[_NAME] = ctypes.addressof(name)
    _alive.append(name)
    return builtin(export, handle)


def handle_of(state: int, function: int, parameters: np.ndarray, n_named: int, result: tuple[int, int]) -> np.ndarray:
    """The handle of a function for ``enter``; ``parameters`` has a row of PARAMETER_WORDS for each.

    ``result``: its rank and the number of its dtype, -1 for a result that is no tensor.
    """
    handle = np.zeros(HANDLE_WORDS, np.int64)
    handle[_STATE] = state
    handle[_MACHINE] = machine_address()
    handle[_FUNCTION] = function
    handle[_N_PARAMETERS] = len(parameters)
    handle[_PARAMETERS] = parameters.ctypes.data
    handle[_ARRAY_TYPE] = id(np.ndarray)
    handle[_N_NAMED] = n_named
    handle[_RANK], handle[_DTYPE] = result
    return handle


@functools.cache
def arrays_are_readable() -> bool:
    """Does this numpy lay its arrays out as the door believes?  If not, every call takes the slow way."""
    probe = np.arange(6, dtype=np.float32).reshape(2, 3)
    at = id(probe)
    words = [ctypes.c_int64.from_address(at + o).value for o in (_TYPE, _DATA, _DIMS, _DESCR)]
    if words[0] != id(np.ndarray) or words[1] != probe.ctypes.data or words[3] != id(np.dtype(np.float32)):
        return False
    return ctypes.c_int32.from_address(at + _NDIM).value == 2 and ctypes.c_int64.from_address(words[2] + 8).value == 3
