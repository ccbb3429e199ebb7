"""``SplitArgs``: operators of many tensors as trees of calls of a few, each with a kernel of its own.

concatenate((%a, %b, %c, %d), axis=0)  ->  concatenate((annotation.stop_fusion(concatenate((%a, %b), axis=0)),
                                                        annotation.stop_fusion(concatenate((%c, %d), axis=0))), axis=0)
"""

from __future__ import annotations

from ...ops.core.op import Op, get
from ..ir.expr import Call, Expr, IRModule, Tuple
from .operator_rewrites import rewritten_calls


def split_args(mod: IRModule, most: int) -> IRModule:
    """``concatenate`` and ``stack`` of at most ``most`` tensors each; 0: of any number."""

    def rule(call: Call, op: Op) -> Expr | None:
        data = call.args[0] if op.name in ("concatenate", "stack") else None
        if not isinstance(data, Tuple) or not 0 < most < len(data.fields):
            return None
        parts: list[Expr] = list(data.fields)
        while len(parts) > most:
            parts = [_joined(parts[k : k + most], call, op) for k in range(0, len(parts), most)]
            op = get("concatenate")
        return Call(op, (Tuple(tuple(parts), span=data.span),), op.attrs(call.attrs.axis), span=call.span)

    return rewritten_calls(mod, rule)


def _joined(parts: list[Expr], call: Call, op: Op) -> Expr:
    """Some of the tensors joined, by the operator of the call."""
    if len(parts) == 1 and op.name == "concatenate":
        return parts[0]
    stop = get("annotation.stop_fusion")
    joined = Call(op, (Tuple(tuple(parts), span=call.span),), call.attrs, span=call.span)
    return Call(stop, (joined,), stop.attrs(), span=call.span)
