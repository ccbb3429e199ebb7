"""JSON form of types, for the file of an executable.

A named dimension keeps its name.  Every other unknown dimension is ``?`` and is read as a fresh dimension.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...ops.core.adt_types import AdtDefinition, GlobalTypeVar, RefType, TypeCall, TypeVar
from ...ops.core.tensor_types import DTYPES, MAX_FIELDS, MAX_RANK, FuncType, TensorType, TupleType, Type, dim_text
from ...shape_funcs.symbolic.dim import Dim, const, dim, fresh, sym
from ...shape_funcs.symbolic.int_operations import INT64_MAX

_NAME = re.compile(r"\?[A-Za-z_][A-Za-z0-9_]*")


def type_to_json(ty: Type, type_vars: Sequence[TypeVar] = ()) -> list[Any]:
    """``["tensor", dtype, [4, "?n", "?"]]``, ``["tuple", [...]]``, ``["func", [...], result]``, ``["adt", name, [...]]``,
    ``["ref", value]``, or ``["var", k]`` for number ``k`` of ``type_vars``."""

    def inner(t: Type) -> list[Any]:
        return type_to_json(t, type_vars)

    match ty:
        case TupleType():
            return ["tuple", [*map(inner, ty.fields)]]
        case FuncType():
            return ["func", [*map(inner, ty.params)], inner(ty.result)]
        case TypeCall():
            return ["adt", ty.func.name, [*map(inner, ty.args)]]
        case RefType():
            return ["ref", inner(ty.value)]
        case TypeVar():
            return ["var", type_vars.index(ty)]
    assert isinstance(ty, TensorType), ty
    return ["tensor", ty.dtype, [dim_text(d) if (known := const(d)) is None else known for d in ty.shape]]


def type_from_json(data: Any, type_vars: Sequence[TypeVar] = ()) -> Type:
    """The inverse of ``type_to_json``.  Raises ValueError for anything else."""

    def inner(part: Any) -> Type:
        return type_from_json(part, type_vars)

    match data:
        case ["tensor", str(dtype), list(shape)]:
            if dtype not in DTYPES:
                raise ValueError(f"unknown dtype {dtype!r}; there are {', '.join(DTYPES)}")
            if len(shape) > MAX_RANK:
                raise ValueError(f"a tensor type has {len(shape)} dimensions; at most {MAX_RANK} are possible")
            return TensorType(tuple(map(_dim, shape)), dtype)
        case ["tuple", list(fields)]:
            return TupleType(tuple(map(inner, fields)))
        case ["func", list(params), result]:
            return FuncType(tuple(map(inner, params)), inner(result))
        case ["adt", str(name), list(args)]:
            return TypeCall(GlobalTypeVar(name), tuple(map(inner, args)))
        case ["ref", value]:
            return RefType(inner(value))
        case ["var", int(k)] if 0 <= k < len(type_vars):
            return type_vars[k]
    raise ValueError(f"{str(data)[:80]!r} is no type")


def definition_to_json(adt: AdtDefinition) -> list[Any]:
    """``[name, number of type parameters, [[constructor, [field, ...]], ...]]``."""
    rows = [[name, [type_to_json(f, adt.type_vars) for f in fields]] for name, fields in adt.constructors]
    return [adt.name, len(adt.type_vars), rows]


def definition_from_json(data: Any) -> AdtDefinition:
    """The inverse of ``definition_to_json``.  Raises ValueError for anything else."""
    match data:
        case [str(name), int(count), list(rows)] if 0 <= count <= MAX_FIELDS:
            type_vars = tuple(TypeVar(f"T{k}") for k in range(count))
            return AdtDefinition(name, type_vars, tuple(_constructor(row, type_vars) for row in rows))
    raise ValueError(f"{str(data)[:80]!r} is no type definition")


def _constructor(data: Any, type_vars: Sequence[TypeVar]) -> tuple[str, tuple[Type, ...]]:
    match data:
        case [str(name), list(fields)] if len(fields) <= MAX_FIELDS:
            return name, tuple(type_from_json(field, type_vars) for field in fields)
    raise ValueError(f"{str(data)[:80]!r} is no constructor")


def _dim(value: Any) -> Dim:
    if value == "?":
        return fresh()
    if isinstance(value, str) and _NAME.fullmatch(value):
        return sym(value[1:])
    if type(value) is int and 0 <= value <= INT64_MAX:
        return dim(value)
    raise ValueError(f"{value!r} is no dimension")
