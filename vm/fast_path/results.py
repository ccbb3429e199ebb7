"""Results of a call as Python's objects: a Tensor, or a (nested) tuple of Tensors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ops.core.tensor_types import DTYPES, TensorType, TupleType, Type
from ...ops.native.c_functions import call_4
from ...ops.native.inlining import keep_out_of_line
from ...ops.native.memory import load_i64, native, record, tensor
from ...ops.native.object_layout import TAG_ADT, TAG_TENSOR, Record
from ...ops.native.objects import adt_at
from ..runtime.requests import OWN, RELEASE, RETAIN
from .c_api import c_function, py_decref, py_incref, py_long_from
from .handles import machine_at, slots_at

generic_alloc = c_function("PyType_GenericAlloc", True, 2)
tuple_new = c_function("PyTuple_New", True, 1)
tuple_set = c_function("PyTuple_SetItem", True, 3)

#: A row of the table of a result: number of the row of the tuple around it, -1 for none; number of the field there; number of
#: fields, -1 for a tensor; rank and dtype of a tensor; room for the machine's object and for Python's.  A tuple's row is in front
#: of the rows of its fields.
_ROW = np.dtype([(name, np.int64) for name in ("parent", "field", "n_fields", "rank", "dtype", "at", "made")])
_ROW_BYTES = _ROW.itemsize
_row_at: Callable[[int], Record] = record(_ROW)
_LOW = 0xFFFFFFFF


@native
def new_tensor(handle: int, at: int) -> int:
    """A new Tensor that owns the object ``at``; 0 with an exception set, and the ownership unchanged, on failure."""
    made = generic_alloc(machine_at(handle).tensor, 0)
    if made == 0:
        return 0
    number = py_long_from(at)
    if number == 0:
        py_decref(made)
        return 0
    vm, itself = machine_at(handle).vm, machine_at(handle).itself
    py_incref(vm)
    py_incref(itself)
    slots_at(made).number = number
    slots_at(made).vm = vm
    slots_at(made).handle = itself
    return made


@native
def is_as_declared(rows: int, n: int, result: int) -> bool:
    """Whether the object ``result`` has the type of the table, whose rows then have their objects."""
    keep_out_of_line()
    for i in range(n):
        row = _row_at(rows + _ROW_BYTES * i)
        parent, at = row.parent, result
        if parent >= 0:
            around = _row_at(rows + _ROW_BYTES * parent).at
            at = load_i64(adt_at(around).fields + 8 * row.field)
        n_fields = row.n_fields
        if n_fields >= 0:
            if adt_at(at).tag != TAG_ADT or adt_at(at).n_fields != n_fields:
                return False
        else:
            t = tensor(at)
            if t.tag != TAG_TENSOR or t.ndim != row.rank or t.dtype != row.dtype:
                return False
        row.at = at
    return True


@native
def new_tuple(handle: int, rows: int, n: int) -> int:
    """A new tuple of Tensors that own the objects of the rows; 0 with an exception set, -1: the machine has no memory."""
    keep_out_of_line()
    root = 0
    for i in range(n):
        row = _row_at(rows + _ROW_BYTES * i)
        n_fields, parent = row.n_fields, row.parent
        made = tuple_new(n_fields) if n_fields >= 0 else owner_of(handle, row.at)
        if made > 0 and parent >= 0:
            around = _row_at(rows + _ROW_BYTES * parent).made
            if tuple_set(around, row.field, made) & _LOW != 0:
                made = 0
        if made <= 0:
            if root != 0:
                py_decref(root)
            return made
        if parent < 0:
            root = made
        row.made = made
    return root


@native
def owner_of(handle: int, at: int) -> int:
    """A new Tensor that owns a reference to the object, or to a copy of memory of the caller; fails as ``new_tuple``."""
    state, machine = machine_at(handle).state, machine_at(handle).machine
    owned = call_4(machine, state, OWN, call_4(machine, state, RETAIN, at, 0), 0)
    if owned == 0:
        return -1
    made = new_tensor(handle, owned)
    if made == 0:
        call_4(machine, state, RELEASE, owned, 0)
    return made


def result_table(ty: TupleType) -> np.ndarray | None:
    """The table of a tuple of tensors and such tuples; None for other types."""
    rows: list[tuple[int, ...]] = []
    todo: list[tuple[Type, int, int]] = [(ty, -1, 0)]
    for here, parent, field in todo:  # grows
        if isinstance(here, TupleType):
            todo += [(t, len(rows), k) for k, t in enumerate(here.fields)]
            rows.append((parent, field, len(here.fields), 0, 0, 0, 0))
        elif isinstance(here, TensorType):
            rows.append((parent, field, -1, here.rank, DTYPES.index(here.dtype), 0, 0))
        else:
            return None
    return np.array(rows, np.int64)
