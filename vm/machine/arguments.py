"""The general path for arguments of a call: conversion of any accepted type, checks, and error messages."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.core.adt_types import RefType, TypeCall, instance_name, own_tensors
from ...ops.core.implementation import HOST
from ...ops.core.tensor_types import TensorType, TupleType, Type, dtype_name
from ...ops.native.status import RESULT_LOST, STATUS
from ..bytecode.executable import ExecutableData
from ..bytecode.sync_reason import SyncReason
from ..device_table import CPU
from ..diagnostics import codes
from ..diagnostics.source import InputError, VMError
from ..runtime.objects.heap import is_lost
from ..values import dlpack
from ..values.adt import ADT
from ..values.signature import ArgumentChecker, as_array
from ..values.tensor import Tensor
from .argument_rows import Record, Records
from .runtime import Runtime

#: The most characters of a field's name in a message.
_LONGEST_NAME = 200
#: Types with ``__dlpack__`` whose values calls take as they are; a subclass may mean something else by its memory.
_OWN = (np.ndarray, Tensor)


def shared(runtime: Runtime, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The arguments of a call with arrays in the place of other libraries' tensors on the host; None if there are none of these.

    A tensor whose producer or dtype numpy refuses stays.
    """
    takes_arrays = runtime.session is not None and runtime.session.takes_arrays
    found = tuple(v if issubclass(type(v), _OWN) or not hasattr(v, "__dlpack__") else _shared(v, takes_arrays) for v in args)
    return found if any(map(operator.is_not, found, args)) else None


def _shared(value: Any, takes_arrays: bool) -> Any:
    try:
        # a machine without a GPU takes no tensors from one: numpy's refusal says where the tensor is, the question takes 2 us
        return value if takes_arrays and value.__dlpack_device__()[0] != dlpack.CPU else np.from_dlpack(value)
    except Exception:  # any of a foreign object's code: the general path converts the value, and reports its errors
        return value


def prepare(runtime: Runtime, checker: ArgumentChecker, name: str, ty: Type, value: Any, device: int) -> Any:
    """Convert an argument to an array, a tensor of this machine, or a tuple of these, and check it against its type.

    An argument of a parameter on the host is on the host.  Raises InputError for an argument that does not fit its parameter,
    VMError for a result whose work was dropped.
    """
    if isinstance(ty, TupleType):
        fields = tuple(value) if issubclass(type(value), (tuple, list)) else None
        if fields is None or len(fields) != len(ty.fields):
            what = f"{len(fields)} values" if fields is not None else type(value).__name__
            raise VMError(
                f"@{checker.function.name}: %{name} takes {len(ty.fields)} values in a tuple, not {what}", code=codes.Input.TYPE
            )
        return tuple(
            prepare(runtime, checker, f"{name}.{i}", t, v, device) for i, (t, v) in enumerate(zip(ty.fields, fields, strict=True))
        )
    if isinstance(ty, TypeCall):
        return _prepare_adt(runtime, checker, name, ty, value, device)
    if isinstance(ty, RefType):
        raise VMError(f"@{checker.function.name} takes a reference as %{name}: only the program itself can make it")
    if not isinstance(ty, TensorType):
        raise VMError(f"@{checker.function.name} takes a function as %{name}: only the program itself can call it")
    if type(value) is Tensor:
        checker.check(name, ty, value.shape, dtype_name(value.dtype))
        if value._handle is runtime.guard.handle and value.device in (runtime.exe.target, "cpu"):
            if is_lost(value._address):
                raise lost(value)
            return value if device else _on_host(value)
        value = value.numpy()
    if device and runtime.session is not None and runtime.session.is_here(value):
        there = runtime.session.borrow(value)
        checker.check(name, ty, there.shape, there.dtype)
        return there
    array = as_array(name, value, ty.dtype)
    checker.check(name, ty, array.shape, dtype_name(array.dtype))
    return array


def _prepare_adt(runtime: Runtime, checker: ArgumentChecker, name: str, ty: TypeCall, value: Any, device: int) -> Records:
    """As ``prepare`` for a value of an ADT, which may be nested as deep as memory allows."""
    items: list[Any] = []
    placed: list[int] = []
    devices = FieldDevices(runtime.exe, device)
    todo: list[tuple[str, Type | None, Any, tuple[int, ...]]] = [(name, ty, value, ())]
    while todo:
        where, wanted, item, on = todo.pop()
        if wanted is None:  # the fields of this record are done
            items.append(item)
            placed.append(device)
        elif isinstance(wanted, TypeCall) or (isinstance(wanted, TupleType) and _is_tuple_of(item, len(wanted.fields))):
            if isinstance(wanted, TypeCall):
                record, fields = _record(runtime, checker, where, wanted, item)
                on = devices.of(wanted, item.constructor, [t for t, _ in fields])
            else:
                record, fields = Record(0, len(wanted.fields)), list(zip(wanted.fields, item, strict=True))
            todo.append((where, None, record, ()))
            # the name of a deep field would be as long as its depth
            inside = where if len(where) < _LONGEST_NAME else f"{name}..."
            parts = zip(fields, devices.parts([t for t, _ in fields], on), strict=True)
            todo += [(f"{inside}.{i}", t, v, part) for i, ((t, v), part) in reversed(list(enumerate(parts)))]
        else:
            placed.append(on[0] if on else device)
            items.append(prepare(runtime, checker, where, wanted, item, placed[-1]))
    return Records(tuple(items), tuple(placed))


class FieldDevices:
    """The devices of the tensors in values of ADTs, which are on ``device`` unless the executable has them on the host."""

    def __init__(self, exe: ExecutableData, device: int) -> None:
        self.device, self.on_host = device, exe.host_fields if device else {}
        self._known: dict[tuple[TypeCall, str], tuple[int, ...]] = {}

    def of(self, ty: TypeCall, constructor: str, fields: Sequence[Type]) -> tuple[int, ...]:
        """The device of each tensor in the fields of a value; () if all are on ``device``."""
        if not self.on_host:
            return ()
        if (ty, constructor) not in self._known:
            numbers = self.on_host.get((instance_name(ty), constructor), ())
            count = sum(len(own_tensors(f)) for f in fields)
            self._known[ty, constructor] = tuple(CPU if k in numbers else self.device for k in range(count)) if numbers else ()
        return self._known[ty, constructor]

    def parts(self, fields: Sequence[Type], devices: tuple[int, ...]) -> list[tuple[int, ...]]:
        """``devices``, divided among the fields."""
        if not devices:
            return [()] * len(fields)
        ends = [0, *itertools.accumulate(len(own_tensors(f)) for f in fields)]
        return [devices[begin:end] for begin, end in itertools.pairwise(ends)]


def _is_tuple_of(value: Any, count: int) -> bool:
    return issubclass(type(value), (tuple, list)) and len(value) == count


def _record(
    runtime: Runtime, checker: ArgumentChecker, name: str, ty: TypeCall, value: Any
) -> tuple[Record, list[tuple[Type, Any]]]:
    """The record of a value of an ADT, and the types and values of its fields.  Raises InputError."""
    where, adt = f"@{checker.function.name}: %{name}", runtime.exe.adt(ty)
    names = [constructor for constructor, _ in adt.constructors]
    if not isinstance(value, ADT):
        help = f"make one: relay.ADT({names[0]!r}, (...))" if names else None
        raise InputError(f"{where} takes a {ty}, not {type(value).__name__}", help=help, code=codes.Input.TYPE)
    if value.constructor not in names:
        listed = ", ".join(names) or "none"
        message = f"{where}: {ty} has no constructor {value.constructor}"
        raise InputError(message, help=f"its constructors: {listed}", code=codes.Input.TYPE)
    tag = names.index(value.constructor)
    types = adt.fields(tag, ty.args)
    if len(types) != len(value.fields):
        message = f"{where}: {value.constructor} has {len(types)} fields, {len(value.fields)} were given"
        raise InputError(message, code=codes.Input.TYPE)
    return Record(tag, len(types)), list(zip(types, value.fields, strict=True))


def _on_host(tensor: Tensor) -> Tensor:
    return tensor if tensor.device == HOST else tensor._vm._to_host(tensor, SyncReason.PASSED_ON)


def lost(tensor: Tensor) -> VMError:
    """The error for the use of a result whose work was dropped after a failure."""
    error = VMError(
        f"{tensor}: {STATUS[RESULT_LOST]}",
        help="run the program again; the failure itself was raised before",
        code=codes.of_status(RESULT_LOST),
    )
    error.status = RESULT_LOST
    return error
