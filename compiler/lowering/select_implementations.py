"""Choose an implementation for every primitive whose operator has several.

::

    def @nn_dense(%p0: Tensor[(?d0, 64), float32], %p1: Tensor[(10, 64), float32], Primitive=1,
                  implementation="rows if d0 <= 8 else blas", because="sizes at run time decide") { ... }

Requires: primitives. Ensures: such a primitive names its implementation and the reason of the choice; where sizes at run time
decide, its versions and their conditions.  A choice that the program states itself is kept if it is valid.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...ops.core.conditions import Choice
from ...ops.core.group import Group
from ...ops.core.implementation import HOST, OpCall
from ...ops.core.similar_names import alternatives
from ...ops.core.tensor_types import TensorType
from ...ops.strategy.choice import Preferred, Rejection, choose, force
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, Span, TypeCheckError
from ..ir.anf import inner_chains
from ..ir.expr import Call, Expr, Function, GlobalVar, IRModule, let_chain, replace
from ..ir.primitive import BECAUSE, IMPLEMENTATION, choice_of, group_of, machine_of


def select_implementations(
    mod: IRModule, target: str = HOST, forced: Mapping[str, str] | None = None, preferred: Preferred | None = None
) -> IRModule:
    """``mod`` with an implementation for each primitive.

    ``forced``: by operator, the name of the only implementation allowed.  ``preferred``: the implementations preferred by
    measurements (see ``ops.strategy.choice``).  Raises TypeCheckError for an implementation, forced or named by the program, that
    cannot compute a call.
    """
    selector = _ImplementationSelector(mod, target, dict(forced or {}), preferred)
    functions = {name: selector.function(name, f) if f.is_primitive else f for name, f in mod.functions.items()}
    if selector.errors:
        raise TypeCheckError(selector.errors)
    return replace(mod, functions=functions)


class _ImplementationSelector:
    """The pass over one module."""

    def __init__(self, mod: IRModule, target: str, forced: dict[str, str], preferred: Preferred | None) -> None:
        self.mod, self.target, self.forced, self.preferred = mod, target, forced, preferred
        self.errors: list[Diagnostic] = []

    def function(self, name: str, function: Function) -> Function:
        """The primitive called ``name`` with its choice; a choice of its own is kept."""
        try:
            group = group_of(function)
        except ValueError as error:
            self.refuse(name, function, str(error))
            return function
        call = self.call(group, function)
        if call is None or len(call.op.kernels) == 1:
            names = call.op.implementations if call else ()
            chosen = function.attrs.get(IMPLEMENTATION)
            if chosen is not None and chosen not in names:
                self.refuse(name, function, f"{group.name} has one implementation only, not {chosen!r}")
            return function
        try:
            choice = self.choice(call, choice_of(function))
        except Rejection as error:
            if not call.op.kernels_on(call.device):
                return function
            self.refuse(name, function, _rejection(call, error), _help(call, error))
            return function
        return replace(function, attrs={**function.attrs, IMPLEMENTATION: str(choice), BECAUSE: choice.because})

    def call(self, group: Group, function: Function) -> OpCall | None:
        """The call of the operator that has kernels of its own; None for a generated kernel and for a view."""
        if not group.nodes[0].operator.kernels:
            return None
        return group.call_on(machine_of(function, self.target))

    def choice(self, call: OpCall, chosen: Choice | None) -> Choice:
        """The implementation choice for ``call``.  Raises Rejection."""
        if call.op.name in self.forced:
            return force(call, self.forced[call.op.name])[0]
        if chosen is None:
            return choose(call, self.preferred)
        for name in chosen.names:
            force(call, name)
        return chosen

    def refuse(self, name: str, function: Function, message: str, help: str | None = None) -> None:
        """Record an error at the place of the first call of a primitive."""
        self.errors.append(Diagnostic(message, _place(self.mod, name) or function.span, help=help, code=codes.Type.PLACE))


def _rejection(call: OpCall, error: Rejection) -> str:
    given = ", ".join(str(TensorType(t.shape, t.dtype)) for t in call.inputs)
    return f"{call.op.name}: its implementation {error.name!r} cannot compute a call with {given}: {error.why}"


def _help(call: OpCall, error: Rejection) -> str:
    valid = []
    for kernel in call.op.kernels:
        try:
            force(call, kernel.name)
        except Rejection:
            continue
        valid.append(kernel.name)
    return alternatives(error.name, valid, "valid here")


def _place(mod: IRModule, name: str) -> Span | None:
    """The place of the first call of the primitive called ``name``."""
    pending: list[Expr] = [f.body for f in mod.functions.values() if not f.is_primitive]
    while pending:
        for var, value in let_chain(pending.pop())[0]:
            if isinstance(value, Call) and isinstance(value.op, GlobalVar) and value.op.name == name:
                return value.span or var.span
            pending += inner_chains(value)
    return None
