"""Matrices by their blocks that are not all zero, as ``nn.sparse_dense`` reads them (the format BSR).

[[1 2 0 0]                 data [[[1 2] [3 4]] [[5 0] [0 0]]]
 [3 4 0 0]     (2, 2)      indices [0 1]     the block's column, in blocks
 [0 0 5 0]       ->        indptr [0 1 2]    the begin of each row of blocks
 [0 0 0 0]]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....vm.diagnostics.argument_errors import a_count, a_sequence, wrong


@frozen(eq=False)
class BlockMatrix:
    """``data [blocks, rows of a block, columns of a block]``, ``indices [blocks]`` and ``indptr [rows of blocks + 1]``, int32."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray

    @staticmethod
    def of(matrix: np.ndarray, blocksize: tuple[int, int]) -> BlockMatrix:
        """The matrix, whose sizes are multiples of the block's.  Of the matrix's own dtype."""
        rows, columns = (size // of for size, of in zip(matrix.shape, blocksize, strict=True))
        blocks = matrix.reshape(rows, blocksize[0], columns, blocksize[1]).swapaxes(1, 2)
        kept = blocks.any(axis=(2, 3))
        starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
        return BlockMatrix(np.ascontiguousarray(blocks[kept]), np.nonzero(kept)[1].astype("int32"), starts.astype("int32"))

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three arrays in the order of the operators' inputs."""
        return self.data, self.indices, self.indptr

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """The sizes of the three arrays one after another, as ``DenseToSparse`` takes them."""
        blocks, rows, columns = self.data.shape
        return blocks, rows, columns, len(self.indices), len(self.indptr)


def fits_blocks(matrix: np.ndarray, blocksize: tuple[int, int], threshold: float) -> bool:
    """Whether the matrix consists of such blocks, and its share of zeros is at least the threshold."""
    divisible = all(size % of == 0 for size, of in zip(matrix.shape, blocksize, strict=True))
    return divisible and matrix.size > 0 and 1 - int(np.count_nonzero(matrix)) / matrix.size >= threshold


def checked_blocksize(blocksize: Any, who: str) -> tuple[int, int]:
    """The rows and columns of a block.  Raises ArgumentError."""
    given = a_sequence(blocksize, f"{who}: the blocksize", "(16, 1)")
    if len(given) != 2:
        raise wrong(f"{who}: the blocksize", "two numbers, of rows and columns", blocksize)
    rows, columns = (a_count(number, f"{who}: the blocksize", least=1) for number in given)
    return rows, columns


def checked_threshold(threshold: Any, who: str) -> float:
    """A share of zeros from 0 to 1.  Raises ArgumentError."""
    if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not 0 <= threshold <= 1:
        raise wrong(f"{who}: the sparsity_threshold", "a number from 0 to 1", threshold)
    return float(threshold)
