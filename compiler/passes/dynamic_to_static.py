"""Replace a ``dyn.*`` operator whose shape-deciding inputs are constants by its static form.

    dyn.reshape(%x, meta[relay.Constant][0])    ->    reshape(%x, newshape=[2, -1])

The rule is the operator's own (``Op.static``); the new call takes the arguments whose input names the static operator has.

Requires: typed A-normal form.
Ensures: the same, with the types that the static forms give.  Raises TypeCheckError if one of them does not fit.
"""

from __future__ import annotations

from ...ops.op import Op, get
from ..anf import rebuild, rebuild_lets
from ..ir import Call, Constant, Expr, IRModule, let_chain, replace
from .infer_type import infer_type


def dynamic_to_static(mod: IRModule) -> IRModule:
    """The module with static operators where their attributes are known."""
    functions = {name: replace(f, body=_Rewriter().chain(f.body)) for name, f in mod.functions.items()}
    if all(functions[name].body is f.body for name, f in mod.functions.items()):
        return mod
    return infer_type(replace(mod, functions=functions))


class _Rewriter:
    def __init__(self) -> None:
        self.known: dict[Expr, Constant] = {}

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out = []
        for var, value in bindings:
            value = self._static(rebuild(value, lambda atom: atom, self.chain))
            if isinstance(value, Constant):
                self.known[var] = value
            out.append((var, value))
        return rebuild_lets(chain, out, result)

    def _static(self, value: Expr) -> Expr:
        """The static form of a call, or ``value``."""
        if not (isinstance(value, Call) and isinstance(value.op, Op) and value.op.static is not None):
            return value
        known = [self.known.get(a, a) for a in value.args]
        form = value.op.static(value.attrs, [k.data if isinstance(k, Constant) else None for k in known])
        if form is None:
            return value
        name, attrs = form
        op = get(name)
        args = dict(zip(value.op.inputs, value.args, strict=True))
        return replace(value, op=op, args=tuple(args[i] for i in op.inputs), attrs=attrs)
