"""Rewrite rules for arithmetic, logic and casts: neutral elements, involutions, idempotent operators.

Exact for every value.  For floating-point numbers that excludes similar identities: ``x + 0.0`` is not ``x`` if x is
-0.0 (``x + -0.0`` and ``x - 0.0`` are), ``x * 0.0`` is not 0.0 for an infinity, NaN or a negative number, ``x - x`` is NaN
for an infinity, and neither sums nor products may be reassociated.
"""

from __future__ import annotations

import math

import numpy as np

from ...ops.core.op import Op, get
from ...ops.core.tensor_types import TensorType, computed_in, int_range, is_float, is_integer
from ...ops.defs.arithmetic.broadcast import (
    ADD,
    BITWISE_AND,
    BITWISE_OR,
    BITWISE_XOR,
    DIVIDE,
    FLOOR_DIVIDE,
    LEFT_SHIFT,
    LOGICAL_AND,
    LOGICAL_OR,
    LOGICAL_XOR,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    POWER,
    RIGHT_SHIFT,
    SUBTRACT,
    TRUNC_DIVIDE,
    WHERE,
)
from ...ops.defs.arithmetic.elementwise import (
    ABS,
    BITWISE_NOT,
    CAST,
    CEIL,
    CLIP,
    COPY,
    FLOOR,
    LOGICAL_NOT,
    NEGATIVE,
    RELU,
    ROUND,
    RSQRT,
    SIGN,
    SQRT,
    TRUNC,
    ZEROS_LIKE,
    ClipAttrs,
)
from ..ir.expr import Call, Constant, Expr, tensor_type
from .rewriting import Definitions, Rules, operator_call
from .value_ranges import holds_everywhere

RULES = Rules()

# ---- neutral elements ----------------------------------------------------------------------------------------------


@RULES.on(ADD)
def _add_zero(call: Call, scope: Definitions) -> Expr | None:
    """``x + 0``, ``0 + x``; for floats -0.0."""
    x, y = call.args
    zero = -0.0 if is_float(tensor_type(call).dtype) else 0
    return x if scope.is_all(y, zero) else y if scope.is_all(x, zero) else None


@RULES.on(SUBTRACT)
def _subtract_zero(call: Call, scope: Definitions) -> Expr | None:
    """``x - 0``; for floats 0.0."""
    x, y = call.args
    return x if scope.is_all(y, 0) else None


@RULES.on(SUBTRACT)
def _merge_subtractions(call: Call, scope: Definitions) -> Expr | None:
    """``x - a - b`` of integers and constants is ``x - (a + b)``, modulo the same power of two."""
    inner, last = scope.call(call.args[0], SUBTRACT), scope.constant(call.args[1])
    first = None if inner is None or is_float(tensor_type(call).dtype) else scope.constant(inner.args[1])
    if inner is None or first is None or last is None:
        return None
    both = np.asarray(np.add(first, last, dtype=first.dtype))
    if both.size > max(first.size, last.size):  # a row and a column
        return None
    return operator_call(SUBTRACT, (inner.args[0], Constant(both, ty=TensorType.of_array(both))))


@RULES.on(MULTIPLY)
def _multiply_by_one(call: Call, scope: Definitions) -> Expr | None:
    """``x * 1``, ``1 * x``."""
    x, y = call.args
    return x if scope.is_all(y, 1) else y if scope.is_all(x, 1) else None


@RULES.on(MULTIPLY, BITWISE_AND)
def _multiply_by_zero(call: Call, scope: Definitions) -> Expr | None:
    """``x * 0`` and ``x & 0`` of integers: zeros."""
    if not is_integer(tensor_type(call).dtype):
        return None
    for x, y in (call.args, call.args[::-1]):
        if scope.is_all(y, 0):
            return operator_call(ZEROS_LIKE, (x,))
    return None


@RULES.on(DIVIDE, POWER, TRUNC_DIVIDE, FLOOR_DIVIDE)
def _divide_by_one(call: Call, scope: Definitions) -> Expr | None:
    """``x / 1``, ``x ** 1``, and for integers the divisions that round."""
    x, y = call.args
    rounds = call.op in (TRUNC_DIVIDE, FLOOR_DIVIDE) and is_float(tensor_type(call).dtype)
    return x if scope.is_all(y, 1) and not rounds else None


@RULES.on(POWER)
def _power_of_one_exponent(call: Call, scope: Definitions) -> Expr | None:
    """``x ** [3, 3]`` is ``x ** 3``: a constant of no axes is part of the kernel's text, which then calls no function."""
    x, y = call.args
    data = scope.constant(y)
    if data is None or data.ndim == 0 or not data.size or not scope.is_all(y, data.reshape(-1)[0]):
        return None
    return operator_call(POWER, (x, Constant(data.reshape(-1)[0].reshape(()), ty=TensorType((), tensor_type(y).dtype))))


@RULES.on(POWER)
def _square(call: Call, scope: Definitions) -> Expr | None:
    """``x ** 2`` is ``x * x``, also with the constants that have an axis."""
    x, y = call.args
    return operator_call(MULTIPLY, (x, x)) if scope.is_all(y, 2) else None


@RULES.on(DIVIDE)
def _reciprocal_square_root(call: Call, scope: Definitions) -> Expr | None:
    """``1 / sqrt(x)`` is ``rsqrt(x)``; in float16 and bfloat16 the square root is rounded before."""
    one, root = call.args
    inner = scope.call(root, SQRT)
    exact = computed_in(tensor_type(call).dtype) == tensor_type(call).dtype
    return operator_call(RSQRT, inner.args) if inner is not None and exact and scope.is_all(one, 1) else None


@RULES.on(LEFT_SHIFT, RIGHT_SHIFT)
def _shift_by_zero(call: Call, scope: Definitions) -> Expr | None:
    x, y = call.args
    return x if scope.is_all(y, 0) else None


@RULES.on(LOGICAL_AND, BITWISE_AND)
def _and_all_ones(call: Call, scope: Definitions) -> Expr | None:
    """``x and True``, ``x & ~0``."""
    dtype = tensor_type(call).dtype
    all_ones = True if dtype == "bool" else -1 if int_range(dtype)[0] else int_range(dtype)[1]
    x, y = call.args
    return x if scope.is_all(y, all_ones) else y if scope.is_all(x, all_ones) else None


@RULES.on(LOGICAL_AND)
def _and_what_always_holds(call: Call, scope: Definitions) -> Expr | None:
    """``x and i >= 0`` of positions ``i``."""
    for x, y in (call.args, call.args[::-1]):
        if x.ty == call.ty and holds_everywhere(y, scope):
            return x
    return None


@RULES.on(LOGICAL_OR, BITWISE_OR, LOGICAL_XOR, BITWISE_XOR)
def _or_zero(call: Call, scope: Definitions) -> Expr | None:
    """``x or False``, ``x | 0``, ``x ^ 0``."""
    x, y = call.args
    return x if scope.is_all(y, 0) else y if scope.is_all(x, 0) else None


# ---- equal operands, repeated operators ----------------------------------------------------------------------------


@RULES.on(MAXIMUM, MINIMUM, LOGICAL_AND, LOGICAL_OR, BITWISE_AND, BITWISE_OR)
def _same_operands(call: Call, scope: Definitions) -> Expr | None:
    """``max(x, x)``, ``x and x``."""
    x, y = call.args
    return x if x is y else None


@RULES.on(SUBTRACT, BITWISE_XOR)
def _subtract_itself(call: Call, scope: Definitions) -> Expr | None:
    """``x - x`` and ``x ^ x`` of integers: zeros."""
    x, y = call.args
    return operator_call(ZEROS_LIKE, (x,)) if x is y and not is_float(tensor_type(call).dtype) else None


@RULES.on(WHERE)
def _constant_where(call: Call, scope: Definitions) -> Expr | None:
    """A selection of equal operands, ``where(c, x, x)``, or by a condition that holds for all elements, or for none."""
    condition, x, y = call.args
    if x is y:
        return x
    known = holds_everywhere(condition, scope)
    if known is None:
        return None
    chosen = x if known else y
    if chosen.ty == call.ty:
        return chosen
    # a number for each element of the condition
    is_whole = isinstance(chosen, Constant) and tensor_type(condition).shape == tensor_type(call).shape
    return operator_call(get("broadcast_to_like"), (chosen, condition)) if is_whole else None


@RULES.on(NEGATIVE, LOGICAL_NOT, BITWISE_NOT)
def _involution(call: Call, scope: Definitions) -> Expr | None:
    """``-(-x)``, ``not not x``; unsigned and smallest integers wrap twice."""
    assert isinstance(call.op, Op)
    inner = scope.call(call.args[0], call.op)
    return None if inner is None else inner.args[0]


@RULES.on(ABS, SIGN, FLOOR, CEIL, TRUNC, ROUND, RELU)
def _idempotent(call: Call, scope: Definitions) -> Expr | None:
    """``f(f(x))`` is ``f(x)``."""
    (x,) = call.args
    value = scope.values.get(x)
    return x if isinstance(value, Call) and value.op is call.op else None


@RULES.on(FLOOR, CEIL, TRUNC, ROUND)
def _round_integral(call: Call, scope: Definitions) -> Expr | None:
    """Rounding of integers, or of rounded values."""
    (x,) = call.args
    value = scope.values.get(x)
    whole = isinstance(value, Call) and value.op in (FLOOR, CEIL, TRUNC, ROUND)
    return x if whole or not is_float(tensor_type(x).dtype) else None


@RULES.on(ABS)
def _abs_nonnegative(call: Call, scope: Definitions) -> Expr | None:
    """``abs(-x)`` is ``abs(x)``; ``abs`` of unsigned integers is the identity."""
    (x,) = call.args
    unsigned = tensor_type(x).dtype.startswith("u")
    inner = scope.call(x, NEGATIVE)
    return x if unsigned else None if inner is None else operator_call(ABS, inner.args)


@RULES.on(COPY)
def _copy(call: Call, scope: Definitions) -> Expr | None:
    """A copy is its source, since values are immutable."""
    return call.args[0]


# ---- limits --------------------------------------------------------------------------------------------------------


@RULES.on(CLIP)
def _merge_clips(call: Call, scope: Definitions) -> Expr | None:
    """``clip(clip(x, a, b), c, d)`` is one clip, if ``a <= b`` and ``c <= d``."""
    inner = scope.call(call.args[0], CLIP)
    if inner is None:
        return None
    outer_min, outer_max = call.attrs.a_min, call.attrs.a_max
    bounds = (inner.attrs.a_min, inner.attrs.a_max, outer_min, outer_max)
    if not (bounds[0] <= bounds[1] and bounds[2] <= bounds[3]) or any(b == 0 and math.copysign(1, b) < 0 for b in bounds):
        return None  # NaN compares as false
    if not is_float(tensor_type(call).dtype) and any(math.isfinite(b) and b != math.floor(b) for b in bounds):
        return None  # the bounds are rounded inwards, separately for each clip
    low, high = (min(max(b, outer_min), outer_max) for b in bounds[:2])
    return operator_call(CLIP, inner.args, ClipAttrs(low, high))


@RULES.on(CLIP)
def _unbounded_clip(call: Call, scope: Definitions) -> Expr | None:
    """``clip(x, -inf, inf)``."""
    return call.args[0] if call.attrs.a_min == -math.inf and call.attrs.a_max == math.inf else None


# ---- conversions ---------------------------------------------------------------------------------------------------

#: The bits of the largest integer range that each floating-point dtype represents exactly.
_WHOLE_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


@RULES.on(CAST)
def _identity_cast(call: Call, scope: Definitions) -> Expr | None:
    """``cast(x)`` to the dtype of x."""
    (x,) = call.args
    return x if tensor_type(x).dtype == call.attrs.dtype else None


@RULES.on(CAST)
def _merge_casts(call: Call, scope: Definitions) -> Expr | None:
    """``cast(cast(x, B), C)`` is ``cast(x, C)`` if B represents every value of x's dtype A."""
    inner = scope.call(call.args[0], CAST)
    if inner is None:
        return None
    first, between, last = tensor_type(inner.args[0]).dtype, inner.attrs.dtype, call.attrs.dtype
    if not holds(between, first):
        return None
    if first == last:
        return inner.args[0]
    # the result for a float out of the integer's range depends on the dtype that is converted
    if is_integer(last) and is_float(between) and not (first == "bool" or computed_in(first) == between):
        return None
    return operator_call(CAST, inner.args, call.attrs)


def holds(wide: str, narrow: str) -> bool:
    """Whether dtype ``wide`` represents every value of dtype ``narrow``."""
    if wide == narrow or narrow == "bool":
        return True
    if wide == "bool" or (is_float(narrow) and not is_float(wide)):
        return False
    if is_float(narrow):
        return wide == "float64" or (wide == "float32" and narrow != "float64")
    low, high = int_range(narrow)
    if is_float(wide):
        return bool(max(-low, high) <= 2 ** _WHOLE_BITS[wide])
    return int_range(wide)[0] <= low and high <= int_range(wide)[1]
