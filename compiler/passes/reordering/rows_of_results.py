"""Along which axes calls work by rows: a row of the result follows from the same row of some operands, and others as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ops.core.op import Op, OpPattern
from ....ops.core.tensor_types import TensorType, Type
from ....ops.defs.weight_forms.dense_bits import IN_PANELS
from ....shape_funcs.defs.axes.reduce import reduced_axes
from ....shape_funcs.symbolic.dim import const, product
from ...ir.expr import Call, Expr, Tuple, tensor_type

#: Products of rows with one matrix.
PRODUCTS = ("nn.matmul", "nn.dense", IN_PANELS)
#: For each operand the axis of its rows; None: the operand is read as it is.
Axes = Sequence[int | None]


def operand_axes(value: Expr | None, ty: Type | None, axis: int) -> Axes | None:
    """The axes of the operands, or fields, whose rows make a row of ``value`` along ``axis``; None: it does not work by rows.

    ``ty``: the type of ``value``; a row of a tuple is that of each field.
    """
    if isinstance(value, Tuple):
        return [axis] * len(value.fields)
    if not isinstance(value, Call) or not isinstance(value.op, Op) or not isinstance(ty, TensorType):
        return None
    name, args, attrs = value.op.name, value.args, value.attrs
    if value.op.pattern in (OpPattern.ELEMWISE, OpPattern.BROADCAST):
        return _broadcast(ty, args, axis)
    if value.op.pattern is OpPattern.RESHAPE:
        return _view(ty, args, axis)
    if value.op.pattern is OpPattern.COMM_REDUCE:
        return _reduction(args, attrs, axis)
    if name in PRODUCTS:
        is_one_matrix = name == IN_PANELS or (tensor_type(args[1]).rank == 2 and not getattr(attrs, "transpose_a", False))
        is_by_rows = axis < ty.rank - 1 and tensor_type(args[0]).rank == ty.rank
        return [axis, *[None] * (len(args) - 1)] if is_one_matrix and is_by_rows else None
    if name == "nn.batch_matmul":
        return [axis, None] if axis == 1 and not attrs.transpose_a else None
    if name in ("nn.softmax", "nn.log_softmax"):
        return [axis] if attrs.axis % ty.rank != axis else None
    if name == "transpose":
        order = range(ty.rank)[::-1] if attrs.axes is None else attrs.axes
        return [order[axis] % ty.rank]
    if name == "concatenate":
        return [axis] if attrs.axis % ty.rank != axis else None
    if name == "strided_slice":
        sliced = range(len(attrs.begin)) if attrs.axes is None else attrs.axes
        return [axis] if axis not in {a % ty.rank for a in sliced} else None
    return None


def _broadcast(ty: TensorType, args: Sequence[Expr], axis: int) -> Axes | None:
    found: list[int | None] = []
    for shape in (tensor_type(arg).shape for arg in args):
        own = axis - ty.rank + len(shape)
        if own < 0 or const(shape[own]) == 1:
            found.append(None)
        elif shape[own] is ty.shape[axis]:
            found.append(own)
        else:
            return None
    return found


def _view(ty: TensorType, args: Sequence[Expr], axis: int) -> Axes | None:
    """An axis of the first operand that has as many elements before it: both have one order."""
    shape, before = tensor_type(args[0]).shape, product(ty.shape[:axis])
    for own, size in enumerate(shape):
        if size is ty.shape[axis] and product(shape[:own]) is before:
            return [own, *[None] * (len(args) - 1)]
    return None


def _reduction(args: Sequence[Expr], attrs: Any, axis: int) -> Axes | None:
    if len(args) != 1:
        return None
    rank = tensor_type(args[0]).rank
    reduced = reduced_axes(attrs, rank)
    own = axis if attrs.keepdims else [a for a in range(rank) if a not in reduced][axis]
    return None if own in reduced else [own]
