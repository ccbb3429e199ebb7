"""Attention of a row of queries to the rows of keys and values: scores, softmax and weighted sum, one query and head at a time.

The scores of a query are one row of a buffer; no matrix of all scores is stored.  Everything is computed in the compute dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...codegen.loop_nest.vector_math import exp_float32_below
from ...native.front_end.vector_hints import add_in_any_order, larger, multiply_add
from ...native.jit.non_temporal import LINE_BYTES
from ...native.memory import Array, Element, generic
from ...native.prefetch import fetch
from ...native.status import OK
from ...native.templates import instantiate
from ..softmax.cpu import exp_float64

#: The parameters of the body: ``e ** x`` for x <= 0, and the compute dtype.
exponential: Any = None
number: Any = None
#: Elements of a head that are processed together, in a loop of a fixed length.
LANES = 32
#: How many rows ahead of its place a loop fetches: rows of a head are apart, so that the machine's own fetching begins anew in
#: each.
AHEAD = 16


@generic
def fetch_row(x: Array, j: int, b: int, h: int) -> None:
    """Ask for the row of a head at the position ``j``."""
    _, batch, heads, width = x.shape
    first = ((j * batch + b) * heads + h) * width
    for element in range(0, width, LINE_BYTES // x.itemsize):
        fetch(x, first + element)


@generic
def score(query: Array, key: Array, i: int, j: int, b: int, h: int, zero: Element) -> Element:
    """The product of the query ``i`` and the key ``j``."""
    width, total = query.shape[3], zero
    for first in range(0, width - LANES + 1, LANES):
        for lane in range(LANES):
            d = np.uint64(first + lane)
            total = add_in_any_order(total, query[i, b, h, d] * key[j, b, h, d])
    for last in range(width // LANES * LANES, width):
        total = add_in_any_order(total, query[i, b, h, np.uint64(last)] * key[j, b, h, np.uint64(last)])
    return total


@generic
def add_four(sums: Array, first: int, count: int, factors: Array, value: Array, j: int, b: int, h: int) -> None:
    """Add ``count`` elements from ``first`` on of four rows of values, each scaled by its factor."""
    f0, f1, f2, f3 = factors[j], factors[j + 1], factors[j + 2], factors[j + 3]
    for lane in range(count):
        e = np.uint64(first + lane)
        near = multiply_add(f1, value[j + 1, b, h, e], multiply_add(f0, value[j, b, h, e], sums[e]))
        sums[e] = multiply_add(f3, value[j + 3, b, h, e], multiply_add(f2, value[j + 2, b, h, e], near))


@generic
def add_rows(sums: Array, factors: Array, value: Array, b: int, h: int) -> None:
    """The sum of the rows of values, each scaled by its factor, into ``sums``."""
    n, width = value.shape[0], value.shape[3]
    whole = width // LANES * LANES
    for e in range(width):
        sums[e] = 0
    for j in range(0, n - 3, 4):
        for ahead in range(4):
            fetch_row(value, j + AHEAD + ahead, b, h)
        for first in range(0, whole, LANES):
            add_four(sums, first, LANES, factors, value, j, b, h)
        add_four(sums, whole, width - whole, factors, value, j, b, h)
    for j in range(n // 4 * 4, n):
        for e in range(width):
            sums[e] = multiply_add(factors[j], value[j, b, h, np.uint64(e)], sums[e])


@generic
def attention(query: Array, key: Array, value: Array, bias: Array, out: Array, scores: Array, sums: Array, scale: float) -> int:
    """``out[m, b, h, e]``; ``scores`` has room for the ``n`` scores of a query, ``sums`` for ``e`` elements."""
    m, batch, heads, _ = query.shape
    n, factor, zero = key.shape[0], number(scale), number(0)
    for b in range(batch):
        for h in range(heads):
            for i in range(m):
                for j in range(n):
                    fetch_row(key, j + AHEAD, b, h)
                    scores[j] = multiply_add(factor, score(query, key, i, j, b, h, zero), bias[b, h, i, np.uint64(j)])
                top, total = number(-np.inf), zero
                for j in range(n):
                    top = larger(top, scores[j])
                for j in range(n):
                    power = exponential(scores[j] - top)
                    scores[j] = power
                    total = add_in_any_order(total, power)
                add_rows(sums, scores, value, b, h)
                # an infinity or a NaN among the scores makes the result NaN; without keys it is a sum of nothing
                share = number(1) / total if top - top == zero else number(np.nan if n > 0 else 0.0)
                for e in range(value.shape[3]):
                    out[i, b, h, e] = sums[e] * share
    return OK


#: By the dtype of the query; "" stands for storage-only dtypes and float32.
ATTENTION = {
    "float64": instantiate(attention, "attention_float64", exponential=exp_float64, number=np.float64),
    "": instantiate(attention, "attention_float32", exponential=exp_float32_below, number=np.float32),
}
