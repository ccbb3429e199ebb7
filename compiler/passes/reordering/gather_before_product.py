"""Take one row before the products that make it, so that the other rows are not multiplied.

    let %y = add(%x, nn.matmul(sigmoid(nn.matmul(%x, %a)), %b));     // [b, n, width]
    let %logits = nn.matmul(%y, %w);
    let %last = take(%logits, -1, axis=1, mode="wrap");
    ->
    let %row = take(%x, [-1], axis=1, mode="wrap");                  // [b, 1, width]
    let %y_row = add(%row, nn.matmul(sigmoid(nn.matmul(%row, %a)), %b));
    let %last = squeeze(nn.matmul(%y_row, %w), axis=[1]);

The next token follows from the logits of the last position, the class of an image from one row: of the last layer only keys and
values are needed in other rows.  The index is a constant number.  A value is computed by rows if its other rows have no use, and
its calls have no run-time checks; the row of any other value is taken.  Rows of at least one product are saved, and there may be
two rows or more.  Floats may differ by rounding: few rows are multiplied by another implementation.

Requires: typed A-normal form.
Ensures: the same.  Calls without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from ....ops.core.op import get
from ....ops.defs.movement.transform import SqueezeAttrs
from ....shape_funcs.symbolic.dim import const
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Constant, Expr, IRModule, Var, tensor_type
from ...ir.pass_declaration import declare_pass
from ...rules.rewriting import Definitions
from .row_of_layers import RowTaker


@declare_pass("GatherBeforeProduct", "infer_type")
def gather_before_product(mod: IRModule) -> IRModule:
    """The module with such gathers in front of products."""
    return rewrite_chains(mod, _Mover)


class _Mover(ChainRewriter):
    """The rewriter of one function."""

    def __init__(self, body: Expr) -> None:
        super().__init__(body)
        self.scope = Definitions(self.values)

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        if call.op is not get("take") or call.attrs.axis is None or call.attrs.batch_dims:
            return None
        source, index = call.args
        if not isinstance(index, Constant) or index.data.ndim:
            return None
        axis = call.attrs.axis % tensor_type(source).rank
        size = const(tensor_type(source).shape[axis])
        if size is not None and size < 2:
            return None
        found = RowTaker(self.scope, self.count, index, call.attrs).row(source, axis)
        if found is None:
            return None
        bindings, row = found
        return [*bindings, (var, Call(get("squeeze"), (row,), SqueezeAttrs((axis,)), ty=call.ty, span=call.span))]
