"""Machine code that makes the objects of a call's arguments: tensors, and tuples of them.

A row of words describes each object.  The row of a tuple follows the rows of its fields.  All objects of a call are made, or
none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ops.core.tensor_types import MAX_RANK
from ...ops.native.memory import native, record, store_i64, tensor
from ...ops.native.object_layout import TAG_ADT, TAG_STORAGE, TAG_TENSOR, Record
from ...ops.native.objects import adt_at, storage_at
from ...ops.native.status import OUT_OF_MEMORY
from ..bytecode.sync_reason import SyncReason, number_of
from ..state.state_layout import state_at
from .objects.chunks import LARGE, new_object
from .objects.heap import DONATED, new_record, release, retain
from .objects.poison import link_tensor
from .stream import host_to_device, wait_for_all

#: A row, the description of an object.  ``kind``: ELEMENTS, OBJECT or TUPLE.  ``what``: address of the elements, address of the
#: object, or number of fields.  ``dtype``, ``rank``, ``device``, ``sizes``: of the elements (of a tuple, its constructor's
#: number in place of the dtype).  ``wanted``: device of the parameter.  ``donated_bytes``: bytes of a donated array, else -1.
#: ``made``: the new object, a word that ``build`` writes.
ROW = np.dtype(
    [
        ("kind", np.int64), ("what", np.int64), ("dtype", np.int64), ("rank", np.int64), ("device", np.int64),
        ("wanted", np.int64), ("donated_bytes", np.int64), ("made", np.int64), ("sizes", np.int64, (MAX_RANK,)),
    ]
)  # fmt: skip
ROW_BYTES = ROW.itemsize
row_at: Callable[[int], Record] = record(ROW)
#: Kinds of rows: the elements of an array, an object that there is already, a tuple of the rows before.
ELEMENTS, OBJECT, TUPLE = range(3)

_MEMORY = number_of(SyncReason.MEMORY)


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
        row = row_at(rows + ROW_BYTES * i)
        fields = row.what if row.kind == TUPLE else 0
        made = object_of(state, rows + ROW_BYTES * i)
        if made == 0:
            if s.status == 0:
                s.status = OUT_OF_MEMORY
            for k in range(depth):
                release(state, row_at(rows + ROW_BYTES * k).made)
            return -1
        depth -= fields
        for k in range(fields):
            store_i64(adt_at(made).fields + 8 * k, row_at(rows + ROW_BYTES * (depth + k)).made)
        row_at(rows + ROW_BYTES * depth).made = made
        depth += 1
    for k in range(depth):
        store_i64(s.argv + 8 * k, row_at(rows + ROW_BYTES * k).made)
    return depth


@native
def object_of(state: int, address: int) -> int:
    """The object of a row, on its device, with the fields of a tuple still empty; 0 on failure, as ``build``."""
    row = row_at(address)
    kind, what = row.kind, row.what
    if kind == TUPLE:
        return new_record(state, TAG_ADT, row.dtype, what)
    if kind == OBJECT:
        return on_device(state, retain(what), row.wanted)
    at = new_object(state, TAG_TENSOR, LARGE)
    if at == 0:
        return 0
    t = tensor(at)
    t.data = what
    t.dtype = row.dtype
    t.ndim = row.rank
    t.device = row.device
    for i in range(t.ndim):
        t.shape[i] = row.sizes[i]
    nbytes = row.donated_bytes
    if nbytes >= 0 and not give(state, at, nbytes):
        release(state, at)
        return 0
    return on_device(state, at, row.wanted)


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
    made = host_to_device(state, at, device, -1, -1, 0)
    if made == 0 and s.outstanding != 0:  # memory of queued work can be reused after a synchronisation
        s.status = wait_for_all(state, _MEMORY)
        if s.status == 0:
            made = host_to_device(state, at, device, -1, -1, 0)
    release(state, at)
    return made
