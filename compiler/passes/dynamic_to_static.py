"""Replace a ``dyn.*`` operator whose shape inputs are constants by its static form.

    dyn.reshape(%x, meta[relay.Constant][0])    ->    reshape(%x, newshape=[2, -1])

The rule is ``Op.static`` of the operator; the new call takes the arguments that are inputs of the static operator, by name.

A ``dyn.reshape`` becomes static also with unknown sizes, if they are the data's sizes of the same axes: they become 0.

    let %s = shape_of(%x);
    let %n = strided_slice(%s, begin=[0], end=[1]);
    let %t = concatenate((%n, [-1]));                  ->    let %y = reshape(%x, newshape=[0, -1]);
    let %y = dyn.reshape(%x, %t);

Requires: typed A-normal form.
Ensures: the same, with the types of the static forms.  Raises TypeCheckError if a static form does not fit its arguments.
"""

from __future__ import annotations

import numpy as np

from ...ops.core.op import Op, get
from ...ops.core.tensor_types import TensorType
from ...ops.defs.dynamic import DynReshapeAttrs
from ...shape_funcs.symbolic.dim import const
from ..ir.anf import rebuild, rebuild_lets
from ..ir.expr import Call, Constant, Expr, IRModule, let_chain, replace
from ..ir.pass_declaration import declare_pass
from ..rules.elements import ElementTable
from .infer_type import infer_type


@declare_pass("DynamicToStatic", "infer_type")
def dynamic_to_static(mod: IRModule) -> IRModule:
    """The module with static operators for known attributes."""
    functions = {name: replace(f, body=_Rewriter().chain(f.body)) for name, f in mod.functions.items()}
    if all(functions[name].body is f.body for name, f in mod.functions.items()):
        return mod
    return infer_type(replace(mod, functions=functions))


class _Rewriter:
    def __init__(self) -> None:
        self.known: dict[Expr, Constant] = {}
        self.elements = ElementTable()

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out = []
        for var, value in bindings:
            value = self._static(rebuild(value, lambda atom: atom, self.chain))
            self.elements.bind(var, value)
            if isinstance(value, Constant):
                self.known[var] = value
            out.append((var, value))
        return rebuild_lets(chain, out, result)

    def _static(self, value: Expr) -> Expr:
        """The static form of a call, or ``value``."""
        if not (isinstance(value, Call) and isinstance(value.op, Op) and value.op.static is not None):
            return value
        known = [self.known.get(a, a) for a in value.args]
        constants = [k.data if isinstance(k, Constant) else None for k in known]
        if isinstance(value.attrs, DynReshapeAttrs) and constants[1] is None:
            constants[1] = self._kept(value)
        form = value.op.static(value.attrs, constants)
        if form is None:
            return value
        name, attrs = form
        op = get(name)
        args = dict(zip(value.op.inputs, value.args, strict=True))
        return replace(value, op=op, args=tuple(args[i] for i in op.inputs), attrs=attrs)

    def _kept(self, reshape: Call) -> np.ndarray | None:
        """The new shape of a ``dyn.reshape``, with 0 for each unknown size that equals the data's size of that axis."""
        data, elements = reshape.args[0].ty, self.elements.of(reshape.args[1])
        if elements is None or reshape.attrs.allowzero:
            return None
        assert isinstance(data, TensorType)
        kept = [axis < data.rank and e is data.shape[axis] for axis, e in enumerate(elements)]
        numbers = [0 if k else const(e) if e is not None else None for k, e in zip(kept, elements, strict=True)]
        return None if None in numbers else np.array(numbers, np.int64)
