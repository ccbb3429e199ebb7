"""Attention with the batch as the first axis: by the tiles of matrix products for a band of queries, or one query at a time.

The scores of a band, or of a query, are a buffer; no matrix of all scores is stored.  The queries of a band, or the scores of a
query, are scaled, and exponentials added, in the compute dtype; the sums of runs of exponentials are added in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...codegen.loop_nest.reduction import RUN
from ...codegen.loop_nest.vector_math import exp_float32_below
from ...native.front_end.vector_hints import add_in_any_order, larger, multiply_add
from ...native.jit.products.operands import Panels, Rows
from ...native.jit.products.register_tile import GROUP_PANELS, PANEL_BYTES
from ...native.jit.row_powers import largest, powers_of_two
from ...native.memory import Array, Element, generic
from ...native.status import OK
from ...native.templates import instantiate
from ..matmul.tiles import multiply_band, pack_columns
from ..shaped import Shaped
from ..softmax.cpu import exp_float64

#: The parameters of the bodies: ``e ** x`` for x <= 0, the compute dtype, ``weigh`` for its scores, and the factor of these.
exponential: Any = None
number: Any = None
weighed: Any = None
of_scores: Any = None
#: Numbers that fill a vector are so far below the largest score: the sum, at least 1, absorbs their exponentials, which are not
#: subnormal.
BELOW = 80.0
#: Queries of a band: their scores fit the second cache.
BAND = 48


@generic
def weigh(
    scores: Array, at: int, n: int, row: int, factor: Element, exponential: Callable[..., Any], number: Callable[..., Any]
) -> Element:
    """Replace ``n`` scores from ``at`` on, scaled by ``factor``, by exponentials; return the factor that makes their sum 1.

    Behind them is room for ``row`` numbers in all: whole vectors, since exponentials of single elements would take as long.
    """
    top, total = number(-np.inf), 0.0
    for j in range(n):
        top = larger(top, scores[np.uint64(at + j)] * factor)
    width = PANEL_BYTES // scores.itemsize
    whole = n // width * width
    for start in range(0, whole, RUN):
        run = number(0)
        for k in range(min(RUN, whole - start)):
            place = np.uint64(at + start + k)
            power = exponential(scores[place] * factor - top)
            scores[place] = power
            run = add_in_any_order(run, power)
        total += np.float64(run)
    for k in range(n, row):  # nobody has written there, and vectors are computed whole
        scores[np.uint64(at + k)] = 0
    last = number(0)
    for k in range(row - whole):  # apart: comparing places takes half as long as exponentials
        place = np.uint64(at + whole + k)
        power = exponential(scores[place] * factor - top if whole + k < n else number(-BELOW))
        scores[place] = power
        last = add_in_any_order(last, power)
    total += np.float64(last)
    # an infinity or a NaN among the scores makes the result NaN; without keys it is a sum of nothing
    return number(1.0 / total) if top - top == number(0) else number(np.nan if n > 0 else 0.0)


@generic
def weigh_vectors(
    scores: Array, at: int, n: int, row: int, factor: Element, exponential: Callable[..., Any], number: Callable[..., Any]
) -> Element:
    """``weigh`` of float32 in whole vectors, of scores in units of ln 2: powers of 2 are the exponentials."""
    top, total = largest(scores, at, n), 0.0
    for start in range(0, n, RUN):
        total += np.float64(powers_of_two(scores, at + start, min(RUN, n - start), top))
    return number(1.0 / total) if top - top == number(0) else number(np.nan if n > 0 else 0.0)


@generic
def multiply_all(a: Rows, panels: Array, out: Rows, m: int, inner: int, n: int, width: int) -> None:
    """``out[m, n] = a[m, inner] @ b``, with all of ``b`` in panels that are a line longer (see ``tiles.products``)."""
    step, group = (inner + 1) * width, GROUP_PANELS * width
    for column in range(0, n, group):
        part, to = Panels(panels, column // width * step, step, width), Rows(out.data, out.at + column, out.step)
        multiply_band(a, part, to, m, inner, min(group, n - column), 0)


@generic
def scale_rows(a: Array, at: int, row: int, m: int, inner: int, factor: Element, out: Array) -> None:
    """``out[i * inner + p] = a[at + i * row + p] * factor``: rows that follow each other share no sets of a cache."""
    for i in range(m):
        for p in range(inner):
            out[np.uint64(i * inner + p)] = a[np.uint64(at + i * row + p)] * factor


@generic
def without_nan(scores: Array, at: int, n: int, weight: Element, zero: Element) -> Element:
    """The weight of a row of powers; for NaN, the row is 0, and its weight."""
    if weight == weight:
        return weight
    for j in range(n):
        scores[np.uint64(at + j)] = zero
    return zero


class Packed(NamedTuple):
    """The keys and the values of a head in panels."""

    keys: Array
    values: Array


@generic
def attention_tiles(
    query: Shaped, key: Shaped, value: Shaped, out: Shaped, low: int, high: int, queries: Array, packed: Packed, scores: Array,
    weights: Array, scale: float, zero_nan: bool,
) -> int:  # fmt: skip
    """The bands ``low`` to ``high`` (exclusive) of all heads; consecutive bands of a head share its packed keys and values."""
    m, heads, d, n, e = query.dims[1], query.dims[2], query.dims[3], value.dims[1], value.dims[3]
    bands, last, factor, width = (m + BAND - 1) // BAND, -1, number(scale * of_scores), PANEL_BYTES // out.data.itemsize
    row = (n + width - 1) // width * width
    for unit in range(low, high):
        pair, band = unit // bands, unit % bands
        batch, head = pair // heads, pair % heads
        if pair != last:
            at = batch * n * heads + head
            pack_columns(key.data, at * d, heads * d, d, n, packed.keys, (d + 1) * width, width, True)
            pack_columns(value.data, at * e, heads * e, n, e, packed.values, (n + 1) * width, width, False)
            last = pair
        begin, end = band * m // bands, (band + 1) * m // bands
        first = (batch * m + begin) * heads + head
        scale_rows(query.data, first * d, heads * d, end - begin, d, factor, queries)
        multiply_all(Rows(queries, 0, d), packed.keys, Rows(scores, 0, row), end - begin, d, n, width)
        for i in range(end - begin):
            weights[i] = weighed(scores, i * row, n, row, number(1), exponential, number)
            if zero_nan:
                weights[i] = without_nan(scores, i * row, row, weights[i], number(0))
        to = Rows(out.data, first * e, heads * e)
        multiply_all(Rows(scores, 0, row), packed.values, to, end - begin, n, e, width)
        for i in range(end - begin):
            for c in range(e):
                place = np.uint64((first + i * heads) * e + c)
                out.data[place] = out.data[place] * weights[i]
    return OK


@generic
def attention_rows(
    query: Array, key: Array, value: Array, out: Array, scores: Array, sums: Array, scale: float, zero_nan: bool
) -> int:
    """One query at a time: ``scores`` has room for ``n`` scores, ``sums`` for ``e`` elements."""
    (batches, m, heads, d), (_, n, _, e) = query.shape, value.shape
    for b in range(batches):
        for h in range(heads):
            for i in range(m):
                for j in range(n):
                    total = number(0)
                    for p in range(d):
                        total = add_in_any_order(total, number(query[b, i, h, np.uint64(p)]) * number(key[b, j, h, np.uint64(p)]))
                    scores[j] = total
                share = weighed(scores, 0, n, n, number(scale), exponential, number)
                if zero_nan:
                    share = without_nan(scores, 0, n, share, number(0))
                for c in range(e):
                    sums[c] = number(0)
                for j in range(n):
                    for c in range(e):
                        sums[c] = multiply_add(scores[j], number(value[b, j, h, np.uint64(c)]), sums[c])
                for c in range(e):
                    out[b, i, h, c] = sums[c] * share
    return OK


def _bodies(body: Any, name: str, **of_float32: Any) -> dict[str, Any]:
    """By the dtype of the queries; "" stands for storage-only dtypes and float32."""
    return {
        "float64": instantiate(body, f"{name}_float64", exponential=exp_float64, number=np.float64, weighed=weigh, of_scores=1.0),
        "": instantiate(
            body,
            f"{name}_float32",
            **{"exponential": exp_float32_below, "number": np.float32, "weighed": weigh, "of_scores": 1.0, **of_float32},
        ),
    }


TILES = _bodies(attention_tiles, "batch_attention_tiles", weighed=weigh_vectors, of_scores=math.log2(math.e))
ROWS = _bodies(attention_rows, "batch_attention_rows")
