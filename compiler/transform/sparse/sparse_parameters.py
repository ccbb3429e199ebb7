"""A function and its weights together, with those weights sparse that have enough zeros."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....ops.core.op import Op
from ....vm.diagnostics.argument_errors import a_mapping, wrong
from ...ir.expr import Call, Function, IRModule, Var
from ...ir.visitor import post_order
from ..inlining import graph_of
from .block_matrix import BlockMatrix, checked_blocksize, checked_threshold, fits_blocks
from .sparse_weights import Sizes

#: The matrix of the weight of a call, given as an array; None if it has none.
Matrix = Callable[[Call, np.ndarray], "np.ndarray | None"]
Run = Callable[[IRModule, Mapping[str, Sizes]], IRModule]


def with_sparse_parameters(
    who: str, func: Any, params: Any, blocks: tuple[Any, Any], op: str, matrix_of: Matrix, run: Run
) -> tuple[Function, dict[str, np.ndarray]]:
    """The function after the pass ``run``, and its weights by name, sparse ones in three parts.

    ``blocks``: the block's size and the least share of zeros of a sparse weight.  ``op``: the operator whose weights may be
    sparse.  Raises ArgumentError.
    """
    if not isinstance(func, Function):
        raise wrong(f"{who}: the function", "a relay.Function", func)
    arrays = {name: np.asarray(value) for name, value in a_mapping(params, f"{who}: the params").items()}
    blocksize, threshold = checked_blocksize(blocks[0], who), checked_threshold(blocks[1], who)
    mod = IRModule({"main": func})
    sparse: dict[str, BlockMatrix] = {}
    for call, weight in _weights(graph_of(func, mod), op):
        matrix = matrix_of(call, arrays[weight.name]) if weight.name in arrays else None
        if matrix is not None and fits_blocks(matrix, blocksize, threshold):
            sparse[weight.name] = BlockMatrix.of(matrix, blocksize)
    new = run(mod, {name: matrix.sizes for name, matrix in sparse.items()})["main"]
    wanted = {param.name for param in new.params}
    out = {name: array for name, array in arrays.items() if name not in sparse or name in wanted}
    for name, found in sparse.items():
        parts = zip((f"{name}.data", f"{name}.indices", f"{name}.indptr"), found.arrays, strict=True)
        out |= {part: array for part, array in parts if part in wanted}
    return new, out


def _weights(function: Function, op: str) -> list[tuple[Call, Var]]:
    """The calls of an operator whose weight is a parameter."""
    calls = [n for n in post_order(function) if isinstance(n, Call) and isinstance(n.op, Op) and n.op.name == op]
    found = [(call, call.args[1]) for call in calls if len(call.args) == 2]
    return [(call, weight) for call, weight in found if isinstance(weight, Var) and weight in function.params]
