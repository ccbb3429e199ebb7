"""Multiply by the matrices of a batch again and again in the place of a batch that is repeated before.

    let %b = dyn.tile(%keys, %reps);                       // %reps: [r, 1, 1]
    nn.batch_matmul(%a, %b)
    ->
    nn.tiled_batch_matmul(%a, %keys, %reps)

Kernels read each matrix once for all products by it.  Floats, by the implementation of the product before: the same bits.

Requires: typed A-normal form.
Ensures: the same.  Tiles without another use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ....ops.core.op import get
from ....ops.core.tensor_types import TensorType, is_float
from ....shape_funcs.symbolic.dim import Dim, const
from ...ir.chain_rewriter import ChainRewriter, rewrite_chains
from ...ir.expr import Call, Constant, Expr, IRModule, Var, replace, tensor_type
from ...ir.pass_declaration import declare_pass

#: The operators that are replaced.
_REPLACED = ("nn.batch_matmul", "tile", "dyn.tile")
#: The axes of a batch of matrices, and the types of repetitions along each.
_RANK = 3
_OF_REPETITIONS = tuple(TensorType.of((_RANK,), dtype) for dtype in ("int64", "int32"))


@declare_pass("FoldTiles", "infer_type")
def fold_tiles(mod: IRModule, forced: Collection[str] = ()) -> IRModule:
    """The module with products by repeated matrices.  ``forced``: names of operators that stay as they are."""
    return mod if set(forced) & set(_REPLACED) else rewrite_chains(mod, _Folder)


class _Folder(ChainRewriter):
    """The rewriter of one function."""

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        if call.op is not get("nn.batch_matmul") or not is_float(tensor_type(call.args[1]).dtype):
            return None
        a, b = call.args
        tile = self.values.get(b)
        if not isinstance(tile, Call) or tile.op not in (get("tile"), get("dyn.tile")):
            return None
        data, reps = tile.args[0], _repetitions(tile)
        # without elements, rows may be repeated too
        if reps is None or len(_shape(data)) != _RANK or _shape(data)[1:] != _shape(b)[1:] or 0 in map(const, _shape(data)):
            return None
        return [(var, replace(call, op=get("nn.tiled_batch_matmul"), args=(a, data, reps)))]


def _repetitions(tile: Call) -> Expr | None:
    """The repetitions along each axis of matrices, a vector; None for another number of axes."""
    if tile.op is get("tile"):
        reps = tile.attrs.reps
        if len(reps) > _RANK:
            return None
        return Constant(np.array((1,) * (_RANK - len(reps)) + tuple(reps), np.int64), ty=_OF_REPETITIONS[0])
    reps = tile.args[1]
    return reps if tensor_type(reps) in _OF_REPETITIONS else None


def _shape(x: Expr) -> tuple[Dim, ...]:
    return tensor_type(x).shape
