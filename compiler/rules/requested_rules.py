"""Rewrite rules that a program asks for with the pass ``SimplifyExpr``, besides those of the pipeline.

Most write a call in a form with known sizes.  Three change floats: ``x + 0.0`` is ``x``, also for -0.0; ``y / sqrt(x)`` is
``y * rsqrt(x)``, which rounds otherwise; the constants of ``(x + c) + d`` and ``(x * c) * d`` are combined first.
"""

from __future__ import annotations

import numpy as np

from ...ops.core.op import Op, get
from ...ops.core.tensor_types import TensorType, numpy_dtype
from ...ops.defs.arithmetic.broadcast import ADD, BROADCAST_TO, BROADCAST_TO_LIKE, DIVIDE, MULTIPLY, SUBTRACT, BroadcastToAttrs
from ...ops.defs.arithmetic.creation import FullAttrs, InitAttrs
from ...ops.defs.arithmetic.elementwise import CAST, ONES_LIKE, RSQRT, SQRT, ZEROS_LIKE, CastAttrs
from ...ops.defs.movement.layout_transform import LAYOUT_TRANSFORM
from ...ops.defs.movement.transform import RESHAPE, TRANSPOSE, ReshapeAttrs, TransposeAttrs
from ...shape_funcs.symbolic.dim import const
from ..ir.expr import Call, Constant, Expr, replace, tensor_type
from .rewriting import Definitions, Rules, operator_call

RULES = Rules()
_ZEROS, _ONES, _FULL, _FULL_LIKE = map(get, ("zeros", "ones", "full", "full_like"))
_CAST_LIKE, _RESHAPE_LIKE = map(get, ("cast_like", "reshape_like"))
#: The operators whose results have equal elements, with the elements; None: those of the fill value.
_FILLED: dict[Op, int | None] = {_ZEROS: 0, ZEROS_LIKE: 0, _ONES: 1, ONES_LIKE: 1, _FULL: None, _FULL_LIKE: None}


def _sizes(call: Call) -> tuple[int, ...] | None:
    """The sizes of a call's result; None if one is known only at run time."""
    sizes = tuple(map(const, tensor_type(call).shape))
    return None if None in sizes else tuple(size for size in sizes if size is not None)


def _is_filled(atom: Expr, number: int, scope: Definitions) -> bool:
    """Whether every element is the number; 0 is -0.0, too."""
    call = scope.call(atom, *_FILLED)
    if call is not None:
        assert isinstance(call.op, Op)
        element = _FILLED[call.op]
        return element == number if element is not None else _is_filled(call.args[-1], number, scope)
    data = scope.constant(atom)
    return data is not None and data.size > 0 and bool(np.all(data == number))


# ---- neutral elements ----------------------------------------------------------------------------------------------


@RULES.on(ADD, SUBTRACT)
def _add_zeros(call: Call, scope: Definitions) -> Expr | None:
    """``x + zeros``, ``zeros + x``, ``x - zeros``."""
    x, y = call.args
    if _is_filled(y, 0, scope):
        return x
    return y if call.op is ADD and _is_filled(x, 0, scope) else None


@RULES.on(MULTIPLY, DIVIDE)
def _multiply_by_ones(call: Call, scope: Definitions) -> Expr | None:
    """``x * ones``, ``ones * x``, ``x / ones``."""
    x, y = call.args
    if _is_filled(y, 1, scope):
        return x
    return y if call.op is MULTIPLY and _is_filled(x, 1, scope) else None


@RULES.on(ADD, MULTIPLY)
def _combine_constants(call: Call, scope: Definitions) -> Expr | None:
    """``(x + c) + d`` is ``x + (c + d)``, likewise of products."""
    x, d = call.args
    assert isinstance(call.op, Op)
    inner = scope.call(x, call.op)
    outer = scope.constant(d)
    first = None if inner is None else scope.constant(inner.args[1])
    dtype = tensor_type(call).dtype
    if inner is None or first is None or outer is None or dtype == "bool":
        return None
    with np.errstate(over="ignore"):
        combined = np.asarray(first + outer if call.op is ADD else first * outer, numpy_dtype(dtype))
    return operator_call(call.op, (inner.args[0], Constant(combined, ty=TensorType.of(combined.shape, dtype))))


@RULES.on(DIVIDE)
def _divide_by_root(call: Call, scope: Definitions) -> Expr | None:
    """``y / sqrt(x)`` is ``y * rsqrt(x)``."""
    y, root = call.args
    inner = scope.call(root, SQRT)
    if inner is None:
        return None
    return operator_call(MULTIPLY, (y, replace(operator_call(RSQRT, inner.args), span=call.span, ty=root.ty)))


# ---- results with the sizes or the dtype of another tensor -----------------------------------------------------------


@RULES.on(ZEROS_LIKE, ONES_LIKE)
def _filled(call: Call, scope: Definitions) -> Expr | None:
    """``zeros_like(x)`` is ``zeros(shape=[2, 3])``."""
    sizes = _sizes(call)
    attrs = None if sizes is None else InitAttrs(sizes, tensor_type(call).dtype)
    return None if attrs is None else operator_call(_ZEROS if call.op is ZEROS_LIKE else _ONES, (), attrs)


@RULES.on(_FULL_LIKE)
def _full(call: Call, scope: Definitions) -> Expr | None:
    """``full_like(x, c)`` is ``full(c, shape=[2, 3])``."""
    sizes = _sizes(call)
    return None if sizes is None else operator_call(_FULL, call.args[1:], FullAttrs(sizes, tensor_type(call).dtype))


@RULES.on(_CAST_LIKE)
def _cast(call: Call, scope: Definitions) -> Expr | None:
    """``cast_like(x, y)`` is ``cast(x)``."""
    return operator_call(CAST, call.args[:1], CastAttrs(tensor_type(call).dtype))


@RULES.on(_RESHAPE_LIKE)
def _reshape(call: Call, scope: Definitions) -> Expr | None:
    """``reshape_like(x, y)`` is ``reshape(x)``; a size of 0 would mean the size of ``x``."""
    sizes = _sizes(call)
    return None if sizes is None or 0 in sizes else operator_call(RESHAPE, call.args[:1], ReshapeAttrs(sizes))


@RULES.on(BROADCAST_TO_LIKE)
def _broadcast(call: Call, scope: Definitions) -> Expr | None:
    """``broadcast_to_like(x, y)`` is ``broadcast_to(x)``."""
    sizes = _sizes(call)
    return None if sizes is None else operator_call(BROADCAST_TO, call.args[:1], BroadcastToAttrs(sizes))


# ---- transposes and layouts ------------------------------------------------------------------------------------------


def _axes(call: Call) -> tuple[int, ...] | None:
    """The axis of the data for each axis of the result; None if a layout splits axes."""
    rank = tensor_type(call).rank
    if call.op is TRANSPOSE:
        return tuple(a % rank for a in call.attrs.axes) if call.attrs.axes else tuple(reversed(range(rank)))
    source, result = call.attrs.src_layout, call.attrs.dst_layout
    is_permutation = sorted(source) == sorted(result) and len(set(source)) == len(source) == rank
    return tuple(map(source.index, result)) if is_permutation and source.isalpha() else None


@RULES.on(TRANSPOSE, LAYOUT_TRANSFORM)
def _merge_permutations(call: Call, scope: Definitions) -> Expr | None:
    """A transpose of a layout transform, or the other way round, is a transpose, or nothing."""
    inner = scope.call(call.args[0], LAYOUT_TRANSFORM if call.op is TRANSPOSE else TRANSPOSE)
    before = None if inner is None else _axes(inner)
    after = _axes(call)
    if inner is None or before is None or after is None:
        return None
    axes = tuple(before[a] for a in after)
    return inner.args[0] if axes == tuple(range(len(axes))) else operator_call(TRANSPOSE, inner.args, TransposeAttrs(axes))
