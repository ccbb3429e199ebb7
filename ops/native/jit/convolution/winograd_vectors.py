"""Transformations of Winograd's convolution F(2x2, 3x3) for a vector of tiles that are neighbours in a row.

A tile of 4 x 4 data gives 2 x 2 results.  The data are in phases: elements of even and of odd columns, and rows, are apart, so
that the same element of neighbouring tiles is a vector.
"""

from __future__ import annotations

import operator
from typing import Any

from ...memory import set_machine_form, twin
from ..product_tile import panel_width
from .panel_row import PanelRow

#: Elements of a tile along an axis, of its results, and of a window.
TILE, RESULTS, WINDOW = 4, 2, 3


@twin
def transform_filters(weight: Any, at: int, out: Any, to: int, step: int, count: int) -> None:
    """Store the 16 elements of ``G w G^T`` of ``count`` filters, at most a vector, ``step`` elements apart.

    Filters are neighbours, from ``weight[at]`` on.  Contiguous arrays of float32.
    """
    weight, out = weight.reshape(-1), out.reshape(-1)
    given = weight[int(at) : int(at) + int(count) * WINDOW * WINDOW].reshape(-1, WINDOW, WINDOW)
    half = given.dtype.type(0.5)
    results = _over_tile(lambda y, x: given[:, y, x], _of_filter, WINDOW, scale=lambda a: a * half)
    for n, vector in enumerate(results):
        out[int(to + n * step) : int(to + n * step) + int(count)] = vector


@twin
def transform_data(data: Any, at: int, phase: int, pitch: int, out: Any, to: int, step: int) -> None:
    """Store the 16 elements of ``B^T d B`` of a vector of tiles, ``step`` elements apart.

    Element ``(y, x)`` of tile ``j`` is ``data[at + (y % 2 * 2 + x % 2) * phase + y // 2 * pitch + x // 2 + j]``.  Contiguous
    arrays of float32.
    """
    data, out = data.reshape(-1), out.reshape(-1)
    lanes = panel_width(out.itemsize)

    def row(y: int, x: int) -> Any:
        first = int(at + (y % 2 * 2 + x % 2) * phase + y // 2 * pitch + x // 2)
        return data[first : first + lanes]

    for n, vector in enumerate(_over_tile(row, _of_data)):
        out[int(to + n * step) : int(to + n * step) + lanes] = vector


@twin
def transform_sums(sums: Any, at: int, step: int, out: Any, to: int, below: int) -> None:
    """Store ``A^T m A`` of a vector of tiles: result ``(y, x)`` of tile ``j`` is ``out[to + y * below + 2 * j + x]``.

    ``m`` has 16 elements, vectors that are ``step`` elements apart.  Contiguous arrays of float32.
    """
    sums, out = sums.reshape(-1), out.reshape(-1)
    lanes = panel_width(out.itemsize)

    def row(y: int, x: int) -> Any:
        first = int(at + (y * TILE + x) * step)
        return sums[first : first + lanes]

    results = _over_tile(row, _of_sums)
    for n, vector in enumerate(results):
        first = int(to + n // RESULTS * below + n % RESULTS)
        out[first : first + 2 * lanes - 1 : 2] = vector


def _of_filter(g: list[Any], add: Any, sub: Any, scale: Any) -> list[Any]:
    outer, inner = scale(add(g[0], g[2])), scale(g[1])
    return [g[0], add(outer, inner), sub(outer, inner), g[2]]


def _of_data(d: list[Any], add: Any, sub: Any, scale: Any) -> list[Any]:
    return [sub(d[0], d[2]), add(d[1], d[2]), sub(d[2], d[1]), sub(d[1], d[3])]


def _of_sums(m: list[Any], add: Any, sub: Any, scale: Any) -> list[Any]:
    return [add(add(m[0], m[1]), m[2]), sub(sub(m[1], m[2]), m[3])]


def _over_tile(
    element: Any, transform: Any, size: int = TILE, add: Any = operator.add, sub: Any = operator.sub, scale: Any = None
) -> list[Any]:
    """The transformation along columns, then along rows, of ``element(y, x)``, as many as ``size`` along each; by rows."""
    columns = [transform([element(y, x) for y in range(size)], add, sub, scale) for x in range(size)]
    rows = [transform([column[y] for column in columns], add, sub, scale) for y in range(len(columns[0]))]
    return [value for row in rows for value in row]


def _transform_filters(emitter: Any, weight: Any, at: Any, out: Any, to: Any, step: Any, count: Any) -> None:
    from llvmlite import ir

    row = PanelRow(emitter, out, to)
    b, word, number, lanes = row.builder, emitter.word, ir.IntType(32), panel_width(4)
    at, to, step, count = map(word, (at, to, step, count))
    taps = WINDOW * WINDOW

    def below(end: Any) -> Any:
        numbers = ir.VectorType(end.type, lanes)
        return b.icmp_signed("<", ir.Constant(numbers, list(range(lanes))), row.splat(end, numbers))

    end = b.mul(count, count.type(taps))
    loaded = [
        row.load(
            "load", _place(emitter, weight, b.add(at, at.type(n * lanes)), row.vector), below(b.sub(end, end.type(n * lanes)))
        )
        for n in range(taps)
    ]

    def element(y: int, x: int) -> Any:
        """The element of every filter: some lanes of each vector."""
        found = row.zero
        for n, vector in enumerate(loaded):
            places = [taps * j + y * WINDOW + x - n * lanes for j in range(lanes)]
            order = [lanes + p if 0 <= p < lanes else j for j, p in enumerate(places)]
            found = b.shuffle_vector(found, vector, ir.Constant(ir.VectorType(number, lanes), order))
        return found

    half = ir.Constant(row.vector, [0.5] * lanes)
    results = _over_tile(element, _of_filter, WINDOW, b.fadd, b.fsub, lambda a: b.fmul(a, half))
    kept = below(count)
    for n, vector in enumerate(results):
        row.place = _place(emitter, out, b.add(to, b.mul(step, step.type(n))), row.vector)
        row.store_masked(vector, kept)


def _vector(emitter: Any, array: Any) -> tuple[Any, Any]:
    from llvmlite import ir

    element = array.parts[0].type.pointee
    return ir.VectorType(element, panel_width(4)), emitter.builder


def _place(emitter: Any, array: Any, at: Any, kind: Any) -> Any:
    b = emitter.builder
    return b.bitcast(b.gep(array.parts[0], [at]), kind.as_pointer())


def _transform_data(emitter: Any, data: Any, at: Any, phase: Any, pitch: Any, out: Any, to: Any, step: Any) -> None:
    word = emitter.word
    kind, b = _vector(emitter, out)
    at, phase, pitch, to, step = map(word, (at, phase, pitch, to, step))

    def element(y: int, x: int) -> Any:
        n = at.type
        first = b.add(b.add(at, b.mul(phase, n(y % 2 * 2 + x % 2))), b.add(b.mul(pitch, n(y // 2)), n(x // 2)))
        return b.load(_place(emitter, data, first, kind), align=4)

    for n, vector in enumerate(_over_tile(element, _of_data, TILE, b.fadd, b.fsub)):
        b.store(vector, _place(emitter, out, b.add(to, b.mul(step, to.type(n))), kind), align=4)


def _transform_sums(emitter: Any, sums: Any, at: Any, step: Any, out: Any, to: Any, below: Any) -> None:
    from llvmlite import ir

    word = emitter.word
    kind, b = _vector(emitter, out)
    at, step, to, below = map(word, (at, step, to, below))

    def element(y: int, x: int) -> Any:
        return b.load(_place(emitter, sums, b.add(at, b.mul(step, at.type(y * TILE + x))), kind), align=4)

    lanes, number = panel_width(4), ir.IntType(32)
    results = _over_tile(element, _of_sums, TILE, b.fadd, b.fsub)
    for y in range(RESULTS):
        pair = results[y * RESULTS : (y + 1) * RESULTS]
        for half in range(2):
            order = [half * lanes // 2 + n // 2 + n % 2 * lanes for n in range(lanes)]
            mixed = b.shuffle_vector(*pair, ir.Constant(ir.VectorType(number, lanes), order))
            first = b.add(b.add(to, b.mul(below, to.type(y))), to.type(half * lanes))
            b.store(mixed, _place(emitter, out, first, kind), align=4)


set_machine_form(transform_filters, lambda: _transform_filters)
set_machine_form(transform_data, lambda: _transform_data)
set_machine_form(transform_sums, lambda: _transform_sums)
