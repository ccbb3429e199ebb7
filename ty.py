"""``relay.ty``: types and their constructors."""

from __future__ import annotations

from . import Any, FuncType, TensorType, TupleType, scalar_type
from .ops.core.tensor_types import Type

__all__ = ["Any", "FuncType", "TensorType", "TupleType", "Type", "scalar_type"]
