"""``AlterOpLayout``: calls in the layouts that a registered function chooses, with transforms of inputs and results around them.

    @relay.op.register_alter_op_layout("nn.conv2d")
    def alter_conv2d(attrs, inputs, tinfos, out_type):
        new = dict(attrs)
        new["data_layout"], new["kernel_layout"] = "NHWC", "HWIO"
        return relay.nn.conv2d(*inputs, **new)

An input that the function passes on is transformed to the new layout; any other input has the new layout already.
"""

from __future__ import annotations

from typing import Any

from ....ops.core.op import Op
from ...ir.expr import Call, Expr, IRModule, map_functions, replace
from ...ir.op_attributes import ALTER_OP_LAYOUT, attribute
from ...passes.beta_reduction import rewritten_function
from ..convert_layout import past_operator, transform
from ..inlining import graph_of
from .legalize import result_of


def alter_op_layout(mod: IRModule) -> IRModule:
    """The module with the calls of operators that have a function ``FTVMAlterOpLayout`` in the layouts that it chooses.

    Raises ArgumentError for a function that returns neither an expression nor None, and the function's own errors.
    """

    def visit(node: Expr) -> Expr:
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            return node
        function = attribute(node.op.name, ALTER_OP_LAYOUT)
        return past_operator(node, node.op) if function is None else _altered(node, node.op, function)

    return map_functions(mod, lambda f: rewritten_function(graph_of(f, mod), visit))


def _altered(call: Call, op: Op, function: Any) -> Expr:
    given = [argument.ty for argument in call.args]
    new = result_of(ALTER_OP_LAYOUT, op, function(call.attrs, list(call.args), given, call.ty))
    if new is None or new is call:
        return call
    if not isinstance(new, Call) or not isinstance(new.op, Op):
        return replace(new, ty=call.ty)
    old_inputs, old_result = _layouts(call.attrs)
    inputs, result = _layouts(new.attrs)
    args = [
        transform(arg, before, after) if before and after and arg is old else arg
        for arg, old, before, after in zip(new.args, call.args, old_inputs, inputs, strict=False)
    ]
    placed: Call = replace(new, args=(*args, *new.args[len(args) :]), ty=None)
    altered: Call = transform(placed, result, old_result) if result and old_result else placed
    return replace(altered, ty=call.ty, span=call.span)


def _layouts(attrs: Any) -> tuple[tuple[str, ...], str]:
    """The layouts of the inputs, data first, and of the result; "" for none."""
    data = getattr(attrs, "data_layout", "") or getattr(attrs, "layout", "")
    kernel = getattr(attrs, "kernel_layout", "")
    return (data, kernel, *[""] * 8), getattr(attrs, "out_layout", "") or data
