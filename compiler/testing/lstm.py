"""A recurrent network: a long short-term memory, unrolled."""

from __future__ import annotations

from ...shape_funcs.symbolic.dim import IntLike
from ...vm.diagnostics.argument_errors import a_count, wrong
from ..builder.build import const, var
from ..builder.operator_functions import operators
from ..ir.expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from .layers import dense, network
from .workload import Workload, create_workload


def lstm_cell(num_hidden: int) -> Function:
    """One step: ``(inputs, (hidden, memory), weights...)`` to ``(hidden, (hidden, memory))``."""
    inputs, states = var("inputs"), var("states")
    hidden, memory = TupleGetItem(states, 0), TupleGetItem(states, 1)
    i2h, h2h = (dense(x, 4 * num_hidden, name) for x, name in ((inputs, "i2h"), (hidden, "h2h")))
    gates = operators.split(i2h + h2h, 4, axis=1)
    enter, forget, leave = (operators.sigmoid(gates[k]) for k in (0, 1, 3))
    next_memory = forget * memory + enter * operators.tanh(gates[2])
    next_hidden = leave * operators.tanh(next_memory)
    result = Tuple((next_hidden, Tuple((next_hidden, next_memory))))
    weights = [p for p in network(result).params if p not in (inputs, states)]
    return Function((inputs, states, *weights), result)


def get_net(iterations: int, num_hidden: int, batch_size: IntLike = 1, dtype: str = "float32") -> Function:
    """The hidden state after all steps for ``data``, ``(iterations, batch_size, num_hidden)``: ``(batch_size, num_hidden)``.

    All steps call one cell with the same weights.  Raises ArgumentError for less than one iteration.
    """
    if a_count(iterations, "lstm: the iterations") < 1:
        raise wrong("lstm: the iterations", "at least 1", iterations)
    sequence = var("data", shape=(iterations, batch_size, num_hidden), dtype=dtype)
    cell = lstm_cell(num_hidden)
    weights = tuple(Var(p.name, span=p.span) for p in cell.params[2:])
    steps = [operators.take(sequence, const(k), axis=0) for k in range(iterations)]
    zeros = operators.zeros_like(steps[0])
    out: Expr = Tuple((zeros, Tuple((zeros, zeros))))
    for step in steps:
        out = Call(cell, (step, TupleGetItem(out, 1), *weights))
    return Function((sequence, *weights), TupleGetItem(out, 0))


def get_workload(iterations: int, num_hidden: int, batch_size: IntLike = 1, dtype: str = "float32") -> Workload:
    """The network's module and its parameters."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
