"""Matrix products of float16 and bfloat16: blocks are converted to float32, a BLAS multiplies them, and each sum is rounded once.

No large tensor is converted whole: all blocks together have at most 10 MiB.  There is one block of each input, one of a partial
sum, and one of the sum.
"""

from __future__ import annotations

import numpy as np

from ...native.blas.blas_call import MatrixAt, Product
from ...native.blas.gemm import call_gemm
from ...native.jit.products.operands import Rows
from ...native.memory import Array, array_float32, generic
from ...native.status import OK
from ..shaped import Shaped
from .cpu import leading
from .matrix import Matrix, batch, matrix, matrix_of

#: The largest block of a product: rows, columns, and the depth of the inner axis added at a time.
ROWS, COLUMNS, INNER = 512, 1024, 1024


@generic
def pack(to: Array, source: Array, at: int, rows: int, columns: int, step: int) -> None:
    """``to[i, j] = source[at + i * step + j]``, as float32."""
    for i in range(rows):
        for j in range(columns):
            to[np.uint64(i * columns + j)] = source[np.uint64(at + i * step + j)]


@generic
def add(total: Array, part: Array, count: int) -> None:
    """``total += part``."""
    for i in range(count):
        total[np.uint64(i)] += part[np.uint64(i)]


@generic
def multiply_block(work: int, a: Matrix, b: Matrix, out: Rows, rows: int, columns: int, k: int, gemm: int) -> None:
    """One block of the product."""
    most = min(INNER, k)
    right_at = work + 4 * rows * most
    part_at = right_at + 4 * most * columns
    total_at = part_at + 4 * rows * columns
    left, right = array_float32(work, rows * most), array_float32(right_at, most * columns)
    part, total = array_float32(part_at, rows * columns), array_float32(total_at, rows * columns)
    if k == 0:
        for i in range(rows * columns):
            total[i] = 0
    for start in range(0, k, INNER):
        inner = min(INNER, k - start)
        # in the inputs' layouts, so that both are read and written in order; the product receives the transposition flags
        if a.transposed:
            pack(left, a.data, a.at + start * a.step, inner, rows, a.step)
        else:
            pack(left, a.data, a.at + start, rows, inner, a.step)
        if b.transposed:
            pack(right, b.data, b.at + start, columns, inner, b.step)
        else:
            pack(right, b.data, b.at + start * b.step, inner, columns, b.step)
        lda, ldb = rows if a.transposed else inner, inner if b.transposed else columns
        # column-major: see matmul.by_blas
        first, second = MatrixAt(right_at, ldb, b.transposed), MatrixAt(work, lda, a.transposed)
        to = MatrixAt(total_at if start == 0 else part_at, columns, 0)
        call_gemm(gemm, Product(4, columns, rows, inner, first, second, to))
        if start > 0:
            add(total, part, rows * columns)
    for i in range(rows):
        for j in range(columns):
            out.data[np.uint64(out.at + i * out.step + j)] = total[np.uint64(i * columns + j)]


@generic
def multiply_halves(work: int, a: Matrix, b: Matrix, out: Array, at: int, m: int, n: int, k: int, gemm: int) -> None:
    """``out[m, n] = a @ b``, from element ``at`` on; ``work``: the address of the blocks."""
    for column in range(0, n, COLUMNS):
        right = Matrix(b.data, b.at + column * (k if b.transposed else 1), b.step, b.transposed)
        for row in range(0, m, ROWS):
            left = Matrix(a.data, a.at + row * (1 if a.transposed else k), a.step, a.transposed)
            to = Rows(out, at + row * n + column, n)
            multiply_block(work, left, right, to, min(ROWS, m - row), min(COLUMNS, n - column), k, gemm)


@generic
def matmul_halves(a: Shaped, b: Shaped, out: Shaped, space: Array, gemm: int, transpose_a: bool, transpose_b: bool) -> int:
    """``matmul_blas`` if one of the dtypes is float16 or bfloat16."""
    n, k, work = b.dims[0 if transpose_b else 1], b.dims[1 if transpose_b else 0], space.ctypes.data
    m = a.dims[len(a.dims) - 1] if transpose_a else leading(a.dims, 1)
    right = matrix(b.data, 0, k, n, transpose_b)
    for number in range(leading(a.dims, 2) if transpose_a else 1):
        left = matrix(a.data, number * m * k, m, k, transpose_a)
        multiply_halves(work, left, right, out.data, number * m * n, m, n, k, gemm)
    return OK


@generic
def batch_matmul_halves(a: Shaped, b: Shaped, out: Shaped, space: Array, gemm: int, transpose_a: bool, transpose_b: bool) -> int:
    """``batch_matmul_blas`` if one of the dtypes is float16 or bfloat16."""
    m, n, k, work = out.dims[1], out.dims[2], a.dims[1 if transpose_a else 2], space.ctypes.data
    left, right = batch(a, m, k, transpose_a), batch(b, k, n, transpose_b)
    for number in range(out.dims[0]):
        multiply_halves(work, matrix_of(left, number), matrix_of(right, number), out.data, number * m * n, m, n, k, gemm)
    return OK
