"""Rewrite rules for operators that move elements or change the shape: identities, and chains that merge into one operator.

Two views of the same elements are the same tensor if their shapes are equal, so of a chain of views only the last one counts.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ...ops.core.op import REGISTRY, OpPattern, get
from ...ops.core.tensor_types import TensorType, TupleType
from ...ops.defs.arithmetic.broadcast import BROADCAST_TO, BROADCAST_TO_LIKE
from ...ops.defs.movement.indexing import TakeAttrs
from ...ops.defs.movement.layout_transform import LAYOUT_TRANSFORM, LayoutTransformAttrs
from ...ops.defs.movement.transform import (
    CONCATENATE,
    REPEAT,
    RESHAPE,
    STRIDED_SLICE,
    TILE,
    TRANSPOSE,
    AxisAttrs,
    ReshapeAttrs,
    TransposeAttrs,
)
from ...shape_funcs.symbolic.dim import Shape, const
from ..ir.expr import Call, Constant, Expr, Tuple, tensor_type
from .rewriting import Definitions, Rules, operator_call

RULES = Rules()
#: The operators whose result has the first input's elements, in order, under another shape.
VIEWS = tuple(op for op in REGISTRY.values() if op.pattern is OpPattern.RESHAPE)
#: The rules of ``RULES`` that remove views, or merge them.
VIEW_RULES = Rules()


@VIEW_RULES.on(*VIEWS)
@RULES.on(BROADCAST_TO, BROADCAST_TO_LIKE, TILE, REPEAT, *VIEWS)
def _identity_movement(call: Call, scope: Definitions) -> Expr | None:
    """A repetition or view whose shape equals its input's shape is the identity."""
    return call.args[0] if call.ty == call.args[0].ty else None


@RULES.on(STRIDED_SLICE)
def _full_slice(call: Call, scope: Definitions) -> Expr | None:
    """A slice with stride 1 that is as long as its data is the identity."""
    forwards = call.attrs.slice_mode == "size" or all(s == 1 for s in call.attrs.strides)
    return call.args[0] if forwards and call.ty == call.args[0].ty else None


@RULES.on(STRIDED_SLICE)
def _slice_of_one_size(call: Call, scope: Definitions) -> Expr | None:
    """``strided_slice(shape_of(x), begin=[1], end=[2])`` is ``reshape(take(shape_of(x), 1), newshape=[1])``."""
    sizes, first = call.args[0], call.attrs.begin[0]
    source = scope.call(sizes, get("shape_of"))
    if source is None or first is None or const(tensor_type(call).shape[0]) != 1:
        return None
    rank = tensor_type(source.args[0]).rank
    first += rank if first < 0 else 0
    if not 0 <= first < rank:
        return None
    at = Constant(np.array(first, np.int64), ty=TensorType((), "int64"))
    size = Call(get("take"), (sizes, at), TakeAttrs(axis=0), ty=TensorType((), tensor_type(call).dtype))
    return operator_call(RESHAPE, (size,), ReshapeAttrs((1,)))


@RULES.on(CONCATENATE)
def _single_concatenate(call: Call, scope: Definitions) -> Expr | None:
    """A concatenation of one tensor, or of one and others that are empty along the axis, is that tensor."""
    fields = scope.fields(call.args[0])
    if not fields:
        return None
    axis = call.attrs.axis
    kept = [f for f in fields if const(tensor_type(f).shape[axis]) != 0]
    return kept[0] if len(kept) == 1 else None


@RULES.on(get("take"))
def _take_of_single_elements(call: Call, scope: Definitions) -> Expr | None:
    """``take(concatenate((a, b)), [1, 0])`` of vectors of one element is ``concatenate((b, a))``, and with 1 it is ``b``."""
    data, indices = call.args[0], scope.constant(call.args[1])
    joined = scope.call(data, CONCATENATE)
    fields = () if joined is None else scope.fields(joined.args[0]) or ()
    if indices is None or not fields or tensor_type(data).rank != 1 or any(const(tensor_type(f).shape[0]) != 1 for f in fields):
        return None
    if indices.ndim > 1 or not indices.size or not all(0 <= i < len(fields) for i in indices.reshape(-1)):
        return None
    if not indices.ndim:
        return operator_call(RESHAPE, (fields[int(indices)],), ReshapeAttrs(()))
    chosen = tuple(fields[int(i)] for i in indices)
    return operator_call(CONCATENATE, (Tuple(chosen, ty=TupleType(tuple(map(tensor_type, chosen)))),), AxisAttrs(0))


@RULES.on(get("take"))
def _take_in_range(call: Call, scope: Definitions) -> Expr | None:
    """``take(x, 1, axis=0, mode="fast")`` of a ``Tensor[(2)]`` has an index in range, and so the mode that checks none."""
    attrs, indices = call.attrs, scope.constant(call.args[1])
    if attrs.mode == TakeAttrs().mode or attrs.axis is None or indices is None:
        return None
    size = const(tensor_type(call.args[0]).shape[attrs.axis])
    if size is None or not indices.size or indices.min() < 0 or indices.max() >= size:
        return None
    return operator_call(get("take"), call.args, dataclasses.replace(attrs, mode=TakeAttrs().mode))


# ---- transpose -----------------------------------------------------------------------------------------------------


def _permutation(call: Call) -> tuple[int, ...]:
    """The axis of the data for each axis of a transpose's result."""
    rank = tensor_type(call).rank
    return tuple(a % rank for a in call.attrs.axes) if call.attrs.axes else tuple(reversed(range(rank)))


@RULES.on(TRANSPOSE)
def _identity_transpose(call: Call, scope: Definitions) -> Expr | None:
    """``transpose(x, axes=[0, 1, 2])`` is x."""
    return call.args[0] if _permutation(call) == tuple(range(tensor_type(call).rank)) else None


@RULES.on(TRANSPOSE)
def _merge_transposes(call: Call, scope: Definitions) -> Expr | None:
    """``transpose(transpose(x))`` is one transpose."""
    inner = scope.call(call.args[0], TRANSPOSE)
    if inner is None:
        return None
    before = _permutation(inner)
    return operator_call(TRANSPOSE, inner.args, TransposeAttrs(tuple(before[a] for a in _permutation(call))))


# ---- layouts ---------------------------------------------------------------------------------------------------------


@RULES.on(LAYOUT_TRANSFORM)
def _identity_layout(call: Call, scope: Definitions) -> Expr | None:
    """``layout_transform(x, src_layout="NCHW", dst_layout="NCHW")`` is x."""
    return call.args[0] if call.attrs.src_layout == call.attrs.dst_layout else None


@RULES.on(LAYOUT_TRANSFORM)
def _merge_layouts(call: Call, scope: Definitions) -> Expr | None:
    """A layout transform of a layout transform is one, or none for opposite ones."""
    inner = scope.call(call.args[0], LAYOUT_TRANSFORM)
    if inner is None or inner.attrs.dst_layout != call.attrs.src_layout:
        return None
    source, result = inner.attrs.src_layout, call.attrs.dst_layout
    merged = LayoutTransformAttrs(source, result)
    return inner.args[0] if source == result else operator_call(LAYOUT_TRANSFORM, inner.args, merged)


# ---- views ---------------------------------------------------------------------------------------------------------


@VIEW_RULES.on(*VIEWS)
@RULES.on(*VIEWS)
def _merge_views(call: Call, scope: Definitions) -> Expr | None:
    """``reshape(reshape(x))``, ``squeeze(expand_dims(x))``: x, or one view of it."""
    inner = scope.call(call.args[0], *VIEWS)
    if inner is None:
        return None
    data, shape = inner.args[0], tensor_type(call).shape
    if tensor_type(data).shape == shape:
        return data
    # the same attributes if they are equivalent on the data; else a reshape to sizes, which comes first where a shape is an input
    again = Call(call.op, (data, *call.args[1:]), call.attrs)
    newshape = as_newshape(shape, tensor_type(data).shape)
    sized = () if newshape is None else (operator_call(RESHAPE, (data,), ReshapeAttrs(newshape)),)
    candidates = (again, *sized) if len(call.args) == 1 else (*sized, again)
    return next((c for c in candidates if scope.is_equivalent(c, call)), None)


def as_newshape(shape: Shape, data: Shape) -> tuple[int, ...] | None:
    """``shape`` as a reshape's newshape: sizes, 0 for the data's size of that axis, -1 for at most one other unknown.

    None if the shape cannot be expressed so.
    """
    out = []
    for axis, d in enumerate(shape):
        known = const(d)
        kept = axis < len(data) and data[axis] is d
        out.append(0 if known is None and kept else -1 if known is None else known)
    # a size 0 would be read as "keep"
    zero = any(const(d) == 0 for d in shape)
    return None if out.count(-1) > 1 or zero else tuple(out)
