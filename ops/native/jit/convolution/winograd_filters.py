"""The transformation of the weight of Winograd's convolution of a window of 3 x 3: a vector of filters that are neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from ...memory import Array, generic
from ...static_values import at_compile_time, static_range
from ...vectors import Vector, lanes_below, load_some, shuffle, splat, store_some
from ..products.register_tile import panel_width
from .winograd_axis import FILTERS, MOST_STRIDE, WINDOW

TAPS = WINDOW * WINDOW


@generic
def _of_axis(g: Sequence[Vector], stride: int) -> list[Vector]:
    """The transformed elements of a window (see ``winograd_axis``)."""
    if stride == 2:
        return [g[0], g[0] + g[2], g[2], g[1]]
    outer, inner = (g[0] + g[2]) * 0.5, g[1] * 0.5
    return [g[0], outer + inner, outer - inner, g[2]]


@generic
def of_window(taps: Sequence[Vector], stride: int) -> list[list[Vector]]:
    """The rows of ``G w G^T``: the elements along columns are transformed, then those along rows.  ``stride`` is static."""
    columns = [_of_axis([taps[y * WINDOW + x] for y in static_range(WINDOW)], stride) for x in static_range(WINDOW)]
    return [_of_axis([columns[column][row] for column in static_range(WINDOW)], stride) for row in static_range(FILTERS)]


@at_compile_time
def _lanes_of_tap(lanes: int, tap: int, vector: int) -> tuple[int, ...]:
    """The lanes of a tap of every filter, as far as found, and those that one more vector of the weight has."""
    positions = [TAPS * j + tap - vector * lanes for j in range(lanes)]
    return tuple(lanes + p if 0 <= p < lanes else j for j, p in enumerate(positions))


@generic
def _tap(loaded: Sequence[Vector], tap: int) -> Vector:
    """An element of every filter: some lanes of each vector."""
    lanes = len(loaded[0])
    found = splat(loaded[0].dtype.type(0), lanes)
    for n in static_range(TAPS):
        found = shuffle(found, loaded[n], _lanes_of_tap(lanes, tap, n))
    return found


@generic
def _transform(weight: Array, at: int, out: Array, to: int, step: int, count: int, stride: int) -> None:
    lanes = panel_width(4)
    nothing, end = splat(weight.dtype.type(0), lanes), count * TAPS
    loaded = [load_some(weight, at + n * lanes, lanes_below(end - n * lanes, lanes), nothing) for n in static_range(TAPS)]
    rows = of_window([_tap(loaded, tap) for tap in static_range(TAPS)], stride)
    for n in static_range(FILTERS * FILTERS):
        store_some(out, to + n * step, rows[n // FILTERS][n % FILTERS], lanes_below(count, lanes))


@generic
def transform_filters(weight: Array, at: int, out: Array, to: int, step: int, count: int, stride: int) -> None:
    """Store the 16 elements of ``G w G^T`` of ``count`` filters, at most a panel's width, ``step`` elements apart.

    Filters are neighbours, from ``weight[at]`` on, of a convolution with a stride of at most MOST_STRIDE.  Contiguous arrays of
    float32.
    """
    for n in static_range(1, MOST_STRIDE + 1):
        if stride == n:
            _transform(weight, at, out, to, step, count, n)
