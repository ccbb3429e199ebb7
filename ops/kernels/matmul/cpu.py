"""Matrix products: by rows (gemv) or through BLAS if all tensors are float32 or all float64, or by plain loops.

Every body receives each tensor as its elements and its shape (view "dims").  Integers accumulate in int64 and wrap to the
result's dtype; the float loops accumulate in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.blas.blas_call import Matrix, Product
from ...native.blas.gemm import Batch, call_gemm, call_gemms
from ...native.memory import Array, Axes, Element, generic
from ...native.status import OK
from .gemv import multiply_thin

#: The largest size for every BLAS: some have 32-bit integers.
BLAS_LIMIT = 2**31 - 1


@generic
def leading(dims: Any, kept: int) -> int:
    """The product of all but the last ``kept`` sizes."""
    product = 1
    for axis in range(len(dims) - kept):
        product *= dims[axis]
    return product


@generic
def add_integer_row(out: Array, to: int, factor: Element, b: Array, b_at: int, n: int) -> None:
    """``out[to + j] += factor * b[b_at + j]``, wrapped."""
    for j in range(n):
        at = np.uint64(to + j)
        out[at] = np.int64(out[at]) + factor * np.int64(b[np.uint64(b_at + j)])


@generic
def multiply_integers(
    a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int, m: int, n: int, k: int, transpose_a: bool,
    transpose_b: bool,
) -> None:  # fmt: skip
    """``out[m, n] = op(a) @ op(b)`` of the matrices that start at element ``*_at``."""
    row, step = (1, m) if transpose_a else (k, 1)
    for i in range(m):
        if transpose_b:
            for j in range(n):
                total = np.int64(0)
                for p in range(k):
                    total += np.int64(a[a_at + i * row + p * step]) * np.int64(b[np.uint64(b_at + j * k + p)])
                out[out_at + i * n + j] = total
        else:
            # sums of rows: early wrapping does not change the final value
            for j in range(n):
                out[out_at + i * n + j] = 0
            for p in range(k):
                add_integer_row(out, out_at + i * n, np.int64(a[a_at + i * row + p * step]), b, b_at + p * n, n)


@generic
def multiply_by_loop(
    a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int, m: int, n: int, k: int, transpose_a: bool,
    transpose_b: bool,
) -> None:  # fmt: skip
    """``multiply_integers`` for floats."""
    for i in range(m):
        for j in range(n):
            total = 0.0
            for p in range(k):
                x = a[a_at + (p * m + i if transpose_a else i * k + p)]
                y = b[b_at + (j * k + p if transpose_b else p * n + j)]
                total += np.float64(x) * np.float64(y)
            out[out_at + i * n + j] = total


@generic
def by_loop(
    a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int, m: int, n: int, k: int, transpose_a: bool,
    transpose_b: bool, gemm: int,
) -> None:  # fmt: skip
    """``multiply_by_loop``; ``gemm`` is unused."""
    multiply_by_loop(a, a_at, b, b_at, out, out_at, m, n, k, transpose_a, transpose_b)


@generic
def of_integers(
    a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int, m: int, n: int, k: int, transpose_a: bool,
    transpose_b: bool, gemm: int,
) -> None:  # fmt: skip
    """``multiply_integers``; ``gemm`` is unused."""
    multiply_integers(a, a_at, b, b_at, out, out_at, m, n, k, transpose_a, transpose_b)


@generic
def by_rows(
    a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int, m: int, n: int, k: int, transpose_a: bool,
    transpose_b: bool, gemm: int,
) -> None:  # fmt: skip
    """``multiply_thin``; ``gemm`` is unused."""
    multiply_thin(a, a_at, b, b_at, out, out_at, m, n, k, transpose_a, transpose_b)


@generic
def by_blas(
    a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int, m: int, n: int, k: int, transpose_a: bool,
    transpose_b: bool, gemm: int,
) -> None:  # fmt: skip
    """``multiply_integers`` for float32 or float64, by the BLAS at ``gemm``; rows beyond its limit are split into several calls.

    Other sizes beyond the limit fall back to loops in this function: a separate kernel would be compiled for every program.
    """
    if k == 0:
        for i in range(m * n):
            out[out_at + i] = 0
        return
    if m == 0 or n == 0:
        return
    if max(n, max(k, m if transpose_a else 0)) > BLAS_LIMIT:
        multiply_by_loop(a, a_at, b, b_at, out, out_at, m, n, k, transpose_a, transpose_b)
        return
    # row-major out = a @ b is column-major out^T = b^T @ a^T; in column-major order a and b are already transposed
    size = out.itemsize
    lda, ldb = m if transpose_a else k, k if transpose_b else n
    for first in range(0, m, BLAS_LIMIT):
        x = a.ctypes.data + (a_at + first * (1 if transpose_a else k)) * size
        y, z = b.ctypes.data + b_at * size, out.ctypes.data + (out_at + first * n) * size
        rows = min(BLAS_LIMIT, m - first)
        call_gemm(gemm, Product(size, n, rows, k, Matrix(y, ldb, transpose_b), Matrix(x, lda, transpose_a), Matrix(z, n, 0)))


@generic
def batches_by_blas(
    a: Array, a_step: int, b: Array, b_step: int, out: Array, count: int, m: int, n: int, k: int, transpose_a: bool,
    transpose_b: bool, gemm: int,
) -> None:  # fmt: skip
    """``count`` products by ``by_blas`` with inputs ``a_step`` and ``b_step`` elements apart, partitioned between threads."""
    if count < 2 or k == 0 or max(max(m, n), k) > BLAS_LIMIT:
        for batch in range(count):
            by_blas(a, batch * a_step, b, batch * b_step, out, batch * m * n, m, n, k, transpose_a, transpose_b, gemm)
        return
    if m == 0 or n == 0:
        return
    size, lda, ldb = out.itemsize, m if transpose_a else k, k if transpose_b else n
    first, second = Matrix(b.ctypes.data, ldb, transpose_b), Matrix(a.ctypes.data, lda, transpose_a)
    product = Product(size, n, m, k, first, second, Matrix(out.ctypes.data, n, 0))
    call_gemms(gemm, product, Batch(count, b_step * size, a_step * size, m * n * size))


# ---- single and batched products -------------------------------------------------------------------------------------


@generic
def matmul(
    multiply: Callable[..., Any], a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, gemm: int, transpose_a: bool,
    transpose_b: bool,
) -> int:  # fmt: skip
    """``op(a) @ op(b)`` of ``a[..., m, k]`` and one matrix ``b``: a single product unless ``a`` is transposed."""
    n, k = b_dims[0 if transpose_b else 1], b_dims[1 if transpose_b else 0]
    if not transpose_a:
        multiply(a, 0, b, 0, out, 0, leading(a_dims, 1), n, k, False, transpose_b, gemm)
        return OK
    m = a_dims[len(a_dims) - 1]
    for batch in range(leading(a_dims, 2)):
        multiply(a, batch * m * k, b, 0, out, batch * m * n, m, n, k, True, transpose_b, gemm)
    return OK


@generic
def batch_matmul(
    multiply: Callable[..., Any], a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, gemm: int,
    transpose_a: bool, transpose_b: bool,
) -> int:  # fmt: skip
    """``op(a[i]) @ op(b[i])`` for each i; a batch of 1 is broadcast."""
    m, n, k = out_dims[1], out_dims[2], a_dims[1 if transpose_a else 2]
    a_step, b_step = (m * k if a_dims[0] > 1 else 0), (n * k if b_dims[0] > 1 else 0)
    for batch in range(out_dims[0]):
        at = batch * m * n
        multiply(a, batch * a_step, b, batch * b_step, out, at, m, n, k, transpose_a, transpose_b, gemm)
    return OK


# ---- kernel bodies ---------------------------------------------------------------------------------------------------


@generic
def matmul_rows(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, transpose_a: bool, transpose_b: bool
) -> int:
    """A product of few rows, or one column."""
    return matmul(by_rows, a, a_dims, b, b_dims, out, 0, transpose_a, transpose_b)


@generic
def matmul_blas(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, gemm: int, transpose_a: bool, transpose_b: bool
) -> int:
    """A product by BLAS."""
    if not transpose_a:
        return matmul(by_blas, a, a_dims, b, b_dims, out, gemm, transpose_a, transpose_b)
    n, k, m = b_dims[0 if transpose_b else 1], b_dims[1 if transpose_b else 0], a_dims[len(a_dims) - 1]
    batches_by_blas(a, m * k, b, 0, out, leading(a_dims, 2), m, n, k, transpose_a, transpose_b, gemm)
    return OK


@generic
def matmul_loops(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, transpose_a: bool, transpose_b: bool
) -> int:
    """A product of floats of any dtype."""
    return matmul(by_loop, a, a_dims, b, b_dims, out, 0, transpose_a, transpose_b)


@generic
def matmul_integers(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, transpose_a: bool, transpose_b: bool
) -> int:
    """A product of integers."""
    return matmul(of_integers, a, a_dims, b, b_dims, out, 0, transpose_a, transpose_b)


@generic
def batch_matmul_rows(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, transpose_a: bool, transpose_b: bool
) -> int:
    """Batched products of few rows, or one column."""
    return batch_matmul(by_rows, a, a_dims, b, b_dims, out, out_dims, 0, transpose_a, transpose_b)


@generic
def batch_matmul_blas(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, gemm: int, transpose_a: bool, transpose_b: bool
) -> int:
    """Batched products by BLAS."""
    m, n, k = out_dims[1], out_dims[2], a_dims[1 if transpose_a else 2]
    a_step, b_step = (m * k if a_dims[0] > 1 else 0), (n * k if b_dims[0] > 1 else 0)
    batches_by_blas(a, a_step, b, b_step, out, out_dims[0], m, n, k, transpose_a, transpose_b, gemm)
    return OK


@generic
def batch_matmul_loops(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, transpose_a: bool, transpose_b: bool
) -> int:
    """Batched products of floats of any dtype."""
    return batch_matmul(by_loop, a, a_dims, b, b_dims, out, out_dims, 0, transpose_a, transpose_b)


@generic
def batch_matmul_integers(
    a: Array, a_dims: Axes, b: Array, b_dims: Axes, out: Array, out_dims: Axes, transpose_a: bool, transpose_b: bool
) -> int:
    """Batched products of integers."""
    return batch_matmul(of_integers, a, a_dims, b, b_dims, out, out_dims, 0, transpose_a, transpose_b)
