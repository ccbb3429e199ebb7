"""``Legalize``: each call of an operator as the expression that a registered function gives for it.

@relay.op.register_legalize("nn.dense")
def legalize_dense(attrs, inputs, types):
    return relay.nn.matmul(inputs[0], inputs[1], transpose_b=True)
"""

from __future__ import annotations

from typing import Any

from ....ops.core.op import Op
from ....vm.diagnostics.argument_errors import wrong
from ...ir.expr import Call, Expr, IRModule, map_functions
from ...ir.op_attributes import attribute
from ..inlining import graph_of
from ..operator_rewrites import rewritten_calls


def legalize(mod: IRModule, key: str) -> IRModule:
    """The module with each call replaced by the result of the function ``key`` of its operator, unless that is None.

    Raises ArgumentError for a function that returns neither an expression nor None, and the function's own errors.
    """

    def rule(call: Call, op: Op) -> Expr | None:
        function = attribute(op.name, key)
        if function is None:
            return None
        types = [*(argument.ty for argument in call.args), call.ty]
        return result_of(key, op, function(call.attrs, list(call.args), types))

    return rewritten_calls(map_functions(mod, lambda f: graph_of(f, mod)), rule)


def result_of(key: str, op: Op, result: Any) -> Expr | None:
    """The checked result of a registered function.  Raises ArgumentError."""
    if not isinstance(result, (Expr, type(None))):
        raise wrong(f"the result of {key} of {op.name}", "an expression or None", result)
    return result
