"""JSON form of types, for the file of an executable.

A named dimension keeps its name.  Every other unknown dimension is ``?`` and is read as a fresh dimension.
"""

from __future__ import annotations

import re
from typing import Any

from ...ops.core.tensor_types import DTYPES, MAX_RANK, FuncType, TensorType, TupleType, Type, dim_text
from ...shape_funcs.symbolic.dim import Dim, const, dim, fresh, sym
from ...shape_funcs.symbolic.program import INT64_MAX

_NAME = re.compile(r"\?[A-Za-z_][A-Za-z0-9_]*")


def type_to_json(ty: Type) -> list[Any]:
    """``["tensor", dtype, [4, "?n", "?"]]``, ``["tuple", [...]]`` or ``["func", [...], result]``."""
    if isinstance(ty, TupleType):
        return ["tuple", [type_to_json(f) for f in ty.fields]]
    if isinstance(ty, FuncType):
        return ["func", [type_to_json(p) for p in ty.params], type_to_json(ty.result)]
    assert isinstance(ty, TensorType), ty
    return ["tensor", ty.dtype, [dim_text(d) if (known := const(d)) is None else known for d in ty.shape]]


def type_from_json(data: Any) -> Type:
    """The inverse of ``type_to_json``.  Raises ValueError for anything else."""
    match data:
        case ["tensor", str(dtype), list(shape)]:
            if dtype not in DTYPES:
                raise ValueError(f"unknown dtype {dtype!r}; there are {', '.join(DTYPES)}")
            if len(shape) > MAX_RANK:
                raise ValueError(f"a tensor type has {len(shape)} dimensions; at most {MAX_RANK} are possible")
            return TensorType(tuple(map(_dim, shape)), dtype)
        case ["tuple", list(fields)]:
            return TupleType(tuple(map(type_from_json, fields)))
        case ["func", list(params), result]:
            return FuncType(tuple(map(type_from_json, params)), type_from_json(result))
    raise ValueError(f"{str(data)[:80]!r} is no type")


def _dim(value: Any) -> Dim:
    if value == "?":
        return fresh()
    if isinstance(value, str) and _NAME.fullmatch(value):
        return sym(value[1:])
    if type(value) is int and 0 <= value <= INT64_MAX:
        return dim(value)
    raise ValueError(f"{value!r} is no dimension")
