"""``relay.loops.while_loop``: a loop as a function that calls itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ops.core.tensor_types import TensorType
from ...shape_funcs.symbolic.dim import dim
from ...vm.diagnostics.argument_errors import a_sequence, wrong
from ...vm.diagnostics.python_source import here
from ..ir.expr import Call, Constant, Expr, Function, If, Let, Tuple, Var
from .build import as_expr, declared_type

_Step = Callable[..., Any]


def while_loop(cond: _Step, loop_vars: Sequence[Expr], loop_bodies: _Step) -> Let:
    """A function of the loop's variables that gives their values after the loop, as a tuple.

    ``loop_vars``: variables or values that state the types; ``cond(*vars)``: whether there is one more round;
    ``loop_bodies(*vars)``: the values for the next round, as a sequence of as many expressions.  Raises ArgumentError.
    """
    for what, function in (("cond", cond), ("loop_bodies", loop_bodies)):
        if not callable(function):
            raise wrong(f"while_loop: {what}", "a function of the loop's variables", function)
    given = [as_expr(value) for value in a_sequence(loop_vars, "while_loop: the loop_vars", "[i, total]")]
    fresh = tuple(_fresh(value, number) for number, value in enumerate(given))
    loop = Var("while_loop", span=here())
    values = loop_bodies(*fresh)
    following = [as_expr(value) for value in a_sequence(values, "while_loop: the result of loop_bodies", "[i + 1, total]")]
    if len(following) != len(fresh):
        raise wrong("while_loop: the result of loop_bodies", f"{len(fresh)} expressions, one for each variable", values)
    again = Call(loop, tuple(following), span=here())
    body = If(as_expr(cond(*fresh)), again, Tuple(fresh, span=here()), span=here())
    return Let(loop, Function(fresh, body, span=here()), loop, span=here())


def _fresh(value: Expr, number: int) -> Var:
    """A new variable of the value's type, with the name of a variable."""
    ty = declared_type(value)
    if isinstance(value, Constant):
        ty = TensorType(tuple(map(dim, value.data.shape)), value.data.dtype.name)
    return Var(value.name if isinstance(value, Var) else f"arg{number}", ty, span=here())
