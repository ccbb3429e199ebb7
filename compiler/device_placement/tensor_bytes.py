"""Sizes of tensors in bytes, as far as their types bound them."""

from __future__ import annotations

from ...ops.core.adt_types import own_tensors
from ...ops.core.tensor_types import TensorType, TupleType, Type, array_bytes
from ...shape_funcs.symbolic.dim import Dim, const
from ...shape_funcs.symbolic.int_operations import MIN

#: The largest work, in bytes of inputs and results, that may move to the host.
SMALL_BYTES = 4096
#: The assumed value of an unbounded size.
LARGE = 1 << 20


def _bound(d: Dim) -> int | None:
    """The upper bound of a size; None if unknown."""
    if d.op == MIN:
        return min((b for b in map(_bound, d.args) if b is not None), default=None)
    return const(d)


def is_small(ty: Type | None) -> bool:
    """Whether the tensors of a value have at most ``SMALL_BYTES``; False if they are not bounded."""
    total = 0
    if not isinstance(ty, (TensorType, TupleType)):
        return False
    for t in own_tensors(ty):
        sizes = [n for n in map(_bound, t.shape) if n is not None]
        if len(sizes) < len(t.shape):
            return False
        total += array_bytes(sizes, t.dtype)
    return total <= SMALL_BYTES


def nbytes_of(ty: TensorType) -> int:
    """The bytes of a tensor, with ``LARGE`` for each size that is not bounded."""
    return array_bytes([LARGE if n is None else n for n in map(_bound, ty.shape)], ty.dtype)
