"""Ranges of the integers in a tensor, and conditions that hold for all elements, by the calls that compute them.

Positions are made by ``arange`` from 0 on and sizes are 0 or more, so that masks of exporters such as
``greater_equal(reshape(arange(0, %n, 1)), 0)`` hold everywhere.  Sums and products of integers wrap, and have no range here.
"""

from __future__ import annotations

import math

from ...ops.core.op import Op, OpPattern, get
from ...ops.core.tensor_types import TensorType, int_range, is_integer
from ...ops.defs.movement.transform import ShapeOfAttrs
from ..ir.expr import Call, Constant, Expr
from .rewriting import Definitions

#: The least and the largest value; an infinity where there is no bound.
Range = tuple[float, float]
#: The length of the longest chain of calls that is followed.
MAX_DEPTH = 24
#: Operators whose elements are elements of their first input, besides views.
_MOVED = (
    "transpose",
    "strided_slice",
    "dyn.strided_slice",
    "take",
    "gather",
    "broadcast_to",
    "dyn.broadcast_to",
    "broadcast_to_like",
)
#: Of comparisons: of the ranges of the operands, whether the relation holds for all elements, or for none.
_ALWAYS = {
    "less": lambda a, b: a[1] < b[0],
    "less_equal": lambda a, b: a[1] <= b[0],
    "greater": lambda a, b: a[0] > b[1],
    "greater_equal": lambda a, b: a[0] >= b[1],
}
_OPPOSITE = {"less": "greater_equal", "greater_equal": "less", "greater": "less_equal", "less_equal": "greater"}


def holds_everywhere(atom: Expr, scope: Definitions, depth: int = 0) -> bool | None:
    """Whether all elements of a tensor of bools are True, or False; None if that is not known."""
    if isinstance(atom, Constant):
        is_known = atom.data.dtype == bool and atom.data.size and atom.data.all() == atom.data.any()
        return bool(atom.data.all()) if is_known else None
    call = _call(atom, scope, depth)
    if call is None or not isinstance(call.op, Op):
        return None
    name = call.op.name
    if _moves(call):
        return holds_everywhere(call.args[0], scope, depth + 1)
    if name in _ALWAYS and all(_is_whole(a) for a in call.args):
        a, b = (range_of(x, scope, depth + 1) for x in call.args)
        return True if _ALWAYS[name](a, b) else False if _ALWAYS[_OPPOSITE[name]](a, b) else None
    if name in ("logical_and", "logical_or"):
        absorbing = name == "logical_or"
        known = [holds_everywhere(x, scope, depth + 1) for x in call.args]
        return absorbing if absorbing in known else None if None in known else not absorbing
    if name == "logical_not":
        inner = holds_everywhere(call.args[0], scope, depth + 1)
        return None if inner is None else not inner
    return None


def range_of(atom: Expr, scope: Definitions, depth: int = 0) -> Range:
    """The range of the elements of a tensor of integers or bools."""
    if isinstance(atom, Constant):
        return (int(atom.data.min()), int(atom.data.max())) if atom.data.size and _is_whole(atom) else (-math.inf, math.inf)
    whole = _of_dtype(atom)
    call = _call(atom, scope, depth)
    if call is None or not isinstance(call.op, Op):
        return whole
    if isinstance(call.attrs, ShapeOfAttrs):
        return 0, whole[1]
    if _moves(call):
        return range_of(call.args[0], scope, depth + 1)
    given = [range_of(x, scope, depth + 1) for x in call.args]
    if call.op is get("arange") and given[2][0] > 0:
        return given[0][0], whole[1]
    if call.op is get("cast") and _is_whole(call.args[0]) and whole[0] <= given[0][0] and given[0][1] <= whole[1]:
        return given[0]
    if call.op in (get("minimum"), get("maximum")):
        choose = min if call.op is get("minimum") else max
        return choose(given[0][0], given[1][0]), choose(given[0][1], given[1][1])
    if call.op is get("where"):
        return min(given[1][0], given[2][0]), max(given[1][1], given[2][1])
    return whole


def _call(atom: Expr, scope: Definitions, depth: int) -> Call | None:
    value = scope.values.get(atom) if depth < MAX_DEPTH else None
    return value if isinstance(value, Call) else None


def _moves(call: Call) -> bool:
    """Whether each element is one of the first input.  Padding, which adds others, is none of these operators."""
    assert isinstance(call.op, Op)
    return isinstance(call.args[0].ty if call.args else None, TensorType) and (
        call.op.pattern is OpPattern.RESHAPE or call.op.name in _MOVED
    )


def _is_whole(atom: Expr) -> bool:
    return isinstance(atom.ty, TensorType) and is_integer(atom.ty.dtype)


def _of_dtype(atom: Expr) -> Range:
    """The range of the dtype; int64 is taken for one without bounds."""
    if not isinstance(atom.ty, TensorType):
        return -math.inf, math.inf
    if atom.ty.dtype == "bool":
        return 0, 1
    return int_range(atom.ty.dtype) if is_integer(atom.ty.dtype) else (-math.inf, math.inf)
