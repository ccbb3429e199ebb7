"""The C-API fast path between Python and the machine: built-in functions with native bodies.

A call takes about 0.1 µs; a ctypes call takes about 1 µs.  ``fast_path`` makes the machine's objects from arguments, and Python's
objects from results; ``guard`` runs the functions.
This module declares the functions of Python, reads numpy's arrays, and makes arrays and DLPack capsules over results.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ...ops.core.tensor_types import DTYPES, ITEMSIZE, numpy_dtype
from ...ops.native.c_functions import call_2, call_8
from ...ops.native.cache.cache_key import CacheKey
from ...ops.native.compiled import kernel_store
from ...ops.native.jit.native_compiler import SHORT_LOOPS
from ...ops.native.memory import (
    alloc,
    free,
    load_i64,
    native,
    record,
    set_machine_form,
    store_i32,
    store_u8,
    tensor,
    twin,
)
from ...ops.native.object_layout import Record
from ..runtime import requests

# ---- functions of the Python C API, by symbol --------------------------------------------------------------------------


def c_function(name: str, has_result: bool, n: int) -> Callable[..., int]:
    """A function of the Python C API with int64 arguments.  Called from Python, it goes through ctypes."""
    plain = getattr(ctypes.PyDLL(None), name)
    plain.restype, plain.argtypes = ctypes.c_int64 if has_result else None, [ctypes.c_int64] * n

    def machine() -> Any:
        from ...ops.native.front_end.values.machine_forms import external
        from ...ops.native.front_end.values.machine_types import INT64

        return external(name, INT64 if has_result else None)

    @twin
    def call(*args: int) -> int:
        result: int = plain(*args)
        return result

    set_machine_form(call, machine)
    return call


py_long_from = c_function("PyLong_FromLongLong", True, 1)
py_long_as = c_function("PyLong_AsLongLong", True, 1)
py_long_as_and_overflow = c_function("PyLong_AsLongLongAndOverflow", True, 2)
py_incref = c_function("Py_IncRef", False, 1)
py_decref = c_function("Py_DecRef", False, 1)
capsule_new = c_function("PyCapsule_New", True, 3)
capsule_pointer = c_function("PyCapsule_GetPointer", True, 2)
capsule_context = c_function("PyCapsule_GetContext", True, 1)
capsule_name = c_function("PyCapsule_GetName", True, 1)
gil_ensure = c_function("PyGILState_Ensure", True, 0)
gil_release = c_function("PyGILState_Release", False, 1)


_word = ctypes.c_int64
_MACHINE_WITH_LOCK = ctypes.PYFUNCTYPE(_word, _word, _word, _word, _word)

# ---- numpy arrays -------------------------------------------------------------------------------------------------------

# Byte offsets in PyArrayObject (public since numpy 1.0; checked at start by ``arrays_are_readable``).
_TYPE, _DATA, _NDIM, _DIMS, _DESCR, _FLAGS = 8, 16, 24, 32, 56, 64
_CONTIGUOUS_ALIGNED = 0x0001 | 0x0100
#: Byte offsets in Python's tuples: the number of items, the items.
TUPLE_SIZE, TUPLE_ITEMS = 16, 24


def words_of(**offsets: int) -> Callable[[int], Record]:
    """A view of words of a C structure at these byte offsets."""
    names, starts = zip(*sorted(offsets.items(), key=lambda item: item[1]), strict=True)
    return record(np.dtype({"names": names, "formats": [np.int64] * len(names), "offsets": starts, "itemsize": starts[-1] + 8}))


object_at = words_of(type=_TYPE)
array_at = words_of(type=_TYPE, data=_DATA, dims=_DIMS, descr=_DESCR)
tuple_at = words_of(size=TUPLE_SIZE)
#: The arguments of a built-in function.
args_at = words_of(first=0, second=8, third=16)
#: A versioned tensor of DLPack: the words besides versions, type and rank.  ``owner``: what its deleter releases.
managed_at = words_of(owner=8, deleter=16, flags=24, data=32, device=40, shape=56, strides=64, byte_offset=72)


def _shape_offset() -> int:
    from ...ops.native.object_layout import TENSOR

    assert TENSOR.fields is not None
    return TENSOR.fields["shape"][1]


SHAPE_OFFSET = _shape_offset()


# ---- numpy arrays over results ---------------------------------------------------------------------------------------------

#: The handle of ``as_array``: two functions of the numpy C API, the array type, None, and the descr of each dtype.
_NUMPY = np.dtype(
    [
        ("new_from_descr", np.int64), ("set_base", np.int64), ("new_type", np.int64), ("none", np.int64),
        ("descr", np.int64, (len(DTYPES),)),
    ]
)  # fmt: skip
_numpy_at: Callable[[int], Record] = record(_NUMPY)
#: Indices of the two functions in the table of the numpy C API; they are part of numpy's ABI.
_NEW_FROM_DESCR_INDEX, _SET_BASE_INDEX = 94, 282
_WRITEABLE_CARRAY = _CONTIGUOUS_ALIGNED | 0x0400


@native
def as_array(self: int, args: int, n: int) -> int:
    """The built-in ``as_array(tensor, address)``: a writeable numpy array over a host tensor; its base is ``tensor``.

    None for a tensor on a device.
    """
    numpy = _numpy_at(array_at(self).data)
    owner = args_at(args).first
    at = py_long_as(args_at(args).second)
    t = tensor(at)
    if t.device != 0:
        none = numpy.none
        py_incref(none)
        return none
    descr = numpy.descr[t.dtype]
    py_incref(descr)  # the call below steals this reference
    array = call_8(numpy.new_from_descr, numpy.new_type, descr, t.ndim, at + SHAPE_OFFSET, 0, t.data, _WRITEABLE_CARRAY, 0)
    if array != 0:
        py_incref(owner)
        call_2(numpy.set_base, array, owner)
    return array


@functools.cache
def array_maker() -> Callable[[Any, int], np.ndarray | None]:
    """The built-in ``as_array``."""
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(_multiarray_umath._ARRAY_API, None)
    handle = np.zeros(1, _NUMPY)
    numpy = handle[0]
    numpy["new_from_descr"] = ctypes.c_int64.from_address(table + 8 * _NEW_FROM_DESCR_INDEX).value
    numpy["set_base"] = ctypes.c_int64.from_address(table + 8 * _SET_BASE_INDEX).value
    numpy["new_type"], numpy["none"] = id(np.ndarray), id(None)
    numpy["descr"] = [id(numpy_dtype(d)) for d in DTYPES]
    return builtin(as_array, handle)


# ---- DLPack -----------------------------------------------------------------------------------------------------------------

_ITEMSIZES = tuple(ITEMSIZE[d] for d in DTYPES)
#: The handle of ``export``: deleter, destructor and name of a versioned capsule.
_EXPORT = np.dtype([("deleter", np.int64), ("destructor", np.int64), ("name", np.int64)])
_export_at: Callable[[int], Record] = record(_EXPORT)
_VERSIONED_NAME = b"dltensor_versioned"
_MANAGED_BYTES, _DL_TENSOR = 96, 32
#: DLPack's type codes, by the dtype's name without its bits.
_KINDS = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
_KIND_CODES = tuple(_KINDS[d.rstrip("0123456789")] for d in DTYPES)


@native
def export(self: int, args: int, n: int) -> int:
    """The built-in ``export(tensor, address, device)``: a versioned DLPack capsule that keeps the tensor alive.

    ``device``: DLPack's device type, or-ed with the device id << 32.
    """
    handle = _export_at(array_at(self).data)
    owner = args_at(args).first
    at = py_long_as(args_at(args).second)
    t = tensor(at)
    managed = alloc(_MANAGED_BYTES)
    store_i32(managed, 1)
    store_i32(managed + 4, 0)
    m = managed_at(managed)
    m.owner = owner
    m.deleter = handle.deleter
    m.flags = 0
    m.data = t.data
    m.device = py_long_as(args_at(args).third)
    dl = managed + _DL_TENSOR
    store_i32(dl + 16, t.ndim)
    store_u8(dl + 20, _KIND_CODES[t.dtype])
    store_u8(dl + 21, 8 * _ITEMSIZES[t.dtype])
    store_u8(dl + 22, 1)
    store_u8(dl + 23, 0)
    m.shape = at + SHAPE_OFFSET
    m.strides = 0
    m.byte_offset = 0
    py_incref(owner)
    return capsule_new(managed, handle.name, handle.destructor)


@native
def delete_managed(managed: int) -> None:
    """The deleter of an exported tensor.  It may be called from any thread."""
    lock = gil_ensure()
    py_decref(managed_at(managed).owner)
    gil_release(lock)
    free(managed)


@native
def destroy_capsule(capsule: int) -> None:
    """The destructor of a capsule: delete the tensor if no consumer took it (a consumer renames the capsule)."""
    name = capsule_name(capsule)
    # the first byte distinguishes "dltensor_versioned" from "used_dltensor_versioned"
    if load_i64(name) & 0xFF == _VERSIONED_NAME[0]:
        delete_managed(capsule_pointer(capsule, name))


# ---- making built-in functions -------------------------------------------------------------------------------------------------


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("meth", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_METH_FASTCALL = 0x0080
#: The signature of the body of a built-in function, and of a function that frees what an object of Python held.
BUILTIN_SIGNATURE, FREE_SIGNATURE = "int64(int64, int64, int64)", "void(int64)"
_MACHINE_SIGNATURE = "int64(int64, int64, int64, int64)"
_T = TypeVar("_T")


def _immortal(memory: _T) -> _T:
    """Memory that Python's objects point at without a reference, and read until the last of them is destroyed.

    At its end, the interpreter empties modules first, and destroys the rest of its objects after them.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
    return memory


def builtin(body: Callable[..., Any], handle: np.ndarray) -> Callable[..., Any]:
    """Make a built-in function with a native body; its ``self`` is ``handle``, an int64 array."""
    definition = _method_definition(body.__name__, builtin_address(body))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable[..., Any] = make(ctypes.addressof(definition), handle, None)
    return made


def method(body: Callable[..., Any], owner: type) -> Any:
    """Make a method of a class with a native body; its ``self`` is the object."""
    definition = _method_definition(body.__name__, builtin_address(body))
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(owner, ctypes.addressof(definition))


@functools.cache
def builtin_address(body: Callable[..., Any]) -> int:
    """The address of a body, which is looked up once: a key takes a millisecond."""
    return kernel_store.address_of(body, BUILTIN_SIGNATURE)


@functools.cache
def _method_definition(name: str, address: int) -> _MethodDef:
    return _immortal(_MethodDef(name.encode(), address, _METH_FASTCALL, None))


@functools.cache
def machine_key() -> CacheKey:
    """The key of the machine's code in the kernel store."""
    return kernel_store.object_key(requests.machine, _MACHINE_SIGNATURE, SHORT_LOOPS)


def machine_name() -> str:
    """The name of the machine's function in the kernel store."""
    return kernel_store.function_name(requests.machine, _MACHINE_SIGNATURE)


@functools.cache
def machine_address() -> int:
    """The address of ``requests.machine``, the only entry point of the machine."""
    return kernel_store.address_of(requests.machine, _MACHINE_SIGNATURE, "the virtual machine", SHORT_LOOPS)


@functools.cache
def machine() -> Callable[[int, int, int, int], int]:
    """The machine as a Python callable ``(state, request, a, b)`` that holds the interpreter lock during the call."""
    return _MACHINE_WITH_LOCK(machine_address())


@functools.cache
def exporter() -> Callable[[Any, int, int], Any]:
    """The built-in ``export``."""
    name = _immortal(ctypes.create_string_buffer(_VERSIONED_NAME))
    handle = np.zeros(1, _EXPORT)
    handle["deleter"] = kernel_store.address_of(delete_managed, FREE_SIGNATURE)
    handle["destructor"] = kernel_store.address_of(destroy_capsule, FREE_SIGNATURE)
    handle["name"] = ctypes.addressof(name)
    return builtin(export, handle)


#: The functions of this file that machines load, with their signatures.
FUNCTIONS: tuple[tuple[Callable[..., Any], str], ...] = (
    (as_array, BUILTIN_SIGNATURE), (export, BUILTIN_SIGNATURE),
    (delete_managed, FREE_SIGNATURE), (destroy_capsule, FREE_SIGNATURE),
)  # fmt: skip


def word_of(value: object, offset: int) -> int:
    """The int64 at a byte offset in a Python object's memory."""
    return ctypes.c_int64.from_address(id(value) + offset).value


@functools.cache
def arrays_are_readable() -> bool:
    """Whether arrays and tuples have the expected layouts; otherwise every call takes the general path."""
    probe = np.arange(6, dtype=np.float32).reshape(2, 3)
    at = id(probe)
    words = [word_of(probe, o) for o in (_TYPE, _DATA, _DIMS, _DESCR)]
    if words[0] != id(np.ndarray) or words[1] != probe.ctypes.data or words[3] != id(np.dtype(np.float32)):
        return False
    pair = (probe, words)
    if [word_of(pair, o) for o in (TUPLE_SIZE, TUPLE_ITEMS, TUPLE_ITEMS + 8)] != [2, id(probe), id(words)]:
        return False
    return ctypes.c_int32.from_address(at + _NDIM).value == 2 and ctypes.c_int64.from_address(words[2] + 8).value == 3
