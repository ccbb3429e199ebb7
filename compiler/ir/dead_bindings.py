"""Elimination of the dead bindings of a chain, found in one backward pass."""

from __future__ import annotations

from collections.abc import Callable, Collection

from .anf import inner_chains, operands, rebuild, rebuild_lets, values
from .expr import Expr, If, Var, let_chain


class DeadBindings:
    """Dead binding elimination in one function; ``is_removable``: whether evaluating a value other than an ``if`` has no
    effect; ``kept``: the names of variables that stay bound."""

    def __init__(self, is_removable: Callable[[Expr], bool], kept: Collection[str] = ()) -> None:
        self.is_removable, self.kept = is_removable, kept
        self.used: set[Expr] = set()

    def chain(self, chain: Expr) -> Expr:
        """The chain with its live and effectful bindings; the same object if no binding is dead."""
        bindings, result = let_chain(chain)
        self.used.add(result)
        kept: list[tuple[Var, Expr]] = []
        for var, value in reversed(bindings):
            if var in self.used or not self._does_nothing(value) or var.name in self.kept:
                self.used.update(operands(value))
                kept.append((var, rebuild(value, lambda atom: atom, self.chain)))
        return rebuild_lets(chain, kept[::-1], result)

    def _does_nothing(self, value: Expr) -> bool:
        if isinstance(value, If):
            return all(self._does_nothing(v) for chain in inner_chains(value) for v in values(chain))
        return self.is_removable(value)
