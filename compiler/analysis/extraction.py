"""``relay.analysis.extract_intermdeiate_expr``: a part of a program by the number that its text shows."""

from __future__ import annotations

from ...vm.diagnostics.argument_errors import a_count, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import Call, Function, IRModule, Tuple, TupleGetItem
from ..ir.visitor import free_vars
from .variables import nodes


def extract_intermediate_expr(mod: IRModule, expr_id: int) -> IRModule:
    """A module whose ``main`` computes the expression ``%<expr_id>`` of the text of ``main``.

    Calls, tuples and fields of tuples are counted, each after its parts.  The parameters are the free variables.
    Raises ArgumentError.
    """
    if not isinstance(mod, IRModule):
        raise wrong("extract_intermdeiate_expr: the module", "an IRModule", mod)
    wanted = a_count(expr_id, "extract_intermdeiate_expr: the number")
    found = [node for node in nodes(mod["main"]) if isinstance(node, (Call, Tuple, TupleGetItem))]
    if wanted >= len(found):
        message = f"extract_intermdeiate_expr: @main has {len(found)} expressions with a number, from %0; there is no %{wanted}"
        raise ArgumentError(message, here())
    body = found[wanted]
    main = Function(tuple(free_vars(body)), body, span=body.span)
    return IRModule({**mod.functions, "main": main}, mod.source, mod.type_definitions)
