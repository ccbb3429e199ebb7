"""Rewriting of bindings by the calls behind their operands: the walk of passes that match several calls at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...ops.core.op import Op
from .anf import inner_chains, is_atom, rebuild, rebuild_lets, uses
from .expr import Call, Expr, IRModule, Var, let_chain, map_bodies


class ChainRewriter:
    """The rewriter of one function in A-normal form; a pass overrides ``replaced``.

    ``count``: the number of uses of each atom.  ``values``: the value of each binding before, as it was.
    """

    def __init__(self, body: Expr) -> None:
        self.count = Counter(uses(body))
        self.values: dict[Expr, Expr] = {}

    def chain(self, chain: Expr) -> Expr:
        """A chain, and the chains inside it, with the bindings that are replaced."""
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            inner = rebuild(value, lambda atom: atom, self.chain) if inner_chains(value) else value
            out += (self.replaced(var, value) if isinstance(value, Call) else None) or [(var, inner)]
            self.values[var] = value
        return rebuild_lets(chain, out, result)

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        """The bindings in the place of that of ``call`` to ``var``; None to keep it."""
        raise NotImplementedError

    def resolved(self, atom: Expr) -> Expr:
        """The atom that a variable stands for: parameters that are bound are variables of constants."""
        while (value := self.values.get(atom)) is not None and is_atom(value):
            atom = value
        return atom

    def sole_call(self, atom: Expr, *ops: Op) -> Call | None:
        """The call of one of ``ops`` whose value is ``atom``; None for another value, or one with another use."""
        call = self.values.get(atom) if self.count[atom] == 1 else None
        return call if isinstance(call, Call) and call.op in ops else None


def rewrite_chains(mod: IRModule, rewriter: Callable[[Expr], ChainRewriter]) -> IRModule:
    """The module with the body of each function, except primitives, rewritten by a ``rewriter`` of its own."""
    return map_bodies(mod, lambda body: rewriter(body).chain(body))
