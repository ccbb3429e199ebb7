"""Attention in which groups of heads share keys and values, with a bias of the scores, which may be capped.

By the tiles of matrix products for a band of queries, or one query at a time, as in ``batches``.  The bias is read as it is
broadcast: no matrix of all heads, or of all batches, is stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...codegen.loop_nest.vector_math import exp_float32_below, tanh_float32
from ...native.front_end.vector_hints import add_in_any_order, larger, multiply_add
from ...native.jit.products.operands import Rows
from ...native.jit.products.register_tile import PANEL_BYTES
from ...native.memory import Array, Axes, Element, generic
from ...native.status import OK
from ...native.templates import instantiate
from ..matmul.tiles import pack_columns
from ..shaped import Shaped
from ..softmax.cpu import exp_float64
from .batches import BAND, Packed, multiply_all, scale_rows, weigh, weigh_vectors, without_nan

#: The parameters of the bodies: those of ``batches``, the hyperbolic tangent, and the lowest finite number.
exponential: Any = None
number: Any = None
weighed: Any = None
of_scores: Any = None
tangent: Any = None
lowest: Any = None


@generic
def first_of_row(dims: Axes, batch: int, head: int, row: int) -> int:
    """The first element of a row of a bias ``[batch or 1, heads or 1, queries or 1, keys or 1]``."""
    outer = batch % dims[0] * dims[1] + head % dims[1]
    return (outer * dims[2] + row % dims[2]) * dims[3]


@generic
def cap_row(scores: Array, at: int, n: int, most: Element, part: Element, tangent: Callable[..., Any]) -> None:
    """Replace scores by ``most * tanh(score * part)``."""
    for j in range(n):
        scores[np.uint64(at + j)] = most * tangent(scores[np.uint64(at + j)] * part)


@generic
def add_row(
    scores: Array, at: int, n: int, bias: Array, first: int, count: int, factor: Element, lowest: Element, none: Element
) -> None:
    """Add a row of ``count`` biases, of ``n`` or of 1, times a factor: ``none``, which is -inf, and finite numbers stay such."""
    if count == n:
        for j in range(n):
            x = bias[np.uint64(first + j)]
            scores[np.uint64(at + j)] += larger(x * factor, lowest) if x > none else x
    else:
        x = bias[np.uint64(first)]
        shift = larger(x * factor, lowest) if x > none else x
        for j in range(n):
            scores[np.uint64(at + j)] += shift


@generic
def grouped_attention_tiles(
    query: Shaped, key: Shaped, value: Shaped, bias: Shaped, out: Shaped, low: int, high: int, queries: Array, packed: Packed,
    scores: Array, weights: Array, scale: float, cap: float, zero_nan: bool,
) -> int:  # fmt: skip
    """The bands ``low`` to ``high`` (exclusive) of all heads; consecutive bands of a group share its packed keys and values."""
    m, heads, d = query.dims[1], query.dims[2], query.dims[3]
    n, shared, e = value.dims[1], value.dims[2], value.dims[3]
    bands, last, factor, width = (m + BAND - 1) // BAND, -1, number(scale * of_scores), PANEL_BYTES // out.data.itemsize
    row = (n + width - 1) // width * width
    for unit in range(low, high):
        pair, band = unit // bands, unit % bands
        batch, head = pair // heads, pair % heads
        group = batch * shared + head // (heads // shared)
        if group != last:
            at = batch * n * shared + group % shared
            pack_columns(key.data, at * d, shared * d, d, n, packed.keys, (d + 1) * width, width, True)
            pack_columns(value.data, at * e, shared * e, n, e, packed.values, (n + 1) * width, width, False)
            last = group
        begin, end = band * m // bands, (band + 1) * m // bands
        first = (batch * m + begin) * heads + head
        scale_rows(query.data, first * d, heads * d, end - begin, d, factor, queries)
        multiply_all(Rows(queries, 0, d), packed.keys, Rows(scores, 0, row), end - begin, d, n, width)
        for i in range(end - begin):
            if cap > 0.0:
                cap_row(scores, i * row, n, number(cap * of_scores), number(1 / (cap * of_scores)), tangent)
            if n > 0:
                at = first_of_row(bias.dims, batch, head, begin + i)
                add_row(scores, i * row, n, bias.data, at, bias.dims[3], number(of_scores), number(lowest), number(-np.inf))
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
def grouped_attention_rows(
    query: Array, key: Array, value: Array, bias: Shaped, out: Array, scores: Array, sums: Array, scale: float, cap: float,
    zero_nan: bool,
) -> int:  # fmt: skip
    """One query at a time: ``scores`` has room for ``n`` scores, ``sums`` for ``e`` elements."""
    (batches, m, heads, d), (_, n, shared, e), factor = query.shape, value.shape, number(scale * of_scores)
    for b in range(batches):
        for h in range(heads):
            g = h // (heads // shared)
            for i in range(m):
                for j in range(n):
                    total = number(0)
                    for p in range(d):
                        total = add_in_any_order(total, number(query[b, i, h, np.uint64(p)]) * number(key[b, j, g, np.uint64(p)]))
                    scores[j] = total * factor
                if cap > 0.0:
                    cap_row(scores, 0, n, number(cap * of_scores), number(1 / (cap * of_scores)), tangent)
                if n > 0:
                    at = first_of_row(bias.dims, b, h, i)
                    add_row(scores, 0, n, bias.data, at, bias.dims[3], number(of_scores), number(lowest), number(-np.inf))
                weight = weighed(scores, 0, n, n, number(1), exponential, number)
                if zero_nan:
                    weight = without_nan(scores, 0, n, weight, number(0))
                for c in range(e):
                    sums[c] = number(0)
                for j in range(n):
                    for c in range(e):
                        sums[c] = multiply_add(scores[j], number(value[b, j, g, np.uint64(c)]), sums[c])
                for c in range(e):
                    out[b, i, h, c] = sums[c] * weight
    return OK


def _bodies(body: Any, name: str, **of_float32: Any) -> dict[str, Any]:
    """By the dtype of the queries; "" stands for storage-only dtypes and float32."""
    least = {dtype: float(np.finfo(dtype).min) for dtype in ("float32", "float64")}
    double = {"exponential": exp_float64, "number": np.float64, "tangent": math.tanh, "lowest": least["float64"]}
    single = {"exponential": exp_float32_below, "number": np.float32, "tangent": tanh_float32, "lowest": least["float32"]}
    plain = {"weighed": weigh, "of_scores": 1.0}
    return {
        "float64": instantiate(body, f"{name}_float64", **plain, **double),
        "": instantiate(body, f"{name}_float32", **{**plain, **single, **of_float32}),
    }


TILES = _bodies(grouped_attention_tiles, "grouped_attention_tiles", weighed=weigh_vectors, of_scores=math.log2(math.e))
ROWS = _bodies(grouped_attention_rows, "grouped_attention_rows")
