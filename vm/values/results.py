"""Results of programs as Python values: tensors, tuples, values of ADTs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ops.core.adt_types import RefType, TypeCall
from ...ops.core.tensor_types import DTYPES, FuncType, TensorType, TupleType, Type
from ...ops.native.memory import load_i64
from ...ops.native.memory import tensor as record_at
from ...ops.native.object_layout import TAG_ADT, TAG_TENSOR
from ...ops.native.objects import adt_at
from ..bytecode.executable import ExecutableData
from ..diagnostics.source import VMError
from .adt import ADT


def python_value(exe: ExecutableData, address: int, ty: Type, tensor_at: Callable[[int], Any]) -> Any:
    """The value of type ``ty`` at an address, which may be nested as deep as memory allows; ``tensor_at`` makes its tensors.

    Raises VMError for a function, for a reference, and for a value of another type.
    """
    if isinstance(ty, TypeCall):
        return _adt(exe, address, ty, tensor_at)
    if isinstance(ty, TupleType):  # outside ADTs as deep as the type
        return tuple([python_value(exe, at, t, tensor_at) for at, t in _fields_at(exe, address, ty)[1]])
    return _tensor(address, ty, tensor_at)


def _adt(exe: ExecutableData, address: int, ty: TypeCall, tensor_at: Callable[[int], Any]) -> Any:
    """As ``python_value``, without recursion."""
    todo: list[tuple[int, Type]] = [(address, ty)]
    order: list[tuple[int, Type]] = []
    while todo:
        at, here = todo.pop()
        order.append((at, here))
        if isinstance(here, (TypeCall, TupleType)):
            todo += reversed(_fields_at(exe, at, here)[1])
    done: list[Any] = []
    for at, here in reversed(order):
        if isinstance(here, (TypeCall, TupleType)):
            constructor, fields = _fields_at(exe, at, here)
            values = tuple([done.pop() for _ in fields])
            done.append(ADT(constructor, values, int(adt_at(at).constructor)) if isinstance(here, TypeCall) else values)
        else:
            done.append(_tensor(at, here, tensor_at))
    return done.pop()


def _tensor(address: int, ty: Type, tensor_at: Callable[[int], Any]) -> Any:
    record = record_at(address)
    if isinstance(ty, (FuncType, RefType)):
        kind = "a function" if isinstance(ty, FuncType) else "a reference"
        raise VMError(f"the result is {ty}: {kind} has no value outside the program")
    if not isinstance(ty, TensorType) or record.tag != TAG_TENSOR or (record.ndim, DTYPES[record.dtype]) != (ty.rank, ty.dtype):
        raise _damaged(ty)
    return tensor_at(address)


def _fields_at(exe: ExecutableData, address: int, ty: TypeCall | TupleType) -> tuple[str, list[tuple[int, Type]]]:
    """The constructor of a record ("" for a tuple), and the addresses and types of its fields."""
    record, name, types = adt_at(address), "", None
    if record_at(address).tag == TAG_ADT and isinstance(ty, TupleType):
        types = ty.fields
    elif record_at(address).tag == TAG_ADT and isinstance(ty, TypeCall):
        adt = exe.adt(ty)
        if record.constructor < len(adt.constructors):
            name, types = adt.constructors[record.constructor][0], adt.fields(int(record.constructor), ty.args)
    if types is None or record.n_fields != len(types):
        raise _damaged(ty)
    return name, [(load_i64(record.fields + 8 * i), t) for i, t in enumerate(types)]


def _damaged(ty: Type) -> VMError:
    return VMError(f"the program declares the result {ty}, but returned something else: the executable is damaged")
