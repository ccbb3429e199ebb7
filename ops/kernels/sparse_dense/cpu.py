"""Products of the rows of a dense matrix and the rows of a sparse one, which lists the blocks of each of its rows."""

from __future__ import annotations

import numpy as np

from ...native.memory import Array, Axes, generic
from ...native.status import INDEX_OUT_OF_RANGE, OK


@generic
def check_lists(indices: Array, starts: Array, positions: int) -> int:
    """A status: OK if each row lists existing blocks, and each block lies at one of ``positions``."""
    for row in range(len(starts) - 1):
        begin, end = int(starts[row]), int(starts[row + 1])
        if begin < 0 or end < begin or end > len(indices):
            return INDEX_OUT_OF_RANGE
    for at in range(len(indices)):
        if indices[at] < 0 or indices[at] >= positions:
            return INDEX_OUT_OF_RANGE
    return OK


@generic
def sparse_dense(
    dense: Array, blocks: Array, block_dims: Axes, indices: Array, starts: Array, out: Array, sparse_lhs: bool
) -> int:  # fmt: skip
    """Element ``(m, n)``: the sum of the products of row m of the dense matrix and row n of the sparse one, in float64;
    with ``sparse_lhs`` element ``(n, m)``.

    ``blocks``: of shape ``block_dims``, numbers or blocks of several rows and columns.
    """
    height, width = 1, 1
    if len(block_dims) == 3:
        height, width = block_dims[1], block_dims[2]
    status = check_lists(indices, starts, dense.shape[1] // max(width, 1))
    if status != OK:
        return status
    for m in range(dense.shape[0]):
        for row in range(len(starts) - 1):
            for part in range(height):
                total = np.float64(0)
                for at in range(int(starts[row]), int(starts[row + 1])):
                    column, block = int(indices[at]) * width, (at * height + part) * width
                    for k in range(width):
                        total += np.float64(blocks[block + k]) * np.float64(dense[m, column + k])
                n = row * height + part
                if sparse_lhs:
                    out[n, m] = total
                else:
                    out[m, n] = total
    return OK
