"""Choose an implementation for every primitive of one operator that has several.

::

    def @nn_dense(%p0: Tensor[(?d0, 64), float32], %p1: Tensor[(10, 64), float32], Primitive=1,
                  implementation="rows if d0 <= 8 else blas", because="sizes at run time decide") { ... }

Requires: primitives.
Ensures: such a primitive says which implementation computes it and why; where sizes at run time decide, which versions there
are and when each is taken.  A choice that the program says itself is kept, if it is one.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ...ops.choice import Preferred, Rejected, choose, force
from ...ops.conditions import Choice
from ...ops.group import Group
from ...ops.implementation import HOST, OpCall
from ...ops.ty import TensorType
from ...vm import codes
from ...vm.source import Diagnostic, Span, TypeCheckError
from ..anf import inner_chains
from ..ir import Call, Expr, Function, GlobalVar, IRModule, let_chain, replace
from ..primitive import BECAUSE, IMPLEMENTATION, choice_of, group_of, machine_of


def select_implementations(
    mod: IRModule, target: str = HOST, forced: Mapping[str, str] | None = None, preferred: Preferred | None = None
) -> IRModule:
    """``mod`` with an implementation for each primitive.

    ``forced``: by operator, the name of the only one allowed.  ``preferred``: what measurements say (see ``ops.choice``).
    Raises TypeCheckError for a forced one, or one that the program names, that cannot compute a call.
    """
    select = _Selection(mod, target, dict(forced or {}), preferred)
    functions = {name: select.function(name, f) if f.is_primitive else f for name, f in mod.functions.items()}
    if select.errors:
        raise TypeCheckError(select.errors)
    return replace(mod, functions=functions)


class _Selection:
    """The pass over one module."""

    def __init__(self, mod: IRModule, target: str, forced: dict[str, str], preferred: Preferred | None) -> None:
        self.mod, self.target, self.forced, self.preferred = mod, target, forced, preferred
        self.errors: list[Diagnostic] = []

    def function(self, name: str, function: Function) -> Function:
        """The primitive called ``name`` with its choice; its own where it says one."""
        try:
            group = group_of(function)
        except ValueError as error:
            self.refuse(name, function, str(error))
            return function
        call = self.call(group, function)
        if call is None or len(call.op.kernels) == 1:
            names = call.op.implementations if call else ()
            said = function.attrs.get(IMPLEMENTATION)
            if said is not None and said not in names:
                self.refuse(name, function, f"{group.name} has one implementation only, not {said!r}")
            return function
        try:
            choice = self.choice(call, choice_of(function))
        except Rejected as error:
            if not call.op.kernels_on(call.device):
                return function  # a later pass says that it does not run there
            self.refuse(name, function, _rejection(call, error), _help(call, error))
            return function
        return replace(function, attrs={**function.attrs, IMPLEMENTATION: str(choice), BECAUSE: choice.because})

    def call(self, group: Group, function: Function) -> OpCall | None:
        """The call of an operator that has kernels of its own; None for a generated kernel, and a view."""
        if len(group.nodes) != 1 or not group.nodes[0].operator.kernels:
            return None
        return group.call_on(machine_of(function, self.target))

    def choice(self, call: OpCall, said: Choice | None) -> Choice:
        """What computes ``call``.  Raises Rejected."""
        if call.op.name in self.forced:
            return force(call, self.forced[call.op.name])[0]
        if said is None:
            return choose(call, self.preferred)
        for name in said.names:
            force(call, name)
        return said

    def refuse(self, name: str, function: Function, message: str, help: str | None = None) -> None:
        """Record an error at the place of the first call of a primitive."""
        self.errors.append(Diagnostic(message, _place(self.mod, name) or function.span, help=help, code=codes.Type.PLACE))


def _rejection(call: OpCall, error: Rejected) -> str:
    given = ", ".join(str(TensorType(t.shape, t.dtype)) for t in call.inputs)
    return f"{call.op.name}: its implementation {error.name!r} cannot compute a call with {given}: {error.why}"


def _help(call: OpCall, error: Rejected) -> str:
    valid = []
    for kernel in call.op.kernels:
        try:
            force(call, kernel.name)
        except Rejected:
            continue
        valid.append(kernel.name)
    near = difflib.get_close_matches(error.name, valid, 1)
    return (f"did you mean {near[0]!r}? " if near else "") + f"those that can: {', '.join(valid)}"


def _place(mod: IRModule, name: str) -> Span | None:
    """Where the primitive called ``name`` is called first."""
    pending: list[Expr] = [f.body for f in mod.functions.values() if not f.is_primitive]
    while pending:
        for var, value in let_chain(pending.pop())[0]:
            if isinstance(value, Call) and isinstance(value.op, GlobalVar) and value.op.name == name:
                return value.span or var.span
            pending += inner_chains(value)
    return None
