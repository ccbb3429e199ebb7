"""Tensors in records, the fields of ADTs and the values of references, and the items that decide their devices.

A field has one device for all values that a constructor of an instance makes, since a reader does not know the maker of a value.
Instances that differ in sizes have one name (``instance_name``) and so the same devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from ...ops.core.adt_types import instance_name, own_tensors
from ...ops.core.tensor_types import TensorType
from ...ops.defs.machine.adt_ops import (
    ADT_FIELDS,
    MAKE_ADT,
    MAKE_REF,
    NO_MATCH,
    READ_REF,
    RECORD_OPERATORS,
    WRITE_REF,
    AdtFieldsAttrs,
    MakeAdtAttrs,
)
from ..ir.anf import values
from ..ir.expr import Call, Expr, Function, type_of

#: The name of an instance, and a constructor; "" for a reference.
FieldsKey: TypeAlias = tuple[str, str]


def fields_key(call: Call) -> FieldsKey:
    """The fields that a call of a record operator stores or reads."""
    record = call if call.op in (MAKE_ADT, MAKE_REF) else call.args[0]
    attrs = call.attrs
    return instance_name(type_of(record)), attrs.constructor if isinstance(attrs, (MakeAdtAttrs, AdtFieldsAttrs)) else ""


def record_text(call: Call) -> str:
    """The record that a call of a record operator stores in or reads, for a message."""
    record = call if call.op in (MAKE_ADT, MAKE_REF) else call.args[0]
    _, constructor = fields_key(call)
    return f"{constructor} of {type_of(record)}" if constructor else str(type_of(record))


def stored(call: Call) -> tuple[Expr, ...]:
    """The values that a call of a record operator stores in a record."""
    if call.op is WRITE_REF:
        return call.args[1:]
    return call.args if call.op in (MAKE_ADT, MAKE_REF) else ()


def field_tensors(call: Call) -> tuple[TensorType, ...]:
    """The types of the tensors that a call of a record operator stores or reads, in order."""
    reads = call.op in (ADT_FIELDS, READ_REF)
    return tuple(t for value in ((call,) if reads else stored(call)) for t in own_tensors(value.ty))


class RecordFields:
    """The items of the fields in ``functions``; ``item(types)`` makes the item of a tensor from its types in all calls."""

    def __init__(self, functions: Iterable[Function], item: Callable[[list[TensorType]], int]) -> None:
        types: dict[FieldsKey, list[list[TensorType]]] = {}
        for call in _record_calls(functions):
            here = field_tensors(call)
            known = types.setdefault(fields_key(call), [[] for _ in here])
            for seen, ty in zip(known, here, strict=True):
                seen.append(ty)
        self.of = {key: tuple(map(item, seen)) for key, seen in types.items()}


def _record_calls(functions: Iterable[Function]) -> Iterator[Call]:
    for function in functions:
        for value in values(function.body):
            if isinstance(value, Call) and value.op in RECORD_OPERATORS and value.op is not NO_MATCH:
                yield value
