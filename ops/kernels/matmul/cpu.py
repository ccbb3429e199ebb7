"""Matrix products: by rows (gemv) or through BLAS if all tensors are float32 or all float64, or by plain loops.

Integers accumulate in int64 and wrap to the result's dtype; the float loops accumulate in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...native.blas.blas_call import MatrixAt, Product
from ...native.blas.gemm import BatchSteps, call_gemm, call_gemms
from ...native.memory import Array, Element, generic
from ...native.status import OK
from ..shaped import Shaped
from .gemv import multiply_thin
from .matrix import Batch, Matrix, batch, matrix, matrix_of, place_of

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
        out[at] = out.dtype.type(np.int64(out[at]) + factor * np.int64(b[np.uint64(b_at + j)]))


@generic
def multiply_integers(a: Matrix, b: Matrix, out: Array, at: int, m: int, n: int, k: int) -> None:
    """``out[m, n] = a @ b``, from element ``at`` on."""
    row, step = (1, a.step) if a.transposed else (a.step, 1)
    for i in range(m):
        if b.transposed:
            for j in range(n):
                total = np.int64(0)
                for p in range(k):
                    total += np.int64(a.data[a.at + i * row + p * step]) * np.int64(b.data[np.uint64(b.at + j * b.step + p)])
                out[at + i * n + j] = out.dtype.type(total)
        else:
            # sums of rows: early wrapping does not change the final value
            for j in range(n):
                out[at + i * n + j] = 0
            for p in range(k):
                factor = np.int64(a.data[a.at + i * row + p * step])
                add_integer_row(out, at + i * n, factor, b.data, b.at + p * b.step, n)


@generic
def multiply_by_loop(a: Matrix, b: Matrix, out: Array, at: int, m: int, n: int, k: int) -> None:
    """``multiply_integers`` for floats."""
    for i in range(m):
        for j in range(n):
            total = 0.0
            for p in range(k):
                x = a.data[a.at + (p * a.step + i if a.transposed else i * a.step + p)]
                y = b.data[b.at + (j * b.step + p if b.transposed else p * b.step + j)]
                total += np.float64(x) * np.float64(y)
            out[at + i * n + j] = total


@generic
def by_loop(a: Matrix, b: Matrix, out: Array, at: int, m: int, n: int, k: int, gemm: int) -> None:
    """``multiply_by_loop``; ``gemm`` is unused."""
    multiply_by_loop(a, b, out, at, m, n, k)


@generic
def of_integers(a: Matrix, b: Matrix, out: Array, at: int, m: int, n: int, k: int, gemm: int) -> None:
    """``multiply_integers``; ``gemm`` is unused."""
    multiply_integers(a, b, out, at, m, n, k)


@generic
def by_rows(a: Matrix, b: Matrix, out: Array, at: int, m: int, n: int, k: int, gemm: int) -> None:
    """``multiply_thin``; ``gemm`` is unused."""
    multiply_thin(a, b, out, at, m, n, k)


@generic
def by_blas(a: Matrix, b: Matrix, out: Array, at: int, m: int, n: int, k: int, gemm: int) -> None:
    """``multiply_integers`` for float32 or float64, by the BLAS at ``gemm``; rows beyond its limit are split into several calls.

    Other sizes beyond the limit fall back to loops in this function: a separate kernel would be compiled for every program.
    """
    if k == 0:
        for i in range(m * n):
            out[at + i] = 0
        return
    if m == 0 or n == 0:
        return
    if max(n, max(k, m if a.transposed else 0)) > BLAS_LIMIT:
        multiply_by_loop(a, b, out, at, m, n, k)
        return
    # row-major out = a @ b is column-major out^T = b^T @ a^T; in column-major order a and b are already transposed
    size = out.itemsize
    for first in range(0, m, BLAS_LIMIT):
        x = a.data.ctypes.data + (a.at + first * (1 if a.transposed else k)) * size
        y, z = b.data.ctypes.data + b.at * size, out.ctypes.data + (at + first * n) * size
        left, right = MatrixAt(y, b.step, b.transposed), MatrixAt(x, a.step, a.transposed)
        call_gemm(gemm, Product(size, n, min(BLAS_LIMIT, m - first), k, left, right, MatrixAt(z, n, 0)))


@generic
def batches_by_blas(a: Batch, b: Batch, out: Array, count: int, m: int, n: int, k: int, gemm: int) -> None:
    """``count`` products by ``by_blas``, partitioned between threads; a run of products has factors that follow each other."""
    if count < 2 or k == 0 or max(max(m, n), k) > BLAS_LIMIT:
        for number in range(count):
            by_blas(matrix_of(a, number), matrix_of(b, number), out, number * m * n, m, n, k, gemm)
        return
    if m == 0 or n == 0:
        return
    size, run = out.itemsize, min(a.matrices if a.matrices > 1 else count, b.matrices if b.matrices > 1 else count)
    for first in range(0, count, run):
        left = MatrixAt(b.data.ctypes.data + place_of(b, first) * size, b.step, b.transposed)
        right = MatrixAt(a.data.ctypes.data + place_of(a, first) * size, a.step, a.transposed)
        product = Product(size, n, m, k, left, right, MatrixAt(out.ctypes.data + first * m * n * size, n, 0))
        call_gemms(gemm, product, BatchSteps(run, b.apart * size, a.apart * size, m * n * size))


# ---- single and batched products -------------------------------------------------------------------------------------


@generic
def matmul(
    multiply: Callable[..., Any], a: Shaped, b: Shaped, out: Shaped, gemm: int, transpose_a: bool, transpose_b: bool
) -> int:
    """``op(a) @ op(b)`` of ``a[..., m, k]`` and one matrix ``b``: a single product unless ``a`` is transposed."""
    n, k = b.dims[0 if transpose_b else 1], b.dims[1 if transpose_b else 0]
    right = matrix(b.data, 0, k, n, transpose_b)
    if not transpose_a:
        m = leading(a.dims, 1)
        multiply(matrix(a.data, 0, m, k, False), right, out.data, 0, m, n, k, gemm)
        return OK
    m = a.dims[len(a.dims) - 1]
    for number in range(leading(a.dims, 2)):
        multiply(matrix(a.data, number * m * k, m, k, True), right, out.data, number * m * n, m, n, k, gemm)
    return OK


@generic
def batch_matmul(
    multiply: Callable[..., Any], a: Shaped, b: Shaped, out: Shaped, gemm: int, transpose_a: bool, transpose_b: bool
) -> int:
    """``op(a[i]) @ op(b[i])`` for each i, of a batch with fewer matrices again from the first."""
    m, n, k = out.dims[1], out.dims[2], a.dims[1 if transpose_a else 2]
    left, right = batch(a, m, k, transpose_a), batch(b, k, n, transpose_b)
    for number in range(out.dims[0]):
        multiply(matrix_of(left, number), matrix_of(right, number), out.data, number * m * n, m, n, k, gemm)
    return OK


# ---- kernel bodies ---------------------------------------------------------------------------------------------------


@generic
def matmul_rows(a: Shaped, b: Shaped, out: Shaped, transpose_a: bool, transpose_b: bool) -> int:
    """A product of few rows, or one column."""
    return matmul(by_rows, a, b, out, 0, transpose_a, transpose_b)


@generic
def matmul_blas(a: Shaped, b: Shaped, out: Shaped, gemm: int, transpose_a: bool, transpose_b: bool) -> int:
    """A product by BLAS."""
    if not transpose_a:
        return matmul(by_blas, a, b, out, gemm, transpose_a, transpose_b)
    n, k, m = b.dims[0 if transpose_b else 1], b.dims[1 if transpose_b else 0], a.dims[len(a.dims) - 1]
    right = Batch(b.data, 1, 0, k if transpose_b else n, transpose_b)
    count = leading(a.dims, 2)
    batches_by_blas(Batch(a.data, count, m * k, m, True), right, out.data, count, m, n, k, gemm)
    return OK


@generic
def matmul_loops(a: Shaped, b: Shaped, out: Shaped, transpose_a: bool, transpose_b: bool) -> int:
    """A product of floats of any dtype."""
    return matmul(by_loop, a, b, out, 0, transpose_a, transpose_b)


@generic
def matmul_integers(a: Shaped, b: Shaped, out: Shaped, transpose_a: bool, transpose_b: bool) -> int:
    """A product of integers."""
    return matmul(of_integers, a, b, out, 0, transpose_a, transpose_b)


@generic
def batch_matmul_rows(a: Shaped, b: Shaped, out: Shaped, transpose_a: bool, transpose_b: bool) -> int:
    """Batched products of few rows, or one column."""
    return batch_matmul(by_rows, a, b, out, 0, transpose_a, transpose_b)


@generic
def batch_matmul_blas(a: Shaped, b: Shaped, out: Shaped, gemm: int, transpose_a: bool, transpose_b: bool) -> int:
    """Batched products by BLAS."""
    m, n, k = out.dims[1], out.dims[2], a.dims[1 if transpose_a else 2]
    batches_by_blas(batch(a, m, k, transpose_a), batch(b, k, n, transpose_b), out.data, out.dims[0], m, n, k, gemm)
    return OK


@generic
def batch_matmul_loops(a: Shaped, b: Shaped, out: Shaped, transpose_a: bool, transpose_b: bool) -> int:
    """Batched products of floats of any dtype."""
    return batch_matmul(by_loop, a, b, out, 0, transpose_a, transpose_b)


@generic
def batch_matmul_integers(a: Shaped, b: Shaped, out: Shaped, transpose_a: bool, transpose_b: bool) -> int:
    """Batched products of integers."""
    return batch_matmul(of_integers, a, b, out, 0, transpose_a, transpose_b)
