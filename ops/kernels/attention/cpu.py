"""Attention of a few queries to rows of keys and values with positions first: scores, softmax and weighted sum.

The rows of all heads at a position lie side by side.  A pass computes the scores of a few queries with all heads, another one
their weighted sums, so that keys and values are read once and in order, as memory delivers them.  The scores of these queries are
a buffer; no matrix of all scores is stored.  Everything is computed in the compute dtype.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...codegen.loop_nest.vector_math import exp_float32_below
from ...native.inlining import keep_out_of_line, keep_short
from ...native.jit.non_temporal import LINE_BYTES
from ...native.jit.products.operands import Rows
from ...native.jit.products.register_tile import PANEL_BYTES, panel_width
from ...native.memory import Array, generic
from ...native.prefetch import fetch
from ...native.static_values import at_compile_time, static, static_range
from ...native.status import OK
from ...native.templates import instantiate
from ...native.vector_registers import vector_bytes
from ...native.vectors import (
    Mask,
    Vector,
    fused_multiply_add,
    lanes_below,
    load,
    load_or_zero,
    splat,
    store,
    sum_of_lanes,
)
from ..shaped import Shaped
from ..softmax.cpu import exp_float64
from .batches import weigh, weigh_vectors
from .grouped import add_row

#: The parameters of the body: ``e ** x`` for x <= 0, the compute dtype, ``weigh`` for its scores, their factor, and the lowest
#: finite number.
exponential: Any = None
number: Any = None
weighed: Any = None
of_scores: Any = None
lowest: Any = None
#: Queries that are computed together, a power of 2 of so many bits, and scores of one head at a time: their sums are registers.
_BITS = 3
QUERIES, SUMS = 1 << (_BITS - 1), 8
#: How many bytes ahead of its place a pass fetches.
AHEAD = 4096


@at_compile_time
def _rows_together(queries: int) -> int:
    """Rows of keys or values that are read at a time."""
    return 4 if queries * 4 <= SUMS else SUMS // queries


@at_compile_time
def _lanes(itemsize: int) -> int:
    """Lanes of a vector of the compute dtype, which halves become."""
    return min(vector_bytes(), PANEL_BYTES) // max(itemsize, 4)


@generic
def _whole_vectors(count: int, itemsize: int) -> int:
    """The least multiple of the elements of a panel's row that is at least ``count``."""
    width = panel_width(itemsize)
    return (count + width - 1) // width * width


@generic
def _fetch_ahead(x: Shaped, first: int, count: int) -> None:
    """Ask for the lines of ``count`` elements from a distance behind element ``first`` on."""
    apart = AHEAD // x.data.itemsize
    for element in range(0, count, LINE_BYTES // x.data.itemsize):
        fetch(x.data, first + apart + element)


@generic
def _some(x: Shaped, at: int, mask: Mask, is_part: int) -> Vector:
    """A vector of elements; of a part the lanes whose masks are set, 0 in the others."""
    if is_part != 0:
        return load_or_zero(x.data, at, mask)
    return load(x.data, at, len(mask))


@generic
def _add_products(
    sums: list[Vector], query: Shaped, q: int, key: Shaped, k: int, apart: int, mask: Mask, queries: int, is_part: int
) -> None:
    """Add the products of a vector of some queries and one of some keys, from elements ``q`` and ``k`` on, ``apart`` elements."""
    rows = len(sums) // queries
    right = [_some(key, k + c * apart, mask, is_part) for c in static_range(rows)]
    for i in static_range(queries):
        left = _some(query, q + i * apart, mask, is_part)
        for c in static_range(rows):
            sums[i * rows + c] = fused_multiply_add(left, right[c], sums[i * rows + c])


@generic
def _score(query: Shaped, key: Shaped, scores: Rows, together: int, first: int, j: int, b: int, queries: int, rows: int) -> None:
    """The products of some queries, from ``first`` on, of ``together``, and some keys from ``j`` on, in all heads."""
    keep_out_of_line(), keep_short()
    batch, heads, d = query.dims[1], query.dims[2], query.dims[3]
    lanes, apart = _lanes(query.data.itemsize), batch * heads * d
    whole = d & -lanes
    mask = lanes_below(d - whole, lanes)
    for h in range(heads):
        q, k = ((first * batch + b) * heads + h) * d, ((j * batch + b) * heads + h) * d
        sums = [splat(scores.data.dtype.type(0), lanes)] * (queries * rows)
        for p in range(0, whole, lanes):
            _add_products(sums, query, q + p, key, k + p, apart, mask, queries, static(0))
        if whole < d:
            _add_products(sums, query, q + whole, key, k + whole, apart, mask, queries, static(1))
        for i in static_range(queries):
            for c in static_range(rows):
                scores.data[np.uint64(scores.at + (h * together + i) * scores.step + j + c)] = sum_of_lanes(sums[i * rows + c])


@generic
def _add_weighted(
    sums: Rows, at: int, weights: list[Vector], value: Shaped, v: int, apart: int, mask: Mask, queries: int, is_part: int
) -> None:
    """Add a vector of some rows of values, from element ``v`` on, times their weights, to the sums of each query at ``at``."""
    rows = len(weights) // queries
    right = [_some(value, v + c * apart, mask, is_part) for c in static_range(rows)]
    for i in static_range(queries):
        total = load(sums.data, at + i * sums.step, len(mask))
        for c in static_range(rows):
            total = fused_multiply_add(weights[i * rows + c], right[c], total)
        store(sums.data, at + i * sums.step, total)


@generic
def _add_rows(value: Shaped, scores: Rows, sums: Rows, together: int, j: int, b: int, queries: int, rows: int) -> None:
    """Add some rows of values from ``j`` on, times their weights, to the sums of some queries of ``together``, in all heads."""
    keep_out_of_line(), keep_short()
    batch, heads, e = value.dims[1], value.dims[2], value.dims[3]
    lanes, apart = _lanes(value.data.itemsize), batch * heads * e
    whole = e & -lanes
    mask = lanes_below(e - whole, lanes)
    for h in range(heads):
        at, v = sums.at + h * together * sums.step, ((j * batch + b) * heads + h) * e
        line = scores.at + h * together * scores.step + j
        positions = [line + k // rows * scores.step + k % rows for k in static_range(queries * rows)]
        weights = [splat(scores.data[np.uint64(position)], lanes) for position in positions]
        for p in range(0, whole, lanes):
            _add_weighted(sums, at + p, weights, value, v + p, apart, mask, queries, static(0))
        if whole < e:
            _add_weighted(sums, at + whole, weights, value, v + whole, apart, mask, queries, static(1))


@generic
def _score_all(query: Shaped, key: Shaped, scores: Array, first: int, b: int, row: int, queries: int) -> None:
    """The products of some queries from ``first`` on, a static number, and all keys of a batch, in all heads."""
    n, batch, heads, d = key.dims[0], key.dims[1], key.dims[2], key.dims[3]
    rows = _rows_together(queries)
    whole = n & -rows
    for j in range(0, whole, rows):
        for c in static_range(rows):
            _fetch_ahead(key, ((j + c) * batch + b) * heads * d, heads * d)
        _score(query, key, Rows(scores, 0, row), queries, first, j, b, queries, rows)
    for j in range(whole, n):
        for i in range(queries):
            _score(query, key, Rows(scores, i * row, row), queries, first + i, j, b, static(1), static(1))


@generic
def _add_all(value: Shaped, scores: Rows, sums: Rows, b: int, queries: int) -> None:
    """The weighted sums of all values of a batch for some queries, a static number, in all heads."""
    n, batch, heads, e = value.dims[0], value.dims[1], value.dims[2], value.dims[3]
    rows = _rows_together(queries)
    whole = n & -rows
    for at in range(heads * queries * sums.step):
        sums.data[np.uint64(at)] = 0
    for j in range(0, whole, rows):
        for c in static_range(rows):
            _fetch_ahead(value, ((j + c) * batch + b) * heads * e, heads * e)
        _add_rows(value, scores, sums, queries, j, b, queries, rows)
    for j in range(whole, n):
        for i in range(queries):
            weights, to = Rows(scores.data, i * scores.step, scores.step), Rows(sums.data, i * sums.step, sums.step)
            _add_rows(value, weights, to, queries, j, b, static(1), static(1))


@generic
def attention(
    query: Shaped, key: Shaped, value: Shaped, bias: Shaped, out: Shaped, scores: Array, sums: Array, weights: Array, scale: float
) -> int:
    """``out[m, b, h, e]``, QUERIES queries or fewer at a time.

    For each of them in each head, ``scores`` and ``sums`` have room for whole vectors of scores and of a value, ``weights`` for a
    number.
    """
    m, batch, heads, n, e = query.dims[0], query.dims[1], query.dims[2], value.dims[0], value.dims[3]
    factor, row, width = number(scale * of_scores), _whole_vectors(n, scores.itemsize), _whole_vectors(e, sums.itemsize)
    for b in range(batch):
        first = 0
        while first < m:
            together = QUERIES
            while together > m - first:
                together //= 2
            for bits in static_range(_BITS):
                if together == 1 << bits:
                    _score_all(query, key, scores, first, b, row, 1 << bits)
            for k in range(heads * together):
                for j in range(n):
                    scores[np.uint64(k * row + j)] *= factor
                if n > 0:
                    at = ((b * heads + k // together) * m + first + k % together) * n
                    add_row(scores, k * row, n, bias.data, at, n, number(of_scores), number(lowest), number(-np.inf))
                weights[k] = weighed(scores, k * row, n, row, number(1), exponential, number)
            for bits in static_range(_BITS):
                if together == 1 << bits:
                    _add_all(value, Rows(scores, 0, row), Rows(sums, 0, width), b, 1 << bits)
            for k in range(heads * together):
                to = (((first + k % together) * batch + b) * heads + k // together) * e
                for p in range(e):
                    out.data[np.uint64(to + p)] = sums[np.uint64(k * width + p)] * weights[k]
            first += together
    return OK


def _body(dtype: str, exponential: Any, **parameters: Any) -> Any:
    """The body for the compute dtype."""
    number = np.dtype(dtype).type
    lowest = float(np.finfo(dtype).min)
    return instantiate(attention, f"attention_{dtype}", exponential=exponential, number=number, lowest=lowest, **parameters)


#: By the dtype of the query; "" stands for storage-only dtypes and float32.
ATTENTION = {
    "float64": _body("float64", exp_float64, weighed=weigh, of_scores=1.0),
    "": _body("float32", exp_float32_below, weighed=weigh_vectors, of_scores=math.log2(math.e)),
}
