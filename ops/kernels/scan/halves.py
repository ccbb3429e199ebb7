"""Cumulative sums and products as halves on the CPU: added in float64, each result rounded separately.

Along a row that is contiguous a vector of elements is added to itself, 1, 2, 4, ... lanes apart; the last lane goes on to the
next vector.  Otherwise neighbouring columns are lanes.
"""

from __future__ import annotations

import numpy as np

from ...native.memory import Array, Element, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.status import OK
from ...native.vector_registers import vector_bytes
from ...native.vectors import Vector, lanes_below, load, select, shuffle, splat, store

#: Vectors of columns that are added together: a cache line of halves with AVX-512.
_VECTORS = 4


@at_compile_time
def lanes_of_sums() -> int:
    """The numbers of float64 in a vector register."""
    return vector_bytes() // 8


@at_compile_time
def distances(lanes: int) -> tuple[int, ...]:
    """The powers of 2 below a power of 2."""
    return tuple(1 << n for n in range(lanes.bit_length() - 1))


@at_compile_time
def later(lanes: int, apart: int) -> tuple[int, ...]:
    """The lanes of two vectors that are ``apart`` lanes before those of the second one."""
    return tuple(range(lanes - apart, 2 * lanes - apart))


@at_compile_time
def last(lanes: int) -> tuple[int, ...]:
    """The last lane of a vector, in all lanes."""
    return (lanes - 1,) * lanes


@generic
def combined(a: Vector, b: Vector, is_product: bool) -> Vector:
    """The sum or the product."""
    return a * b if is_product else a + b


@generic
def accumulate(
    data: Array, out: Array, at: int, step: int, count: int, total: Element, exclusive: bool, is_product: bool
) -> None:
    """The sum (or product) of ``total`` and of ``count`` elements from ``at`` on, ``step`` elements apart, up to each."""
    for j in range(count):
        place = np.uint64(at + j * step)
        following = total * data[place] if is_product else total + data[place]
        out[place] = total if exclusive else following
        total = following


@generic
def cumulate_to_halves(data: Array, out: Array, exclusive: bool, is_product: bool) -> int:
    """``cumulate`` of elements of any dtype into halves."""
    outer, n, inner = data.shape
    given, results = data.reshape(-1), out.reshape(-1)
    for o in range(outer):
        for i in range(inner):
            accumulate(given, results, o * n * inner + i, inner, n, 1.0 if is_product else 0.0, exclusive, is_product)
    return OK


@generic
def cumulate_halves(data: Array, out: Array, exclusive: bool, is_product: bool) -> int:
    """``cumulate`` of halves into halves."""
    outer, n, inner = data.shape
    given, results, lanes = data.reshape(-1), out.reshape(-1), lanes_of_sums()
    for o in range(outer):
        if inner == 1:
            _row(given, results, o * n, n, exclusive, is_product)
        else:
            at, wide = o * n * inner, inner & -(_VECTORS * lanes)
            _columns(given, results, at, wide, n, inner, static(_VECTORS), exclusive, is_product)
            whole = inner & -lanes
            _columns(given, results, at + wide, whole - wide, n, inner, static(1), exclusive, is_product)
            for i in range(whole, inner):
                accumulate(given, results, at + i, inner, n, 1.0 if is_product else 0.0, exclusive, is_product)
    return OK


@generic
def _row(data: Array, out: Array, at: int, n: int, exclusive: bool, is_product: bool) -> None:
    """``n`` neighbouring elements."""
    lanes = lanes_of_sums()
    neutral = splat(np.float64(1.0 if is_product else 0.0), lanes)
    before, whole = neutral, n & -lanes
    for j in range(0, whole, lanes):
        run = _run(load(data, at + j, lanes).astype(np.float64), before, neutral, is_product)
        store(out, at + j, (shuffle(before, run, later(lanes, 1)) if exclusive else run).astype(np.float32))
        before = shuffle(run, run, last(lanes))
    if n < lanes:
        accumulate(data, out, at, 1, n, before[0], exclusive, is_product)
    elif whole < n:
        # the last vector, of whose lanes some have their results
        place, known = at + n - lanes, lanes_below(lanes - (n - whole), lanes)
        run = _run(select(known, neutral, load(data, place, lanes).astype(np.float64)), before, neutral, is_product)
        found = (shuffle(before, run, later(lanes, 1)) if exclusive else run).astype(np.float32)
        store(out, place, select(known, load(out, place, lanes), found))


@generic
def _run(run: Vector, before: Vector, neutral: Vector, is_product: bool) -> Vector:
    """The sums (or products) up to each lane, with that of all elements before."""
    lanes = len(run)
    for apart in distances(lanes):
        run = combined(shuffle(neutral, run, later(lanes, apart)), run, is_product)
    return combined(before, run, is_product)


@generic
def _columns(
    data: Array, out: Array, at: int, columns: int, n: int, inner: int, vectors: int, exclusive: bool, is_product: bool
) -> None:
    """Neighbouring columns from ``at`` on, some vectors at a time; ``inner`` elements are between those of a column."""
    lanes = lanes_of_sums()
    for first in range(0, columns, vectors * lanes):
        totals = [splat(np.float64(1.0 if is_product else 0.0), lanes)] * vectors
        for j in range(n):
            for v in static_range(vectors):
                place = at + j * inner + first + v * lanes
                following = combined(totals[v], load(data, place, lanes).astype(np.float64), is_product)
                found = totals[v] if exclusive else following
                store(out, place, found.astype(np.float32))
                totals[v] = following
