"""Matrix products: through BLAS where all tensors are float32 or all float64, else plain loops.

Every body gets each tensor as its elements and its shape (view "dims").  Integers accumulate in int64 and wrap into the
result's dtype; the float loops accumulate in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..native.libraries import call_gemm
from ..native.memory import generic
from ..native.status import OK
from .thin_matmul import is_thin, multiply_thin

#: BLAS takes sizes as int32.
BLAS_LIMIT = 2**31 - 1


@generic
def leading(dims: Any, kept: int) -> int:
    """The product of all but the last ``kept`` sizes."""
    product = 1
    for axis in range(len(dims) - kept):
        product *= dims[axis]
    return product


@generic
def add_integer_row(out, to, factor, b, b_at, n):  # type: ignore[no-untyped-def]
    """``out[to + j] += factor * b[b_at + j]``, wrapped."""
    for j in range(n):
        at = np.uint64(to + j)
        out[at] = np.int64(out[at]) + factor * np.int64(b[np.uint64(b_at + j)])


@generic
def multiply_integers(a, a_at, b, b_at, out, out_at, m, n, k, transpose_a, transpose_b):  # type: ignore[no-untyped-def]
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
            # sums of rows: what is wrapped early is the same in the end
            for j in range(n):
                out[out_at + i * n + j] = 0
            for p in range(k):
                add_integer_row(out, out_at + i * n, np.int64(a[a_at + i * row + p * step]), b, b_at + p * n, n)


@generic
def multiply_by_loop(a, a_at, b, b_at, out, out_at, m, n, k, transpose_a, transpose_b):  # type: ignore[no-untyped-def]
    """As ``multiply_integers``, of floats."""
    for i in range(m):
        for j in range(n):
            total = 0.0
            for p in range(k):
                x = a[a_at + (p * m + i if transpose_a else i * k + p)]
                y = b[b_at + (j * k + p if transpose_b else p * n + j)]
                total += np.float64(x) * np.float64(y)
            out[out_at + i * n + j] = total


@generic
def multiply_floats(a, a_at, b, b_at, out, out_at, m, n, k, transpose_a, transpose_b, gemm):  # type: ignore[no-untyped-def]
    """As ``multiply_integers``, by the BLAS at ``gemm`` if there is one."""
    if gemm == 0 or k == 0 or max(m, max(n, k)) > BLAS_LIMIT:
        multiply_by_loop(a, a_at, b, b_at, out, out_at, m, n, k, transpose_a, transpose_b)
    elif is_thin(m, n, transpose_a, transpose_b):
        multiply_thin(a, a_at, b, b_at, out, out_at, m, n, k, transpose_a, transpose_b)
    elif m > 0 and n > 0:
        # row-major out = a @ b is column-major out^T = b^T @ a^T, and read so a and b are transposed already
        size = out.itemsize
        x, y, z = a.ctypes.data + a_at * size, b.ctypes.data + b_at * size, out.ctypes.data + out_at * size
        lda, ldb = m if transpose_a else k, k if transpose_b else n
        call_gemm(gemm, size, 1 if transpose_b else 0, 1 if transpose_a else 0, n, m, k, y, ldb, x, lda, z, n)


@generic
def matmul_floats(a, a_dims, b, b_dims, out, out_dims, gemm, transpose_a, transpose_b):  # type: ignore[no-untyped-def]
    """``op(a) @ op(b)`` of ``a[..., m, k]`` and one matrix ``b``: a single product unless ``a`` is transposed."""
    n, k = b_dims[0 if transpose_b else 1], b_dims[1 if transpose_b else 0]
    if not transpose_a:
        multiply_floats(a, 0, b, 0, out, 0, leading(a_dims, 1), n, k, False, transpose_b, gemm)
        return OK
    m = a_dims[len(a_dims) - 1]
    for batch in range(leading(a_dims, 2)):
        multiply_floats(a, batch * m * k, b, 0, out, batch * m * n, m, n, k, True, transpose_b, gemm)
    return OK


@generic
def matmul_integers(a, a_dims, b, b_dims, out, out_dims, gemm, transpose_a, transpose_b):  # type: ignore[no-untyped-def]
    """As ``matmul_floats``, of integers."""
    n, k = b_dims[0 if transpose_b else 1], b_dims[1 if transpose_b else 0]
    if not transpose_a:
        multiply_integers(a, 0, b, 0, out, 0, leading(a_dims, 1), n, k, False, transpose_b)
        return OK
    m = a_dims[len(a_dims) - 1]
    for batch in range(leading(a_dims, 2)):
        multiply_integers(a, batch * m * k, b, 0, out, batch * m * n, m, n, k, True, transpose_b)
    return OK


@generic
def batch_matmul_floats(a, a_dims, b, b_dims, out, out_dims, gemm, transpose_a, transpose_b):  # type: ignore[no-untyped-def]
    """``op(a[i]) @ op(b[i])`` for each i; a batch of 1 serves every i."""
    m, n, k = out_dims[1], out_dims[2], a_dims[1 if transpose_a else 2]
    a_step, b_step = (m * k if a_dims[0] > 1 else 0), (n * k if b_dims[0] > 1 else 0)
    for batch in range(out_dims[0]):
        at = batch * m * n
        multiply_floats(a, batch * a_step, b, batch * b_step, out, at, m, n, k, transpose_a, transpose_b, gemm)
    return OK


@generic
def batch_matmul_integers(a, a_dims, b, b_dims, out, out_dims, gemm, transpose_a, transpose_b):  # type: ignore[no-untyped-def]
    """As ``batch_matmul_floats``, of integers."""
    m, n, k = out_dims[1], out_dims[2], a_dims[1 if transpose_a else 2]
    a_step, b_step = (m * k if a_dims[0] > 1 else 0), (n * k if b_dims[0] > 1 else 0)
    for batch in range(out_dims[0]):
        at = batch * m * n
        multiply_integers(a, batch * a_step, b, batch * b_step, out, at, m, n, k, transpose_a, transpose_b)
    return OK
