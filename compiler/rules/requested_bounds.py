"""Rewrite rules that a program asks for with the pass ``SimplifyExpr``: bounds of numbers, and casts of bounded numbers.

Quantised models have ``cast(clip(x, a_min=0f, a_max=255f), dtype="uint8")``, and the same again after it.  Results keep every
bit.
"""

from __future__ import annotations

import math

import numpy as np

from ...ops.core.op import get
from ...ops.core.tensor_types import ITEMSIZE, is_float, numpy_dtype
from ...ops.defs.arithmetic.elementwise import CAST, ClipAttrs
from ..ir.expr import Call, Expr, replace, tensor_type
from .rewriting import Definitions, Rules, operator_call

RULES = Rules()
_CLIP = get("clip")


def _range(dtype: str) -> tuple[int, int] | None:
    """The least and the greatest integer of a dtype; None for floats and bools."""
    if is_float(dtype) or dtype == "bool":
        return None
    info = np.iinfo(numpy_dtype(dtype))
    return int(info.min), int(info.max)


def _fits(clip: Call, dtype: str) -> bool:
    """Whether each integer within the bounds is a number of an integer dtype."""
    numbers = _range(dtype)
    low, high = clip.attrs.a_min, clip.attrs.a_max
    if numbers is None or not (math.isfinite(low) and math.isfinite(high)):
        return False
    return bool(numbers[0] <= math.ceil(low) <= math.floor(high) <= numbers[1])


@RULES.on(_CLIP)
def _all_numbers(call: Call, scope: Definitions) -> Expr | None:
    """``clip`` to bounds that every number of the dtype is within."""
    numbers = _range(tensor_type(call).dtype)
    is_all = numbers is not None and call.attrs.a_min <= numbers[0] and numbers[1] <= call.attrs.a_max
    return call.args[0] if is_all else None


@RULES.on(_CLIP)
def _clip_of_cast(call: Call, scope: Definitions) -> Expr | None:
    """``clip(cast(clip(x)))`` of integers is ``cast(clip(x))`` with the bounds of both."""
    cast = scope.call(call.args[0], CAST)
    first = None if cast is None else scope.call(cast.args[0], _CLIP)
    if cast is None or first is None or _range(tensor_type(first).dtype) is None or not _fits(first, cast.attrs.dtype):
        return None
    low, high = max(first.attrs.a_min, call.attrs.a_min), min(first.attrs.a_max, call.attrs.a_max)
    if math.ceil(low) > math.floor(high):
        return None
    both = operator_call(_CLIP, first.args, ClipAttrs(low, high))
    return operator_call(CAST, (replace(both, span=call.span, ty=first.ty),), cast.attrs)


@RULES.on(CAST)
def _cast_of_bounded(call: Call, scope: Definitions) -> Expr | None:
    """``cast(cast(clip(x), dtype="uint8"))`` is ``cast(clip(x))``, or ``clip(x)`` if it has the dtype."""
    inner = scope.call(call.args[0], CAST)
    clip = None if inner is None else scope.call(inner.args[0], _CLIP)
    if inner is None or clip is None or not _fits(clip, inner.attrs.dtype):
        return None
    source, wanted = tensor_type(clip).dtype, call.attrs.dtype
    # a cast of floats cuts fractions off, and NaN is 0 in each dtype of at most 4 bytes
    if is_float(source) and (_range(wanted) is None or not _fits(clip, wanted) or ITEMSIZE[wanted] > 4):
        return None
    return inner.args[0] if source == wanted else operator_call(CAST, inner.args, call.attrs)
