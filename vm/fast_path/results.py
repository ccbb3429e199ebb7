"""Results of a call as Python's objects: a Tensor, or a (nested) tuple of Tensors."""

from __future__ import annotations

import numpy as np

from ...ops.core.tensor_types import DTYPES, TensorType, TupleType, Type
from ...ops.native.inlining import keep_out_of_line
from ...ops.native.jit.c_functions import call_4
from ...ops.native.memory import load_i64, native, store_i64, tensor
from ...ops.native.object_layout import TAG_ADT, TAG_TENSOR
from ...ops.native.objects import adt_at
from ..runtime.requests import OWN, RELEASE, RETAIN
from . import handles
from .c_api import c_function, py_decref, py_incref, py_long_from

generic_alloc = c_function("PyType_GenericAlloc", True, 2)
tuple_new = c_function("PyTuple_New", True, 1)
tuple_set = c_function("PyTuple_SetItem", True, 3)

#: A row of the table of a result: number of the row of the tuple around it, -1 for none; number of the field there; number of
#: fields, -1 for a tensor; rank and dtype of a tensor; room for the machine's object and for Python's.  A tuple's row is in front
#: of the rows of its fields.
(_PARENT, _FIELD, _N_FIELDS, _RANK, _DTYPE, _AT, _MADE) = range(7)
_ROW_WORDS = 7
_LOW = 0xFFFFFFFF


@native
def new_tensor(handle: int, at: int) -> int:
    """A new Tensor that owns the object ``at``; 0 with an exception set, and the ownership unchanged, on failure."""
    made = generic_alloc(load_i64(handle + 8 * handles.TENSOR), 0)
    if made == 0:
        return 0
    number = py_long_from(at)
    if number == 0:
        py_decref(made)
        return 0
    vm, itself = load_i64(handle + 8 * handles.VM), load_i64(handle + 8 * handles.SELF)
    py_incref(vm)
    py_incref(itself)
    store_i64(made + handles.ADDRESS_SLOT, number)
    store_i64(made + handles.VM_SLOT, vm)
    store_i64(made + handles.HANDLE_SLOT, itself)
    return made


@native
def is_as_declared(rows: int, n: int, result: int) -> bool:
    """Whether the object ``result`` has the type of the table, whose rows then have their objects."""
    keep_out_of_line()
    for i in range(n):
        row = rows + 8 * _ROW_WORDS * i
        parent, at = load_i64(row + 8 * _PARENT), result
        if parent >= 0:
            around = load_i64(rows + 8 * (_ROW_WORDS * parent + _AT))
            at = load_i64(adt_at(around).fields + 8 * load_i64(row + 8 * _FIELD))
        n_fields = load_i64(row + 8 * _N_FIELDS)
        if n_fields >= 0:
            if adt_at(at).tag != TAG_ADT or adt_at(at).n_fields != n_fields:
                return False
        else:
            t = tensor(at)
            if t.tag != TAG_TENSOR or t.ndim != load_i64(row + 8 * _RANK) or t.dtype != load_i64(row + 8 * _DTYPE):
                return False
        store_i64(row + 8 * _AT, at)
    return True


@native
def new_tuple(handle: int, rows: int, n: int) -> int:
    """A new tuple of Tensors that own the objects of the rows; 0 with an exception set, -1: the machine has no memory."""
    keep_out_of_line()
    root = 0
    for i in range(n):
        row = rows + 8 * _ROW_WORDS * i
        n_fields, parent = load_i64(row + 8 * _N_FIELDS), load_i64(row + 8 * _PARENT)
        made = tuple_new(n_fields) if n_fields >= 0 else owner_of(handle, load_i64(row + 8 * _AT))
        if made > 0 and parent >= 0:
            around = load_i64(rows + 8 * (_ROW_WORDS * parent + _MADE))
            if tuple_set(around, load_i64(row + 8 * _FIELD), made) & _LOW != 0:
                made = 0
        if made <= 0:
            if root != 0:
                py_decref(root)
            return made
        if parent < 0:
            root = made
        store_i64(row + 8 * _MADE, made)
    return root


@native
def owner_of(handle: int, at: int) -> int:
    """A new Tensor that owns a reference to the object, or to a copy of memory of the caller; fails as ``new_tuple``."""
    state, machine = load_i64(handle + 8 * handles.STATE), load_i64(handle + 8 * handles.MACHINE)
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
