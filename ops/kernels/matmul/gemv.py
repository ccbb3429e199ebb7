"""Matrix products of few rows, or of one column (gemv): they read a matrix once, bound by memory bandwidth.

A BLAS packs its inputs first, which is profitable only if each element is used often.  Accumulates in the dtype of the result,
as a BLAS does: of halves, float32.
"""

from __future__ import annotations

import numpy as np

from ...native.front_end.vector_hints import add_in_any_order, multiply_add
from ...native.memory import Array, Element, generic
from .half_rows import dots_of_halves
from .matrix import Matrix

#: Elements of a result row computed together: they stay in the L1 cache, with four rows of the matrix.
_COLUMNS = 4096


@generic
def dot(a: Array, a_at: int, b: Array, b_at: int, count: int) -> Element:
    """The sum of products of ``count`` elements."""
    total = a.dtype.type(0)
    for p in range(count):
        total = add_in_any_order(total, a[np.uint64(a_at + p)] * b[np.uint64(b_at + p)])
    return total


@generic
def dots(a: Array, a_at: int, b: Array, b_at: int, out: Array, out_at: int, m: int, n: int, k: int) -> None:
    """``out[m, n]``: the dot products of the rows of ``a[m, k]`` with the rows of ``b[n, k]``."""
    if a.itemsize < out.itemsize:
        dots_of_halves(a, a_at, b, b_at, out, out_at, m, n, k)
        return
    for j in range(n):
        for i in range(m):
            out[out_at + i * n + j] = dot(a, a_at + i * k, b, b_at + j * k, k)


@generic
def add_four_rows(out: Array, to: int, factors: Array, at: int, step: int, b: Array, b_at: int, n: int, count: int) -> None:
    """Add four rows of ``b`` (``n`` elements apart), each scaled by its factor; the factors are ``step`` elements apart."""
    f0, f1, f2, f3 = factors[at], factors[at + step], factors[at + 2 * step], factors[at + 3 * step]
    for j in range(count):
        near = multiply_add(f1, b[np.uint64(b_at + n + j)], multiply_add(f0, b[np.uint64(b_at + j)], out[np.uint64(to + j)]))
        out[np.uint64(to + j)] = multiply_add(
            f3, b[np.uint64(b_at + 3 * n + j)], multiply_add(f2, b[np.uint64(b_at + 2 * n + j)], near)
        )


@generic
def combine(
    a: Array, a_at: int, a_row: int, a_step: int, b: Array, b_at: int, out: Array, out_at: int, m: int, n: int, k: int
) -> None:
    """``out[m, n]``: linear combinations of the rows of ``b[k, n]``; factor strides: ``a_step`` per term, ``a_row`` per sum."""
    for begin in range(0, n, _COLUMNS):
        count = min(_COLUMNS, n - begin)
        for i in range(m):
            for j in range(count):
                out[out_at + i * n + begin + j] = 0
        for p in range(0, k - 3, 4):
            for i in range(m):
                to = out_at + i * n + begin
                add_four_rows(out, to, a, a_at + i * a_row + p * a_step, a_step, b, b_at + p * n + begin, n, count)
        for p in range(k // 4 * 4, k):
            for i in range(m):
                factor = a[a_at + i * a_row + p * a_step]
                for j in range(count):
                    place = np.uint64(out_at + i * n + begin + j)
                    out[place] = multiply_add(factor, b[np.uint64(b_at + p * n + begin + j)], out[place])


@generic
def multiply_thin(a: Matrix, b: Matrix, out: Array, at: int, m: int, n: int, k: int) -> None:
    """``out[m, n] = a @ b`` from ``at`` on, if at most one is transposed, or ``m`` or ``n`` is 1.

    Of float32 or float64, or of halves to float32.
    """
    if n == 1:
        if a.transposed:
            combine(b.data, b.at, 0, 1, a.data, a.at, out, at, 1, m, k)
        else:
            dots(b.data, b.at, a.data, a.at, out, at, 1, m, k)
    elif b.transposed:
        dots(a.data, a.at, b.data, b.at, out, at, m, n, k)
    else:
        combine(a.data, a.at, 1 if a.transposed else k, m if a.transposed else 1, b.data, b.at, out, at, m, n, k)
