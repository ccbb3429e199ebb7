"""Eliminate dead code: unused bindings of operators, tuples and functions, and unreachable global functions.

    def @main(%x: float32) {          def @main(%x: float32) {
      let %exp = exp(%x);        ->     let %tanh = tanh(%x);
      let %tanh = tanh(%x);             %tanh
      %tanh                           }
    }

Requires: A-normal form, typed or not.
Ensures: every binding is used, or may fail or not terminate (a call of a function, a match, a check of sizes that types do not
decide), or writes a reference; every global function is reachable from an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ops.core.op import Op
from ..ir.call_graph import reachable
from ..ir.dead_bindings import DeadBindings
from ..ir.expr import Call, Expr, GlobalVar, IRModule, replace
from ..ir.match_expr import Match, RefWrite
from ..ir.pass_declaration import declare_pass
from ..type_inference.shape_checks import never_fails


@declare_pass("DeadCodeElimination", "to_a_normal_form")
def eliminate_dead_code(mod: IRModule, entries: Sequence[str] = ("main",), ignore_effects: bool = False) -> IRModule:
    """The module without dead code; if none of ``entries`` exists, all global functions are kept.

    ``ignore_effects``: a binding may be removed even if it has an effect.
    """
    is_removable = (lambda value: True) if ignore_effects else removable(mod)
    functions = {name: replace(f, body=DeadBindings(is_removable).chain(f.body)) for name, f in mod.functions.items()}
    mod = replace(mod, functions=functions)
    roots = [e for e in entries if e in mod.functions]
    if not roots:
        return mod
    kept = reachable(mod, roots)
    return replace(mod, functions={name: f for name, f in mod.functions.items() if name in kept})


def removable(mod: IRModule) -> Callable[[Expr], bool]:
    """Whether the evaluation of a value other than an ``if`` has no effect, as a function of the value."""
    primitives = {name for name, f in mod.functions.items() if f.is_primitive}

    def is_removable(value: Expr) -> bool:
        match value:
            case Call(op=Op() as op):
                return not op.stateful or never_fails(value)
            case Call(op=GlobalVar() as callee):
                return callee.name in primitives
        return not isinstance(value, (Call, Match, RefWrite))

    return is_removable
