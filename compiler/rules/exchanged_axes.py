"""A transpose of the last two axes between two reshapes: exporters merge the axes in front, for a permutation of a known rank.

let %a = dyn.reshape(%x, (-1, n, d)); let %t = transpose(%a, axes=[0, 2, 1]); dyn.reshape(%t, (b, h, d, n))
->  transpose(%x, axes=[0, 1, 3, 2])
"""

from __future__ import annotations

from collections.abc import Callable

from ...ops.core.op import TypeRelError, get
from ...ops.core.type_relation import relate
from ...ops.defs.movement.transform import TRANSPOSE, TransposeAttrs
from ...shape_funcs.symbolic.dim import dim
from ...shape_funcs.symbolic.dim_operations import substitute
from ..ir.expr import Call, Expr, replace, tensor_type
from .elements import ElementTable


def exchanged(call: Call, elements: ElementTable, definition: Callable[[Expr], Expr | None]) -> Call | None:
    """The transpose that has the result of the last reshape, ``call``, whenever that has a result; None for any other call.

    ``definition``: the value of a variable, None if it has none.
    """
    if call.op is not get("dyn.reshape"):
        return None
    between = definition(call.args[0])
    if not isinstance(between, Call) or between.op is not TRANSPOSE or not _exchanges_last_two(between):
        return None
    first = definition(between.args[0])
    if not isinstance(first, Call) or first.op not in (get("reshape"), get("dyn.reshape")):
        return None
    data, merged = (tensor_type(a).shape for a in (first.args[0], first))
    exchange = (*range(len(data) - 2), len(data) - 1, len(data) - 2)
    if len(data) < 2 or tensor_type(call).shape != tuple(data[a] for a in exchange):
        return None
    try:
        _, checks = relate(call.op, [a.ty for a in call.args], call.attrs, [None, elements.of(call.args[1])])
    except TypeRelError:
        return None
    # a size that is 0 would keep another one in the first reshape, and is refused in the second
    never = {1 - check.condition: dim(0) for check in checks}
    if tuple(substitute(d, never) for d in merged[-2:]) != data[-2:]:
        return None
    return replace(call, op=TRANSPOSE, args=first.args[:1], attrs=TransposeAttrs(exchange))


def _exchanges_last_two(call: Call) -> bool:
    rank = len(tensor_type(call).shape)
    axes = None if call.attrs.axes is None else [axis % rank for axis in call.attrs.axes]
    return rank >= 2 and axes == [*range(rank - 2), rank - 1, rank - 2]
