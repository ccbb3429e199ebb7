"""Rewrite rules for operators that put elements elsewhere or give a tensor another shape: what does nothing, what can be one.

Two views of the same elements are the same tensor if their shapes are equal, so of a chain of views only the last one counts.
"""

from __future__ import annotations

from ...ops.broadcast import BROADCAST_TO, BROADCAST_TO_LIKE
from ...ops.op import REGISTRY, OpPattern
from ...ops.transform import CONCATENATE, REPEAT, RESHAPE, STRIDED_SLICE, TILE, TRANSPOSE, ReshapeAttrs, TransposeAttrs
from ...shape_funcs.dims import Shape, const
from ..ir import Call, Expr
from .rewriting import Rules, Scope, operator_call, tensor_type

RULES = Rules()
#: The operators whose result is the first input's elements, in order, under another shape.
VIEWS = tuple(op for op in REGISTRY.values() if op.pattern is OpPattern.RESHAPE)


@RULES.on(BROADCAST_TO, BROADCAST_TO_LIKE, TILE, REPEAT, *VIEWS)
def _nothing_more(call: Call, scope: Scope) -> Expr | None:
    """What repeats or views elements and has the shape that it began with does nothing."""
    return call.args[0] if call.ty == call.args[0].ty else None


@RULES.on(STRIDED_SLICE)
def _all_of_it(call: Call, scope: Scope) -> Expr | None:
    """A slice as long as its data, forwards one by one, is all of it."""
    forwards = call.attrs.slice_mode == "size" or all(s == 1 for s in call.attrs.strides)
    return call.args[0] if forwards and call.ty == call.args[0].ty else None


@RULES.on(CONCATENATE)
def _nothing_beside(call: Call, scope: Scope) -> Expr | None:
    """One tensor, or one and others that are empty along the axis."""
    fields = scope.fields(call.args[0])
    if not fields:
        return None
    axis = call.attrs.axis
    kept = [f for f in fields if const(tensor_type(f).shape[axis]) != 0]
    return kept[0] if len(kept) == 1 else None


# ---- transpose -----------------------------------------------------------------------------------------------------


def _order(call: Call) -> tuple[int, ...]:
    """Which axis of its data each axis of a transpose is."""
    rank = tensor_type(call).rank
    return tuple(a % rank for a in call.attrs.axes) if call.attrs.axes else tuple(reversed(range(rank)))


@RULES.on(TRANSPOSE)
def _every_axis_in_place(call: Call, scope: Scope) -> Expr | None:
    """``transpose(x, axes=[0, 1, 2])``."""
    return call.args[0] if _order(call) == tuple(range(tensor_type(call).rank)) else None


@RULES.on(TRANSPOSE)
def _transposed_twice(call: Call, scope: Scope) -> Expr | None:
    """``transpose(transpose(x))`` is one transpose."""
    inner = scope.call(call.args[0], TRANSPOSE)
    if inner is None:
        return None
    before = _order(inner)
    return operator_call(TRANSPOSE, inner.args, TransposeAttrs(tuple(before[a] for a in _order(call))))


# ---- views ---------------------------------------------------------------------------------------------------------


@RULES.on(*VIEWS)
def _viewed_twice(call: Call, scope: Scope) -> Expr | None:
    """``reshape(reshape(x))``, ``squeeze(expand_dims(x))``: x, or one view of it."""
    inner = scope.call(call.args[0], *VIEWS)
    if inner is None:
        return None
    data, shape = inner.args[0], tensor_type(call).shape
    if tensor_type(data).shape == shape:
        return data
    # the same words if they mean the same of the data; else sizes
    again = Call(call.op, (data, *call.args[1:]), call.attrs)
    if scope.means_the_same(again, call):
        return again
    said = _as_newshape(shape, tensor_type(data).shape)
    return None if said is None else operator_call(RESHAPE, (data,), ReshapeAttrs(said))


def _as_newshape(shape: Shape, data: Shape) -> tuple[int, ...] | None:
    """``shape`` as a reshape's newshape: sizes, 0 for one that the data has there, -1 for at most one other; None where that
    cannot be said."""
    out = []
    for axis, d in enumerate(shape):
        known = const(d)
        kept = axis < len(data) and data[axis] is d
        out.append(0 if known is None and kept else -1 if known is None else known)
    # a size 0 would be read as "keep"
    zero = any(const(d) == 0 for d in shape)
    return None if out.count(-1) > 1 or zero else tuple(out)
