"""The form of a module given back after passes that need another one.

A function that was in A-normal form stays in A-normal form.  In any other, the lets of the program stay, and every other value
is an operand of its users: ``add(exp(%x), 0f)`` becomes ``exp(%x)``, not ``let %exp = exp(%x); %exp``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..ir.anf import free_vars, inner_chains, operands, rebuild, values
from ..ir.dead_bindings import DeadBindings
from ..ir.expr import Expr, Function, If, IRModule, Let, Var, let_chain, make_lets, replace
from ..ir.visitor import bound_vars, post_order
from ..ir.well_formed import has_form
from ..passes.eliminate_dead_code import removable
from .inlining import has_order, has_references
from .typed_form import with_result_type


def in_form_of(mod: IRModule, before: IRModule) -> IRModule:
    """``mod``, which passes have made of ``before``, in the form of ``before``; its functions are in A-normal form.

    A binding that nothing uses any more is left out, unless its value has an effect.  New functions are in A-normal form if all
    functions were.
    """
    is_removable, ordered = removable(mod), has_references(mod)
    functions = {}
    for name, function in mod.functions.items():
        if not function.is_primitive:
            old = {name: before[name]} if name in before.functions else before.functions
            nodes = post_order(*old.values())
            bound = {v.name for node in nodes if isinstance(node, Let) for v in bound_vars(node)}
            used = {node.name for node in nodes if isinstance(node, Var)}
            body = DeadBindings(is_removable, bound - used).chain(function.body)
            if not has_form(replace(before, functions=old), typed=False):
                body = _Graph(bound, is_removable, ordered).chain(body)
            function = with_result_type(replace(function, body=body))
        functions[name] = function
    return replace(mod, functions=functions)


class _Graph:
    """The rewriter of one function.  ``kept``: the names of variables that keep their lets.

    ``ordered``: Whether the module has references, so that calls of functions have an order.
    """

    def __init__(self, kept: Collection[str], is_removable: Callable[[Expr], bool], ordered: bool) -> None:
        self.kept, self.is_removable, self.ordered = kept, is_removable, ordered
        self.values: dict[Expr, Expr] = {}

    def _atom(self, atom: Expr) -> Expr:
        return self.values.get(atom, atom)

    def chain(self, chain: Expr) -> Expr:
        """The chain as an expression."""
        bindings, result = let_chain(chain)
        here = {result, *(atom for _, value in bindings for atom in operands(value))}
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            new = rebuild(value, self._atom, self.chain)
            if var.name in self.kept or var.annotation is not None or self._needs_let(value, var, var in here):
                out.append((var, new))
            else:
                self.values[var] = new
        return make_lets(out, self._atom(result))

    def _needs_let(self, value: Expr, var: Var, is_used_here: bool) -> bool:
        """Whether the value is a recursive function, or has an effect that its users would move or lose."""
        if isinstance(value, Function):
            return var in free_vars(value)
        if self.ordered and has_order(value):
            return True
        return not is_used_here and not self._has_no_effect(value)

    def _has_no_effect(self, value: Expr) -> bool:
        if isinstance(value, If):
            return all(self._has_no_effect(v) for chain in inner_chains(value) for v in values(chain))
        return self.is_removable(value)
