"""Encoding of a call's arguments as rows of words, and native code that makes the machine's objects from the rows.

Python describes the arguments without owning objects of the machine.  The native code makes all objects of a call or none.
The row of a tuple follows the rows of its fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...declarations.frozen_dataclass import frozen
from ...ops.core.tensor_types import DTYPES, MAX_RANK, dtype_name
from ...ops.native.memory import load_i64, native, store_i64, tensor
from ...ops.native.object_layout import TAG_ADT, TAG_STORAGE, TAG_TENSOR
from ...ops.native.objects import adt_at, storage_at
from ...ops.native.status import OUT_OF_MEMORY
from ..bytecode.sync_reason import SyncReason, number_of
from ..runtime.heap import DONATED, new_record, release, retain
from ..runtime.objects.chunks import LARGE, new_object
from ..runtime.poison import link_tensor
from ..runtime.state_layout import CUDA, state_at
from ..runtime.stream import host_to_device, wait_for_all
from .tensor import Tensor

#: Words of a row: kind; address of the elements or of the object, or number of fields; dtype, rank and device of the elements
#: (of a record, its constructor's number in place of the dtype);
#: device of the parameter; bytes of a donated array, else -1; room for the new object; sizes.
(_KIND, _WHAT, _DTYPE, _RANK, _DEVICE, _WANTED, _DONATED, _MADE, _SIZES) = range(9)
ROW_WORDS = _SIZES + MAX_RANK
_ELEMENTS, _OBJECT, _TUPLE = range(3)
_MEMORY = number_of(SyncReason.MEMORY)


# ---- machine code -------------------------------------------------------------------------------------------------------


@native
def build(state: int, rows: int, n: int) -> int:
    """Make the objects of ``n`` rows and store the arguments in the state's ``argv``; the number of arguments.

    -1: out of memory, or a device error (see the state's status); no object is kept.
    """
    s = state_at(state)
    s.status = 0
    s.pc = -1
    s.error_pc = -1
    depth = 0  # number of new objects that are not yet fields of a tuple; object k is kept in row k
    for i in range(n):
        row = rows + 8 * ROW_WORDS * i
        fields = load_i64(row + 8 * _WHAT) if load_i64(row + 8 * _KIND) == _TUPLE else 0
        made = object_of(state, row)
        if made == 0:
            if s.status == 0:
                s.status = OUT_OF_MEMORY
            for k in range(depth):
                release(state, load_i64(rows + 8 * (ROW_WORDS * k + _MADE)))
            return -1
        depth -= fields
        for k in range(fields):
            store_i64(adt_at(made).fields + 8 * k, load_i64(rows + 8 * (ROW_WORDS * (depth + k) + _MADE)))
        store_i64(rows + 8 * (ROW_WORDS * depth + _MADE), made)
        depth += 1
    for k in range(depth):
        store_i64(s.argv + 8 * k, load_i64(rows + 8 * (ROW_WORDS * k + _MADE)))
    return depth


@native
def object_of(state: int, row: int) -> int:
    """The object of a row, on its device, with the fields of a tuple still empty; 0 on failure, as ``build``."""
    kind, what = load_i64(row + 8 * _KIND), load_i64(row + 8 * _WHAT)
    if kind == _TUPLE:
        return new_record(state, TAG_ADT, load_i64(row + 8 * _DTYPE), what)
    if kind == _OBJECT:
        return on_device(state, retain(what), load_i64(row + 8 * _WANTED))
    at = new_object(state, TAG_TENSOR, LARGE)
    if at == 0:
        return 0
    t = tensor(at)
    t.data = what
    t.dtype = load_i64(row + 8 * _DTYPE)
    t.ndim = load_i64(row + 8 * _RANK)
    t.device = load_i64(row + 8 * _DEVICE)
    for i in range(t.ndim):
        t.shape[i] = load_i64(row + 8 * (_SIZES + i))
    nbytes = load_i64(row + 8 * _DONATED)
    if nbytes >= 0 and not give(state, at, nbytes):
        release(state, at)
        return 0
    return on_device(state, at, load_i64(row + 8 * _WANTED))


@native
def give(state: int, at: int, nbytes: int) -> bool:
    """Make the tensor ``at`` the owner of its donated array; False: out of memory."""
    storage = new_object(state, TAG_STORAGE, LARGE)
    if storage == 0:
        return False
    s = storage_at(storage)
    s.data = tensor(at).data
    s.device = 0
    s.writer = 0
    s.size_class = DONATED
    s.nbytes = nbytes
    s.first_tensor = 0
    tensor(at).storage = storage
    if state_at(state).poison != 0:
        link_tensor(at, nbytes)
    return True


@native
def on_device(state: int, at: int, device: int) -> int:
    """The tensor on ``device``: itself, or a copy that replaces it; 0 on failure, as ``build``."""
    if device == 0 or tensor(at).device == device:
        return at
    s = state_at(state)
    made = host_to_device(state, at, device, -1, -1, False)
    if made == 0 and s.outstanding != 0:  # memory of queued work can be reused after a synchronisation
        s.status = wait_for_all(state, _MEMORY)
        if s.status == 0:
            made = host_to_device(state, at, device, -1, -1, False)
    release(state, at)
    return made


# ---- in Python ----------------------------------------------------------------------------------------------------------


@frozen
class Record:
    """A value of an ADT: its constructor's number, and the number of its fields, which precede it."""

    tag: int
    n_fields: int


@frozen
class Records:
    """A value of an ADT as the sequence of its rows, and the device of each."""

    items: tuple[Any, ...]
    devices: tuple[int, ...]


def rows_of(prepared: Sequence[Any], devices: Sequence[int], donated: frozenset[int]) -> np.ndarray:
    """The rows of the arguments returned by ``arguments.prepare``; ``donated``: numbers of the donated arguments.

    The rows contain addresses: the caller keeps the arguments alive while it uses the rows.
    """
    rows: list[list[int]] = []
    for i, (value, device) in enumerate(zip(prepared, devices, strict=True)):
        _add(rows, value, device, donated=i in donated and device == 0)
    return np.array(rows, np.int64).reshape(len(rows), ROW_WORDS)


def _add(rows: list[list[int]], value: Any, device: int, *, donated: bool = False) -> None:
    """Append the rows of one value."""
    row = [0] * ROW_WORDS
    row[_WANTED], row[_DONATED] = device, -1
    if isinstance(value, Records):
        for item, its_device in zip(value.items, value.devices, strict=True):
            _add(rows, item, its_device)
        return
    if isinstance(value, Record):
        row[_KIND], row[_WHAT], row[_DTYPE] = _TUPLE, value.n_fields, value.tag
    elif isinstance(value, tuple):
        for field in value:
            _add(rows, field, device)
        row[_KIND], row[_WHAT] = _TUPLE, len(value)
    elif isinstance(value, Tensor):
        row[_KIND], row[_WHAT] = _OBJECT, value._address
    else:
        on_host = isinstance(value, np.ndarray)
        row[_KIND], row[_WHAT] = _ELEMENTS, value.ctypes.data if on_host else value.address
        row[_DTYPE], row[_RANK] = DTYPES.index(dtype_name(value.dtype) if on_host else value.dtype), len(value.shape)
        row[_DEVICE] = 0 if on_host else CUDA
        row[_SIZES : _SIZES + len(value.shape)] = value.shape
        if donated:
            row[_DONATED] = value.nbytes
    rows.append(row)
