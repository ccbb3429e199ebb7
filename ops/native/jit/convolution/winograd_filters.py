"""The transformation of the weight of Winograd's convolution F(2x2, 3x3): a vector of filters that are neighbours."""

from __future__ import annotations

import operator
from typing import Any

from ...memory import set_machine_form, twin
from ..products.register_tile import panel_width
from .panel_row import PanelRow
from .winograd_tiles import TILE, WINDOW


@twin
def transform_filters(weight: Any, at: int, out: Any, to: int, step: int, count: int) -> None:
    """Store the 16 elements of ``G w G^T`` of ``count`` filters, at most a vector, ``step`` elements apart.

    Filters are neighbours, from ``weight[at]`` on.  Contiguous arrays of float32.
    """
    weight, out = weight.reshape(-1), out.reshape(-1)
    given = weight[int(at) : int(at) + int(count) * WINDOW * WINDOW].reshape(-1, WINDOW, WINDOW)
    half = given.dtype.type(0.5)
    results = _over_window(lambda y, x: given[:, y, x], operator.add, operator.sub, lambda a: a * half)
    for n, vector in enumerate(results):
        out[int(to + n * step) : int(to + n * step) + int(count)] = vector


def _of_filter(g: list[Any], add: Any, sub: Any, scale: Any) -> list[Any]:
    outer, inner = scale(add(g[0], g[2])), scale(g[1])
    return [g[0], add(outer, inner), sub(outer, inner), g[2]]


def _over_window(element: Any, add: Any, sub: Any, scale: Any) -> list[Any]:
    """The transformation along columns, then along rows, of ``element(y, x)``; by rows."""
    columns = [_of_filter([element(y, x) for y in range(WINDOW)], add, sub, scale) for x in range(WINDOW)]
    rows = [_of_filter([column[y] for column in columns], add, sub, scale) for y in range(TILE)]
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
    results = _over_window(element, b.fadd, b.fsub, lambda a: b.fmul(a, half))
    kept = below(count)
    for n, vector in enumerate(results):
        row.place = _place(emitter, out, b.add(to, b.mul(step, step.type(n))), row.vector)
        row.store_masked(vector, kept)


def _place(emitter: Any, array: Any, at: Any, kind: Any) -> Any:
    b = emitter.builder
    return b.bitcast(b.gep(array.parts[0], [at]), kind.as_pointer())


set_machine_form(transform_filters, lambda: _transform_filters)
