"""Take the maximum or minimum of fewer elements before a monotonic function, not of the function's results.

    let %s = sigmoid(%x);
    let %y = max(%s, axis=[1]);
    ->
    let %m = max(%x, axis=[1]);
    let %y = sigmoid(%m);

A detector takes the best score of each candidate: a function of one number for each row, not of every element.  A function that
reverses the order, such as ``negative``, exchanges ``max`` and ``min``.

The function has no other use than reductions that move, and gathers: these compute it for the gathered elements.  If gathers
remain and the arguments are a slice, the reduction has a slice of its own, so that no kernel stores the slice.

Monotonic functions keep NaN, so the result is the same bit for bit; of two zeros it may be the other one, as after ``max``.
``ops.analysis.monotonic`` says which operators are monotonic.

Requires: typed A-normal form.
Ensures: the same.  Calls without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from collections import Counter

from ....ops.analysis.monotonic import Order, order_of
from ....ops.core.implementation import GPU
from ....ops.core.op import Op, OpPattern, get
from ....ops.core.tensor_types import TensorType, Type
from ...ir.anf import values
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Expr, IRModule, Var, replace, tensor_type, type_of
from ...ir.pass_declaration import declare_pass
from ...rules.rewriting import Definitions

#: The reduction of the arguments in the place of that of the results, by the order of the results.
_REDUCTIONS = {
    "max": {Order.KEPT: "max", Order.REVERSED: "min"},
    "min": {Order.KEPT: "min", Order.REVERSED: "max"},
}


@declare_pass("ReduceBeforeMonotonic", "infer_type")
def reduce_before_monotonic(mod: IRModule, machine: str = GPU) -> IRModule:
    """The module with functions that are monotonic on ``machine`` behind the reductions of their results.

    What is monotonic on a GPU is so on every machine.
    """
    return rewrite_chains(mod, lambda body: _Mover(body, machine))


class _Mover(ChainRewriter):
    """The rewriter of one function."""

    def __init__(self, body: Expr, machine: str) -> None:
        super().__init__(body)
        self.machine = machine
        found = [value for value in values(body) if isinstance(value, Call)]
        self.reductions = Counter(call.args[0] for call in found if _is_reduction(call))
        self.gathers = Counter(call.args[0] for call in found if call.op is get("take"))
        self.scope = Definitions(self.values)

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        if not _is_reduction(call):
            return None
        assert isinstance(call.op, Op)
        results = atom = call.args[0]
        name, following = call.op.name, list[tuple[Call, int]]()
        if self.count[results] != self.reductions[results] + self.gathers[results]:
            return None
        while (atom is results or self.count[atom] == 1) and (found := self._monotonic(atom)):
            function, place, order = found
            following.append((function, place))
            atom, name = function.args[place], _REDUCTIONS[name][order]
        if not following:
            return None
        out: list[tuple[Var, Expr]] = []
        sliced = self.scope.call(atom, get("strided_slice")) if self.gathers[results] else None
        if sliced is not None:
            out.append((Var(var.name, span=sliced.span, ty=sliced.ty), sliced))
            atom = out[0][0]
        step: Call = replace(call, op=get(name), args=(atom,))
        for function, place in reversed(following):
            typed = self.scope.typed(step)
            assert typed is not None, step
            out.append((Var(var.name, span=step.span, ty=typed[0]), replace(step, ty=typed[0])))
            step = replace(function, args=(*function.args[:place], out[-1][0], *function.args[place + 1 :]))
        # the place of the reduction, which an error names
        return [*out, (var, replace(step, span=call.span, ty=call.ty))]

    def _monotonic(self, atom: Expr) -> tuple[Call, int, Order] | None:
        """The monotonic call that makes ``atom``, the argument that its elements follow, and their order."""
        call = self.values.get(atom)
        if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.pattern > OpPattern.BROADCAST:
            return None
        result, inputs = call.ty, [self._number(arg) for arg in call.args]
        tensors = [place for place, given in enumerate(inputs) if isinstance(given, Type)]
        if len(tensors) != 1 or not isinstance(result, TensorType) or not self.scope.is_safe(call):
            return None
        data = inputs[tensors[0]]
        if not isinstance(data, TensorType) or data.shape != result.shape:
            return None
        order = order_of(call.op, inputs, call.attrs, result, self.machine)
        return None if order is None else (call, tensors[0], order)

    def _number(self, arg: Expr) -> Type | float:
        """The number that a constant of rank 0 is; the type of any other argument."""
        data = self.scope.constant(arg)
        return type_of(arg) if data is None or data.ndim else data.item()


def _is_reduction(value: Expr) -> bool:
    """Whether a call takes the maximum or minimum of numbers."""
    if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.name not in _REDUCTIONS:
        return False
    return tensor_type(value).dtype != "bool"
