"""Values whose types are settled: a pass that changes some bindings of a typed function leaves the types of the others.

The type of an operator's call follows from its operands and attributes.  A call of a typed module whose operands are the same
objects, with the types that they had, has the type that it had.  A call of which an input's elements decide the shape is typed
anew: more may be known of the elements.
"""

from __future__ import annotations

from functools import cache

from ...ops.core.op import Op, OpPattern
from ..ir.anf import values
from ..ir.expr import Call, Constant, Expr, IRModule, Tuple, TupleGetItem


def settled_values(mod: IRModule) -> frozenset[Expr]:
    """The values of a typed module in A-normal form, and the constants among their operands, whose types are settled."""
    is_settled = cache(is_determined)  # a user may register an operator anew
    found: set[Expr] = set()
    for function in mod.functions.values():
        for value in values(function.body):
            match value:
                case Call(op=Op()) if is_settled(value.op):
                    found.add(value)
                    found.update(a for a in value.args if isinstance(a, Constant))
                case Tuple():
                    found.add(value)
                    found.update(a for a in value.fields if isinstance(a, Constant))
                case TupleGetItem():
                    found.add(value)
    return frozenset(found)


def is_determined(op: Op) -> bool:
    """Whether the types of the operands and the attributes determine the type of a call."""
    # some instructions of the machine have no shape function, others take functions
    return op.pattern is not OpPattern.MACHINE and not any(op.data_dependent)
