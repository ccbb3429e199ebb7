"""Matrix products of float16 and bfloat16: blocks are converted to float32, a BLAS multiplies them, and each sum is rounded once.

No large tensor is converted whole: all blocks together have at most 10 MiB.  There is one block of each input, one of a partial
sum, and one of the sum.
"""

from __future__ import annotations

from ...native.blas.blas_call import Matrix, Product
from ...native.blas.gemm import call_gemm
from ...native.memory import Array, Axes, array_float32, generic
from ...native.status import OK
from .cpu import leading

#: The largest block of a product: rows, columns, and the depth of the inner axis added at a time.
ROWS, COLUMNS, INNER = 512, 1024, 1024


@generic
def pack(to: Array, source: Array, at: int, rows: int, columns: int, step: int) -> None:
    """``to[i, j] = source[at + i * step + j]``, as float32."""
    for i in range(rows):
        for j in range(columns):
            to[i * columns + j] = source[at + i * step + j]


@generic
def add(total: Array, part: Array, count: int) -> None:
    """``total += part``."""
    for i in range(count):
        total[i] += part[i]


@generic
def multiply_block(
    work: int, a: Array, a_at: int, a_step: int, b: Array, b_at: int, b_step: int, out: Array, out_at: int, n: int, rows: int,
    columns: int, k: int, transpose_a: bool, transpose_b: bool, gemm: int,
) -> None:  # fmt: skip
    """One block of the product; ``a_step`` and ``b_step``: the row strides of ``a`` and ``b``."""
    most = min(INNER, k)
    right_at = work + 4 * rows * most
    part_at = right_at + 4 * most * columns
    left, right = array_float32(work, rows * most), array_float32(right_at, most * columns)
    part, total = array_float32(part_at, rows * columns), array_float32(part_at + 4 * rows * columns, rows * columns)
    for i in range(rows * columns):
        total[i] = 0
    for start in range(0, k, INNER):
        inner = min(INNER, k - start)
        # in the inputs' layouts, so that both are read and written in order; the product receives the transposition flags
        if transpose_a:
            pack(left, a, a_at + start * a_step, inner, rows, a_step)
        else:
            pack(left, a, a_at + start, rows, inner, a_step)
        if transpose_b:
            pack(right, b, b_at + start, columns, inner, b_step)
        else:
            pack(right, b, b_at + start * b_step, inner, columns, b_step)
        lda, ldb = rows if transpose_a else inner, inner if transpose_b else columns
        # column-major: see matmul.by_blas
        first, second = Matrix(right_at, ldb, transpose_b), Matrix(work, lda, transpose_a)
        call_gemm(gemm, Product(4, columns, rows, inner, first, second, Matrix(part_at, columns, 0)))
        add(total, part, rows * columns)
    for i in range(rows):
        for j in range(columns):
            out[out_at + i * n + j] = total[i * columns + j]


@generic
def multiply_halves(
    work: int, a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int, m: int, n: int, k: int, transpose_a: bool,
    transpose_b: bool, gemm: int,
) -> None:  # fmt: skip
    """``out[m, n] = op(a) @ op(b)`` of the matrices that start at element ``*_at``; ``work``: the address of the blocks."""
    a_step, b_step = m if transpose_a else k, k if transpose_b else n
    for column in range(0, n, COLUMNS):
        b_from = b_at + column * (k if transpose_b else 1)
        for row in range(0, m, ROWS):
            multiply_block(
                work, a, a_at + row * (1 if transpose_a else k), a_step, b, b_from, b_step, out, out_at + row * n + column, n,
                min(ROWS, m - row), min(COLUMNS, n - column), k, transpose_a, transpose_b, gemm,
            )  # fmt: skip


@generic
def matmul_halves(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, space: Array, gemm: int, transpose_a: bool,
    transpose_b: bool,
) -> int:  # fmt: skip
    """``matmul_blas`` if one of the dtypes is float16 or bfloat16."""
    n, k = b_dims[0 if transpose_b else 1], b_dims[1 if transpose_b else 0]
    m = a_dims[len(a_dims) - 1] if transpose_a else leading(a_dims, 1)
    work = space.ctypes.data
    if transpose_a:
        for batch in range(leading(a_dims, 2)):
            multiply_halves(work, a, batch * m * k, b, 0, out, batch * m * n, m, n, k, True, transpose_b, gemm)
    else:
        multiply_halves(work, a, 0, b, 0, out, 0, m, n, k, False, transpose_b, gemm)
    return OK


@generic
def batch_matmul_halves(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, space: Array, gemm: int, transpose_a: bool,
    transpose_b: bool,
) -> int:  # fmt: skip
    """``batch_matmul_blas`` if one of the dtypes is float16 or bfloat16."""
    m, n, k = out_dims[1], out_dims[2], a_dims[1 if transpose_a else 2]
    a_step, b_step = (m * k if a_dims[0] > 1 else 0), (n * k if b_dims[0] > 1 else 0)
    work = space.ctypes.data
    for batch in range(out_dims[0]):
        at = batch * m * n
        multiply_halves(work, a, batch * a_step, b, batch * b_step, out, at, m, n, k, transpose_a, transpose_b, gemm)
    return OK
