"""Multiply by a transposed matrix in the place of a matrix that is transposed before.

    let %t = transpose(%keys, axes=[0, 1, 3, 2]);
    let %b = reshape(%t, newshape=[-3, -2]);
    nn.batch_matmul(%a, %b, transpose_b=False)
    ->
    let %b = reshape(%keys, newshape=[-3, -2]);
    nn.batch_matmul(%a, %b, transpose_b=True)

There may be no reshape, or reshapes of the axes before the last two.  Floats may differ by rounding: the product is the same sum,
by another implementation.

Requires: typed A-normal form.
Ensures: the same.  Transposes without another use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from collections.abc import Collection

from ....ops.core.op import get
from ....ops.core.tensor_types import TensorType
from ....ops.defs.movement.transform import ReshapeAttrs
from ....shape_funcs.symbolic.dim import Dim, product
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Expr, IRModule, Var, replace
from ...ir.pass_declaration import declare_pass

#: The operators that are replaced.
_REPLACED = ("nn.batch_matmul", "transpose", "reshape")


@declare_pass("FoldTransposes", "infer_type")
def fold_transposes(mod: IRModule, forced: Collection[str] = ()) -> IRModule:
    """The module with fewer transposes in front of products.  ``forced``: names of operators that stay as they are."""
    return mod if set(forced) & set(_REPLACED) else rewrite_chains(mod, _Folder)


class _Folder(ChainRewriter):
    """The rewriter of one function."""

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        if call.op is not get("nn.batch_matmul"):
            return None
        a, b = call.args
        given = self._untransposed(b)
        if given is None:
            return None
        attrs, (batch, rows, columns) = replace(call.attrs, transpose_b=not call.attrs.transpose_b), _shape(b)
        if len(_shape(given)) == 3:
            return [(var, replace(call, args=(a, given), attrs=attrs))]
        merged = Var(f"{var.name}_b", ty=TensorType((batch, columns, rows), _type(b).dtype))
        view = Call(
            get("reshape"), (given,), ReshapeAttrs((-3,) * (len(_shape(given)) - 3) + (-2,)), span=call.span, ty=merged.ty
        )
        return [(merged, view), (var, replace(call, args=(a, merged), attrs=attrs))]

    def _untransposed(self, matrices: Expr) -> Expr | None:
        """The tensor of rank 3 or 4 whose last two axes are exchanged in ``matrices``, which has no other use."""
        call = self.sole_call(matrices, get("transpose"), get("reshape"))
        while call is not None and call.op is get("reshape"):
            call = self.sole_call(call.args[0], get("transpose"), get("reshape"))
        if call is None or len(_shape(call)) not in (3, 4) or not _exchanges_last_two(call):
            return None
        outer, inner = _shape(call)[:-2], _shape(call)[-2:]
        return call.args[0] if _shape(matrices) == (product(outer), *inner) else None


def _type(x: Expr) -> TensorType:
    assert isinstance(x.ty, TensorType), x
    return x.ty


def _shape(x: Expr) -> tuple[Dim, ...]:
    return _type(x).shape


def _exchanges_last_two(call: Call) -> bool:
    rank = len(_shape(call))
    axes = None if call.attrs.axes is None else [axis % rank for axis in call.attrs.axes]
    return axes == [*range(rank - 2), rank - 1, rank - 2]
