"""Put the bodies of functions in the place of their calls, so that the passes after this pass see through the calls.

    def @gelu(%x: Tensor[(?n), float32]) { multiply(%x, ...) }
    def @main(%y: Tensor[(?m), float32]) { @gelu(exp(%y)) }
    ->
    def @main(%y: Tensor[(?m), float32]) { let %exp = exp(%y); multiply(%exp, ...) }

A kernel then holds operators of caller and callee.  A weight that a caller passes is a constant where it is used: it is packed.

A function stays a function if it is recursive, or if its attribute ``Inline`` is 0.  The calls of a function of more than
``SMALL`` bindings are inlined only if all of them together add at most ``MOST_ADDED`` bindings to the module.  A user may still
call every function.

Requires: typed A-normal form.
Ensures: the same.
"""

from __future__ import annotations

from collections import Counter

from ..ir.call_graph import CallEdges
from ..ir.expr import Call, Function, GlobalVar, IRModule, Let
from ..ir.pass_declaration import declare_pass
from ..ir.visitor import post_order
from .beta_reduction import can_be_inlined, with_calls_inlined
from .infer_type import infer_sizes
from .to_a_normal_form import to_a_normal_form

#: The most bindings of a function whose calls are inlined whatever their number.
SMALL = 6
#: The most bindings that inlining adds to a module, without those of small functions.
MOST_ADDED = 4096


@declare_pass("InlineFunctions", "monomorphize", "infer_type")
def inline_functions(mod: IRModule) -> IRModule:
    """The module with calls of global functions as the bodies of these functions."""
    left = MOST_ADDED
    while True:
        names, left = _worth_inlining(mod, left)
        if not names:
            return mod
        # a function that was passed as a value may be called by its name now: again
        mod = infer_sizes(to_a_normal_form(with_calls_inlined(mod, names, checked=True)))


def _worth_inlining(mod: IRModule, left: int) -> tuple[set[str], int]:
    """The names of the functions whose calls are inlined if that adds at most ``left`` bindings, and the bindings left."""
    edges = CallEdges.of(mod)
    recursive = edges.recursive()
    if all(callee in recursive for callees in edges.callees.values() for callee in callees):
        return set(), left
    inside = {name: _Contents(f) for name, f in mod.functions.items()}
    calls = sum((contents.calls for contents in inside.values()), Counter[str]())
    sizes: dict[str, int] = {}
    names: set[str] = set()
    for group in edges.groups():  # callees before their callers
        for name in group:
            callees = inside[name].calls
            sizes[name] = inside[name].bindings + sum(sizes[callee] * callees[callee] for callee in callees if callee in names)
            added = 0 if sizes[name] <= SMALL else sizes[name] * calls[name]
            if calls[name] and added <= left and name not in recursive and _may_be_inlined(mod[name]):
                names.add(name)
                left -= added
    return names, left


def _may_be_inlined(function: Function) -> bool:
    is_kept = function.attrs.get("Inline", 1) == 0 or function.is_primitive or "Compiler" in function.attrs
    return not is_kept and can_be_inlined(function)


class _Contents:
    """The number of bindings in a function, and of its calls of each global function."""

    def __init__(self, function: Function) -> None:
        nodes = post_order(function)
        self.bindings = sum(isinstance(node, Let) for node in nodes)
        self.calls = Counter(n.op.name for n in nodes if isinstance(n, Call) and isinstance(n.op, GlobalVar))
