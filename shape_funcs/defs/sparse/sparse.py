"""Shapes of operators on sparse matrices in the formats CSR and BSR.

The rows of the matrix list the columns of their values, or of their blocks of values: row r has the entries from ``indptr[r]`` to
``indptr[r + 1]`` of the values and of the indices.
"""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import need_rank, same_size
from ...symbolic.dim import Dim, Shape, dim
from ...symbolic.dim_operations import le
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func


def stored_rows(data: Operand, indices: Operand, starts: Operand, first: int) -> Dim:
    """The number of rows of a sparse matrix, in blocks; ``first``: the position of the input ``data``."""
    need_rank(indices, 1, "the indices", first + 1)
    need_rank(starts, 1, "indptr", first + 2)
    message = "there are {} values or blocks, but {} indices"
    same_size(data.shape[0], indices.shape[0], message, first + 1, 0)
    check(le(1, starts.shape[0]), "indptr is empty; it has one number more than there are rows", input=first + 2, axis=0)
    return starts.shape[0] - 1


@register_shape_func("nn.sparse_dense")
def sparse_dense(inputs: tuple[Operand, ...], attrs: Any) -> Shape:
    """For a dense matrix ``[M, K]`` and a sparse one of N rows: ``[M, N]``, with ``sparse_lhs`` ``[N, M]``."""
    dense, data, indices, starts = inputs
    need_rank(dense, 2, "dense_mat", 0)
    if data.rank not in (1, 3):
        raise ShapeError(f"sparse_data has rank {data.rank}; it must be 1 (values) or 3 (blocks)", input=1)
    rows = stored_rows(data, indices, starts, 1) * (data.shape[1] if data.rank == 3 else dim(1))
    return (rows, dense.shape[0]) if attrs.sparse_lhs else (dense.shape[0], rows)
