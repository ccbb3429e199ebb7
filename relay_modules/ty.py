"""``relay.ty``: types and their constructors."""

from __future__ import annotations

from . import (
    Any,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    ShapeVar,
    TensorType,
    TupleType,
    TypeCall,
    TypeData,
    TypeKind,
    TypeVar,
    scalar_type,
)
from .compiler.analysis.type_variables import is_dynamic
from .compiler.analysis.type_variables import is_dynamic as type_has_any
from .ops.core.tensor_types import Type

__all__ = [
    "Any", "FuncType", "GlobalTypeVar", "IncompleteType", "RefType", "ShapeVar", "TensorType", "TupleType", "Type", "TypeCall",
    "TypeData", "TypeKind", "TypeVar", "is_dynamic", "scalar_type", "type_has_any",
]  # fmt: skip
