"""``relay.ty``: types and their constructors."""

from __future__ import annotations

from . import Any, FuncType, GlobalTypeVar, RefType, TensorType, TupleType, TypeCall, TypeData, TypeVar, scalar_type
from .ops.core.tensor_types import Type

__all__ = [
    "Any", "FuncType", "GlobalTypeVar", "RefType", "TensorType", "TupleType", "Type", "TypeCall", "TypeData", "TypeVar",
    "scalar_type",
]  # fmt: skip
