"""Take out what nothing uses: bindings of operators, tuples and functions, and global functions that nobody reaches.

    def @main(%x: float32) {          def @main(%x: float32) {
      let %exp = exp(%x);        ->     let %tanh = tanh(%x);
      let %tanh = tanh(%x);             %tanh
      %tanh                           }
    }

Requires: A-normal form, typed or not.
Ensures: every binding is used or may fail or run for ever (a call of a function, a run-time check); every global function
is reached from an entry.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.op import Op
from ..anf import inner_chains, operands, rebuild, rebuild_lets, values
from ..call_graph import reachable
from ..ir import Call, Expr, Function, GlobalVar, If, IRModule, Var, let_chain, replace


def eliminate_dead_code(mod: IRModule, entries: Sequence[str] = ("main",)) -> IRModule:
    """The module without dead code; if none of ``entries`` exists, every global function stays."""
    primitives = {name for name, f in mod.functions.items() if f.is_primitive}
    functions = {}
    for name, function in mod.functions.items():
        functions[name] = replace(function, body=_Sweep(primitives).chain(function.body))
    mod = replace(mod, functions=functions)
    roots = [e for e in entries if e in mod.functions]
    if not roots:
        return mod
    kept = reachable(mod, roots)
    return replace(mod, functions={name: f for name, f in mod.functions.items() if name in kept})


class _Sweep:
    """The sweep over one function: users are seen before what they use."""

    def __init__(self, primitives: set[str]) -> None:
        self.primitives = primitives
        self.used: set[Expr] = set()

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        self.used.add(result)
        kept: list[tuple[Var, Expr]] = []
        for var, value in reversed(bindings):
            if var in self.used or not self._is_removable(value):
                self.used.update(operands(value))
                kept.append((var, rebuild(value, lambda atom: atom, self.chain)))
        return rebuild_lets(chain, kept[::-1], result)

    def _is_removable(self, value: Expr) -> bool:
        """Does evaluating it do nothing but give its value?"""
        match value:
            case Call(op=Op() as op):
                return not op.stateful
            case Call(op=GlobalVar() as callee):
                return callee.name in self.primitives
            case Call():
                return False
            case If():
                return all(self._is_removable(v) for chain in inner_chains(value) for v in values(chain))
            case Function():
                return True
        return True
