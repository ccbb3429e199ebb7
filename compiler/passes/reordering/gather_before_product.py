"""Take one row before a product with a matrix, so that the other rows are not multiplied.

    let %logits = nn.matmul(%x, meta[relay.Constant][0]);        // [b, n, tokens]
    let %last = take(%logits, -1, axis=1, mode="wrap");
    ->
    let %row = take(%x, -1, axis=1, mode="wrap");
    let %last = nn.matmul(%row, meta[relay.Constant][0]);

The next token follows from the logits of the last position.  The index is a constant number, and the product has no other use.
Floats may differ by rounding: few rows are multiplied by another implementation.

Requires: typed A-normal form.
Ensures: the same.
"""

from __future__ import annotations

from ....ops.core.op import get
from ....ops.core.tensor_types import TensorType
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Constant, Expr, IRModule, Var, replace, tensor_type
from ...ir.pass_declaration import declare_pass

#: Products of rows with one matrix.
_PRODUCTS = ("nn.matmul", "nn.dense")


@declare_pass("GatherBeforeProduct", "infer_type")
def gather_before_product(mod: IRModule) -> IRModule:
    """The module with such gathers in front of products."""
    return rewrite_chains(mod, _Mover)


class _Mover(ChainRewriter):
    """The rewriter of one function."""

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        if call.op is not get("take") or call.attrs.batch_dims:
            return None
        if not isinstance(call.args[1], Constant) or call.args[1].data.ndim:
            return None
        source = self.sole_call(call.args[0], *map(get, _PRODUCTS))
        if source is None or call.attrs.axis is None or getattr(source.attrs, "transpose_a", False):
            return None
        rows, (a, b) = tensor_type(source).rank, source.args
        axis = call.attrs.axis % rows
        if rows < 3 or axis == rows - 1 or tensor_type(b).rank != 2 or tensor_type(a).rank != rows:
            return None
        ty = tensor_type(a)
        taken = Var(f"{var.name}_rows", ty=TensorType((*ty.shape[:axis], *ty.shape[axis + 1 :]), ty.dtype))
        row = replace(call, args=(a, call.args[1]), attrs=replace(call.attrs, axis=axis), ty=taken.ty)
        return [(taken, row), (var, replace(source, args=(taken, b), ty=call.ty, span=call.span))]
