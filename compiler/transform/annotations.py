"""Inferred types as annotations."""

from __future__ import annotations

from ...ops.core.adt_types import map_type
from ...ops.core.tensor_types import TensorType, Type
from ...shape_funcs.symbolic.dim import ANY, const, name_of


def annotation_of(ty: Type) -> Type:
    """An inferred type as an annotation: sizes without a name are unknown."""

    def change(part: Type) -> Type | None:
        if not isinstance(part, TensorType):
            return None
        return TensorType(tuple(d if const(d) is not None or name_of(d) is not None else ANY for d in part.shape), part.dtype)

    return map_type(ty, change)
