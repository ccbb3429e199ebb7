"""The transformation of the weight of Winograd's convolution of a window of 3 x 3: a vector of filters that are neighbours."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...memory import set_machine_form, twin
from ..products.register_tile import panel_width
from .panel_row import PanelRow
from .winograd_axis import FILTERS, WINDOW, of_filter


@twin
def transform_filters(weight: Any, at: int, out: Any, to: int, step: int, count: int) -> None:
    """Store the 16 elements of ``G w G^T`` of ``count`` filters, at most a vector, ``step`` elements apart.

    Filters are neighbours, from ``weight[at]`` on.  Contiguous arrays of float32.
    """
    _store_filters(1, weight.reshape(-1), at, out.reshape(-1), to, step, count)


@twin
def transform_strided_filters(weight: Any, at: int, out: Any, to: int, step: int, count: int) -> None:
    """As ``transform_filters``, for a convolution with stride 2."""
    _store_filters(2, weight.reshape(-1), at, out.reshape(-1), to, step, count)


def _store_filters(stride: int, weight: Any, at: int, out: Any, to: int, step: int, count: int) -> None:
    given = weight[int(at) : int(at) + int(count) * WINDOW * WINDOW].reshape(-1, WINDOW, WINDOW)
    half = given.dtype.type(0.5)
    results = _over_window(stride, lambda y, x: given[:, y, x], operator.add, operator.sub, lambda a: a * half)
    for n, vector in enumerate(results):
        out[int(to + n * step) : int(to + n * step) + int(count)] = vector


def _over_window(stride: int, element: Any, add: Any, sub: Any, half: Any) -> list[Any]:
    """The transformation along columns, then along rows, of ``element(y, x)``; by rows."""
    columns = [of_filter(stride, [element(y, x) for y in range(WINDOW)], add, sub, half) for x in range(WINDOW)]
    rows = [of_filter(stride, [column[y] for column in columns], add, sub, half) for y in range(FILTERS)]
    return [value for row in rows for value in row]


def _machine(stride: int) -> Callable[[], Any]:
    def form(emitter: Any, weight: Any, at: Any, out: Any, to: Any, step: Any, count: Any) -> None:
        _transform_filters(stride, emitter, weight, at, out, to, step, count)

    return lambda: form


def _transform_filters(stride: int, emitter: Any, weight: Any, at: Any, out: Any, to: Any, step: Any, count: Any) -> None:
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
    results = _over_window(stride, element, b.fadd, b.fsub, lambda a: b.fmul(a, half))
    kept = below(count)
    for n, vector in enumerate(results):
        row.place = _place(emitter, out, b.add(to, b.mul(step, step.type(n))), row.vector)
        row.store_masked(vector, kept)


def _place(emitter: Any, array: Any, at: Any, kind: Any) -> Any:
    b = emitter.builder
    return b.bitcast(b.gep(array.parts[0], [at]), kind.as_pointer())


set_machine_form(transform_filters, _machine(1))
set_machine_form(transform_strided_filters, _machine(2))
