"""Bind in each block the values that blocks inside of it use; put every other value in the place of its variable.

    def @main(%x: float32, %c: bool) {            def @main(%x: float32, %c: bool) {
      let %a = exp(%x);                             let %a = exp(%x);
      let %b = tanh(%a);                    ->      %1 = if (%c) { %0 = add(%a, %a); exp(%0) } else { %a };
      let %y = if (%c) {                            add(%1, tanh(%a))
        let %s = add(%a, %a);                     }
        let %e = exp(%s); %e
      } else { %a };
      let %z = add(%y, %b); %z
    }

A block is a function body or a branch.  A let also stays if its value may fail, not terminate or write a reference, or if the
value is a function that calls itself.

Requires: typed A-normal form.  Ensures: every block is a chain of lets that ends in an expression.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..ir.anf import free_vars, inner_chains, operands, rebuild, values
from ..ir.dead_bindings import DeadBindings
from ..ir.expr import Expr, Function, If, IRModule, Let, Var, let_chain, make_lets, replace
from ..ir.match_expr import RefRead
from ..ir.pass_declaration import declare_pass
from .eliminate_dead_code import removable


@declare_pass("ToBasicBlockNormalForm", "infer_type", makes_form=True)
def to_basic_block_normal_form(mod: IRModule) -> IRModule:
    """The module with lets for the values that other blocks use, and without dead bindings."""
    functions, is_removable = {}, removable(mod)
    for name, f in mod.functions.items():
        body = DeadBindings(is_removable).chain(f.body)
        functions[name] = f if f.is_primitive else replace(f, body=_Inliner(_used_inside(body), is_removable).chain(body))
    return replace(mod, functions=functions)


def _used_inside(body: Expr) -> set[Expr]:
    """The variables that are used in another chain than that of their let."""
    found: set[Expr] = set()
    pending = [body]
    while pending:
        chain = pending.pop()
        own: set[Expr] = set()
        while isinstance(chain, Let):
            found.update(atom for atom in operands(chain.value) if atom not in own)
            pending.extend(inner_chains(chain.value))
            own.add(chain.var)
            chain = chain.body
        if chain not in own:
            found.add(chain)
    return found


class _Inliner:
    """The rewriter of one function without dead bindings; ``kept``: variables whose lets stay."""

    def __init__(self, kept: Collection[Expr], is_removable: Callable[[Expr], bool]) -> None:
        self.kept, self.is_removable = kept, is_removable
        self.values: dict[Expr, Expr] = {}

    def _atom(self, atom: Expr) -> Expr:
        return self.values.get(atom, atom)

    def chain(self, chain: Expr) -> Expr:
        """The chain without the lets that are not needed."""
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            new = rebuild(value, self._atom, self.chain)
            if var in self.kept or not self._is_movable(var, value):
                out.append((var, new))
            else:
                self.values[var] = new
        return make_lets(out, self._atom(result))

    def _is_movable(self, var: Var, value: Expr) -> bool:
        """Whether the value can be computed later in its block."""
        if isinstance(value, Function):
            return var not in free_vars(value)
        if isinstance(value, If):
            return all(self.is_removable(v) for chain in inner_chains(value) for v in values(chain))
        # a read may not be moved past a write
        return not isinstance(value, RefRead) and self.is_removable(value)
