"""Matrix products by a library, of matrices at addresses."""

from __future__ import annotations

from typing import NamedTuple

from ...native.blas.gemm import call_gemm
from ...native.memory import Axes, generic


class Matrix(NamedTuple):
    """A matrix at an address: ``step`` elements from a row in memory to the next, which is a column if ``is_transposed``."""

    address: int
    step: int
    is_transposed: bool


@generic
def turned(matrix: Matrix) -> Matrix:
    """The transposed matrix."""
    return Matrix(matrix.address, matrix.step, not matrix.is_transposed)


@generic
def multiply(gemm: int, size: int, a: Matrix, b: Matrix, out: Matrix, shape: Axes) -> None:
    """Row-major ``out[m, n] = a @ b``; ``shape``: m, n and the number of terms; ``size``: bytes of an element."""
    m, n, k = shape
    is_a, is_b = 1 if a.is_transposed else 0, 1 if b.is_transposed else 0
    call_gemm(gemm, size, is_b, is_a, n, m, k, b.address, b.step, a.address, a.step, out.address, out.step)
