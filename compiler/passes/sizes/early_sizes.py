"""Read a size from the first value that has it: the shape of a later value may be all that a program wants of the value.

    let %y = argmax(%x, axis=[1]);               let %y = argmax(%x, axis=[1]);
    let %s = shape_of(%y);                       let %s = shape_of(%x);
    let %n = take(%s, 0i64, axis=0);      ->     let %n = take(%s, 0i64, axis=0);

Importers make such calls of negative indices.  The sizes are equal by the types of the values.

Requires: typed A-normal form.
Ensures: the same.  Calls without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

import numpy as np

from ....ops.core.op import get
from ....ops.core.tensor_types import TensorType
from ....shape_funcs.symbolic.dim import Dim, const
from ...ir.anf import inner_chains, rebuild, rebuild_lets
from ...ir.expr import Call, Constant, Expr, Function, IRModule, Var, let_chain, map_functions, replace, tensor_type
from ...ir.pass_declaration import declare_pass
from ...rules.rewriting import Definitions


@declare_pass("EarlySizes", "infer_type")
def early_sizes(mod: IRModule) -> IRModule:
    """The module with sizes of earlier values."""
    return map_functions(mod, _rewritten)


def _rewritten(function: Function) -> Function:
    first: dict[Dim, tuple[Var, int]] = {}
    for param in function.params:
        _learn(first, param)
    return replace(function, body=_Reader().chain(function.body, first))


def _learn(first: dict[Dim, tuple[Var, int]], var: Var) -> None:
    """Add the unknown sizes of ``var``, each with its axis, unless an earlier value has them."""
    if isinstance(var.ty, TensorType):
        for axis, size in enumerate(var.ty.shape):
            if const(size) is None:
                first.setdefault(size, (var, axis))


class _Reader:
    """The rewriter of one function."""

    def __init__(self) -> None:
        self.scope = Definitions()

    def chain(self, chain: Expr, before: dict[Dim, tuple[Var, int]]) -> Expr:
        """The chain; ``before``: the first value with each size, and its axis, in front of the chain."""
        first = dict(before)
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            if inner_chains(value):
                value = rebuild(value, lambda atom: atom, lambda inner: self.chain(inner, first))
            self.scope.values[var] = value
            out += self._early(var, value, first) or [(var, value)]
            _learn(first, var)
        return rebuild_lets(chain, out, result)

    def _early(self, var: Var, element: Expr, first: dict[Dim, tuple[Var, int]]) -> list[tuple[Var, Expr]] | None:
        """The bindings in the place of that of an element of a shape; None to keep it."""
        if not isinstance(element, Call) or element.op is not get("take") or not isinstance(element.args[1], Constant):
            return None
        shape = self.scope.call(element.args[0], get("shape_of"))
        number = element.args[1].data
        if shape is None or number.ndim or not 0 <= int(number) < tensor_type(shape.args[0]).rank:
            return None
        source, axis = first.get(tensor_type(shape.args[0]).shape[int(number)], (None, 0))
        if source is None or source is shape.args[0]:
            return None
        early = replace(shape, args=(source,))
        typed = self.scope.typed(early)
        assert typed is not None, early
        sizes = Var(var.name, span=var.span, ty=typed[0])
        at = Constant(np.array(axis, number.dtype), span=element.args[1].span, ty=element.args[1].ty)
        return [(sizes, replace(early, ty=typed[0])), (var, replace(element, args=(sizes, at)))]
