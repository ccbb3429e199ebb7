"""Rewrite rules that a program asks for with the pass ``SimplifyExpr``, besides those of the pipeline.

Most write a call in a form with known sizes.  Four change floats: ``x + 0.0`` is ``x``, also for -0.0; ``y / sqrt(x)`` is
``y * rsqrt(x)``, which rounds otherwise; the constants of ``(x + c) + d`` and ``(x * c) * d`` are combined first;
``(x + c) * d`` is ``x * d + c * d``.
"""

from __future__ import annotations

import numpy as np

from ...ops.core.op import Op, get
from ...ops.core.tensor_types import TensorType, numpy_dtype
from ...ops.defs.arithmetic.broadcast import ADD, BROADCAST_TO, BROADCAST_TO_LIKE, DIVIDE, MULTIPLY, SUBTRACT, BroadcastToAttrs
from ...ops.defs.arithmetic.creation import FullAttrs, InitAttrs
from ...ops.defs.arithmetic.elementwise import CAST, ONES_LIKE, RSQRT, SQRT, ZEROS_LIKE, CastAttrs
from ...ops.defs.movement.layout_transform import LAYOUT_TRANSFORM, LayoutTransformAttrs
from ...ops.defs.movement.transform import RESHAPE, TRANSPOSE, ReshapeAttrs, TransposeAttrs
from ...shape_funcs.symbolic.dim import const
from ..ir.expr import Call, Constant, Expr, replace, tensor_type
from .rewriting import Definitions, Rules, operator_call

RULES = Rules()
_ZEROS, _ONES, _FULL, _FULL_LIKE = map(get, ("zeros", "ones", "full", "full_like"))
_CAST_LIKE, _RESHAPE_LIKE, _REVERSE_RESHAPE = map(get, ("cast_like", "reshape_like", "contrib_reverse_reshape"))
_COLLAPSE_SUM_LIKE, _COLLAPSE_SUM_TO, _DEQUANTIZE = map(get, ("collapse_sum_like", "collapse_sum_to", "qnn.dequantize"))
_ARGMAX, _ARGMIN, _ARGSORT = map(get, ("argmax", "argmin", "argsort"))
#: The least scale of bytes whose products with it are normal numbers of float16.
_SMALLEST = 1e-3
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


@RULES.on(ADD, SUBTRACT, MULTIPLY, DIVIDE)
def _one_element(call: Call, scope: Definitions) -> Expr | None:
    """``x + full(2f, shape=[2, 3])`` is ``x + 2f`` where the result has the sizes of ``x``, likewise on the other side."""
    for n, atom in enumerate(call.args):
        element = _element(atom, scope)
        if element is not None:
            args = (element, call.args[1]) if n == 0 else (call.args[0], element)
            assert isinstance(call.op, Op)
            new = operator_call(call.op, args)
            return new if scope.is_equivalent(new, call) else None
    return None


def _element(atom: Expr, scope: Definitions) -> Constant | None:
    """The element of a tensor of rank 1 or more whose elements are equal by its definition."""
    call = scope.call(atom, *_FILLED)
    if call is None or not tensor_type(atom).rank:
        return None
    assert isinstance(call.op, Op)
    number = _FILLED[call.op]
    data = scope.constant(call.args[-1]) if number is None else np.array(number)
    dtype = tensor_type(atom).dtype
    return None if data is None or data.size != 1 else _constant(data.reshape(()), dtype)


@RULES.on(ADD)
def _double(call: Call, scope: Definitions) -> Expr | None:
    """``x + x`` is ``x * 2``."""
    x, y = call.args
    dtype = tensor_type(call).dtype
    return operator_call(MULTIPLY, (x, _constant(np.array(2), dtype))) if x is y and dtype != "bool" else None


# ---- constants of sums and products ----------------------------------------------------------------------------------


def _constant(data: np.ndarray, dtype: str) -> Constant:
    with np.errstate(over="ignore"):
        made = np.asarray(data, numpy_dtype(dtype))
    return Constant(made, ty=TensorType.of(made.shape, dtype))


def _with_constant(call: Call | None, scope: Definitions) -> tuple[Expr, np.ndarray] | None:
    """The operand beside a constant one; None unless one of two operands is a constant."""
    if call is not None and tensor_type(call).dtype != "bool":
        for x, c in (call.args, call.args[::-1]):
            data = scope.constant(c)
            if data is not None and scope.constant(x) is None:
                return x, data
    return None


@RULES.on(ADD, MULTIPLY)
def _combine_constants(call: Call, scope: Definitions) -> Expr | None:
    """``(x + c) + d`` is ``x + (c + d)``, likewise of products, with the constants on either side."""
    assert isinstance(call.op, Op)
    outer = _with_constant(call, scope)
    inner = None if outer is None else _with_constant(scope.call(outer[0], call.op), scope)
    if outer is None or inner is None:
        return None
    (_, d), (x, c) = outer, inner
    with np.errstate(over="ignore"):
        return operator_call(call.op, (x, _constant(c + d if call.op is ADD else c * d, tensor_type(call).dtype)))


@RULES.on(MULTIPLY)
def _distribute(call: Call, scope: Definitions) -> Expr | None:
    """``(x + c) * d`` is ``x * d + c * d``, with the constants on either side."""
    outer = _with_constant(call, scope)
    inner = None if outer is None else _with_constant(scope.call(outer[0], ADD), scope)
    if outer is None or inner is None:
        return None
    (_, d), (x, c) = outer, inner
    dtype = tensor_type(call).dtype
    scaled = operator_call(MULTIPLY, (x, _constant(d, dtype)))
    combined = _combine_constants(replace(scaled, ty=call.ty), scope)
    scaled = combined if isinstance(combined, Call) else scaled
    found = scope.typed(scaled)
    if found is None or found[1]:
        return None
    with np.errstate(over="ignore"):
        return operator_call(ADD, (replace(scaled, span=call.span, ty=found[0]), _constant(c * d, dtype)))


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


@RULES.on(_RESHAPE_LIKE, _REVERSE_RESHAPE)
def _reshape(call: Call, scope: Definitions) -> Expr | None:
    """``reshape_like(x, y)`` and ``reverse_reshape(x)`` are ``reshape(x)``; a size of 0 would mean the size of ``x``."""
    sizes = _sizes(call)
    return None if sizes is None or 0 in sizes else operator_call(RESHAPE, call.args[:1], ReshapeAttrs(sizes))


@RULES.on(BROADCAST_TO_LIKE)
def _broadcast(call: Call, scope: Definitions) -> Expr | None:
    """``broadcast_to_like(x, y)`` is ``broadcast_to(x)``."""
    sizes = _sizes(call)
    return None if sizes is None else operator_call(BROADCAST_TO, call.args[:1], BroadcastToAttrs(sizes))


@RULES.on(_COLLAPSE_SUM_LIKE)
def _collapse(call: Call, scope: Definitions) -> Expr | None:
    """``collapse_sum_like(x, y)`` is ``collapse_sum_to(x, [2, 3])``."""
    sizes = _sizes(call)
    shape = None if sizes is None else _constant(np.array(sizes), "int32")
    return None if shape is None else operator_call(_COLLAPSE_SUM_TO, (call.args[0], shape))


@RULES.on(_ARGMAX, _ARGMIN, _ARGSORT)
def _order_of_bytes(call: Call, scope: Definitions) -> Expr | None:
    """``argmax(qnn.dequantize(x))`` is ``argmax(x)``: a positive scale keeps the order of bytes."""
    real = scope.call(call.args[0], _DEQUANTIZE)
    scale = None if real is None else scope.constant(real.args[1])
    if real is None or scale is None or scale.size != 1 or tensor_type(real.args[0]).dtype not in ("int8", "uint8"):
        return None
    assert isinstance(call.op, Op)
    # numbers that are neither rounded to 0 nor to infinity
    return operator_call(call.op, real.args[:1], call.attrs) if _SMALLEST < scale.item() < 1 / _SMALLEST else None


# ---- transposes and layouts ------------------------------------------------------------------------------------------


def _axes(call: Call) -> tuple[int, ...] | None:
    """The axis of the data for each axis of the result; None if a layout splits axes."""
    rank = tensor_type(call).rank
    if call.op is TRANSPOSE:
        return tuple(a % rank for a in call.attrs.axes) if call.attrs.axes else tuple(reversed(range(rank)))
    source, result = call.attrs.src_layout, call.attrs.dst_layout
    is_permutation = sorted(source) == sorted(result) and len(set(source)) == len(source) == rank
    return tuple(map(source.index, result)) if is_permutation and source.isalpha() else None


@RULES.on(LAYOUT_TRANSFORM)
def _two_permutations(call: Call, scope: Definitions) -> Expr | None:
    """A layout transform of a layout transform is a transpose where neither splits axes."""
    inner = scope.call(call.args[0], LAYOUT_TRANSFORM)
    before, after = None if inner is None else _axes(inner), _axes(call)
    if inner is None or before is None or after is None or inner.attrs.dst_layout != call.attrs.src_layout:
        return None
    return operator_call(TRANSPOSE, inner.args, TransposeAttrs(tuple(before[a] for a in after)))


@RULES.on(TRANSPOSE, LAYOUT_TRANSFORM)
def _merge_split_layouts(call: Call, scope: Definitions) -> Expr | None:
    """A layout transform that splits or joins axes, and a transpose before or after it, are a layout transform."""
    if call.op is TRANSPOSE:
        inner = scope.call(call.args[0], LAYOUT_TRANSFORM)
        axes = _axes(call)
        if inner is None or axes is None or len(inner.attrs.dst_layout) != len(axes) or _axes(inner) is not None:
            return None
        layouts = LayoutTransformAttrs(inner.attrs.src_layout, "".join(inner.attrs.dst_layout[a] for a in axes))
    else:
        inner = scope.call(call.args[0], TRANSPOSE)
        axes = None if inner is None else _axes(inner)
        result = call.attrs.src_layout
        if inner is None or axes is None or len(result) != len(axes) or _axes(call) is not None:
            return None
        layouts = LayoutTransformAttrs("".join(result[axes.index(a)] for a in range(len(axes))), call.attrs.dst_layout)
    return operator_call(LAYOUT_TRANSFORM, inner.args, layouts)


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
