"""Evaluate equal expressions once.

    let %a = exp(%x);            let %a = exp(%x);
    let %b = exp(%x);      ->    let %c = add(%a, %a);
    let %c = add(%a, %b);        %c
    %c

Requires: A-normal form, typed or not. Ensures: no chain calls an operator on the same atoms with the same attributes as an
earlier call of the chain or of an enclosing chain; likewise tuples and projections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ops.core.op import Op
from ..ir.anf import rebuild, rebuild_lets
from ..ir.expr import Call, Constant, Expr, GlobalVar, IRModule, Tuple, TupleGetItem, Var, let_chain, replace
from ..ir.pass_declaration import declare_pass

#: Constants up to this many bytes are compared by value, larger ones by identity.
_COMPARED_BYTES = 1024


@declare_pass("EliminateCommonSubexpr", "to_a_normal_form")
def eliminate_common_subexpr(mod: IRModule, skips: Callable[[Expr], Any] | None = None) -> IRModule:
    """The module without repeated expressions, but for those that ``skips`` holds for."""
    return replace(mod, functions={name: replace(f, body=_Finder(skips).chain(f.body)) for name, f in mod.functions.items()})


class _Finder:
    """The rewriter of one function."""

    def __init__(self, skips: Callable[[Expr], Any] | None) -> None:
        self.skips = skips
        self.found: dict[Any, Var] = {}  # the available expressions of the enclosing chains
        self.same: dict[Expr, Expr] = {}

    def _atom(self, atom: Expr) -> Expr:
        return self.same.get(atom, atom)

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        kept, new = [], []
        for var, value in bindings:
            value = rebuild(value, self._atom, self.chain)
            key = _key(value)
            if self.skips is not None and key is not None and self.skips(value):
                key = None
            if key is not None and key in self.found:
                self.same[var] = self.found[key]
                continue
            if key is not None:
                self.found[key] = var
                new.append(key)
            kept.append((var, value))
        for key in new:
            del self.found[key]
        return rebuild_lets(chain, kept, self._atom(result))


def _key(value: Expr) -> Any:
    """A key, equal for expressions of equal value; None for an expression that is not considered."""
    match value:
        case Call(op=Op() as op) if not op.stateful:
            # the text distinguishes 0.0 from -0.0 and 1 from True
            return (op.name, repr(value.attrs), *map(_atom_key, value.args))
        case Tuple():
            return (Tuple, *map(_atom_key, value.fields))
        case TupleGetItem():
            return (TupleGetItem, _atom_key(value.tuple_value), value.index)
    return None


def _atom_key(atom: Expr) -> Any:
    match atom:
        case Constant() if atom.data.nbytes <= _COMPARED_BYTES:
            return (atom.data.dtype.name, atom.data.shape, atom.data.tobytes())
        case GlobalVar():
            return ("@", atom.name)
    return atom
