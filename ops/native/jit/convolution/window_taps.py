"""Weighted sums over square windows of data without padding, in vector registers: each row of the data is read once.

Sums advance down a strip of columns, as wide as a vector.  A row of the data adds to the sums of all windows that have this row:
registers hold the row, the weights and a few vectors of sums.  ``data_taps`` has windows of any size: rows of the data are
read again for each column of a window, and places and masks are computed again for each of these columns.

Strips of rows that have at most half of the lanes of a vector are half as wide: fewer stores cross a cache line, and some
processors compute two such vectors at once.

An element of the result is the sum of its window's rows, from the first on; a row is one sum along it.  One sum of all
products would wait for each of them: a processor begins so few windows meanwhile that windows take longer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...inlining import keep_short, shared
from ...memory import Array, Axes, Element, generic
from ...prefetch import fetch, fetch_to_write
from ...static_values import at_compile_time, static_range
from ...vectors import (
    Mask,
    Vector,
    from_element,
    fused_multiply_add,
    hidden,
    is_element,
    load,
    load_some,
    select,
    shifted,
    shuffle,
    splat,
    store,
    store_some,
)
from .data_taps import MOST_STEP
from .image_rows import Image, Results, Weights, every_lane, flat_image, flat_results, flat_weights
from .tap_vectors import by_column, every_second, first_lanes, has_mask_registers, lanes_inside, lanes_of

#: Rows and columns of a window, and of a large one.
WINDOW, LARGE_WINDOW = 3, 5
#: Elements of the data in rows of windows that are computed together, and as many are fetched meanwhile.
BLOCK = 1024


class Windows(NamedTuple):
    """Windows of ``size`` rows and columns, ``step`` rows and columns apart; the first begins at ``row`` and ``column``."""

    row: int
    column: int
    step: int
    size: int


class Planes(NamedTuple):
    """The number of planes; the elements from the data, weights and results of a plane to those of the next.

    ``later``: the elements from a result to the one that is fetched meanwhile.
    """

    number: int
    data: int
    weights: int
    out: int
    later: int


class Limits(NamedTuple):
    """An addend for the sums of each plane, from element ``at`` on, and the bounds of a sum with it.

    Unless sums are limited, addends are not read, and the bounds are infinite.
    """

    addends: Array
    at: int
    low: Element
    high: Element
    is_limited: bool


@generic
def add_windows(image: Image, windows: Windows, weights: Weights, out: Results, planes: Planes, limits: Limits) -> None:
    """Compute ``out[y, x] = sum of weight[t, u] * data[row + y * step + t, column + x * step + u]`` for some planes.

    ``t`` and ``u`` below ``size``, which is WINDOW or LARGE_WINDOW; ``step`` 1 to MOST_STEP.  The result has at least one row
    and one column.  A sum with the addend is limited; a sum that is NaN stays NaN.  Contiguous arrays of one dtype, float32 or
    float64.
    """
    number, lanes = out.data.dtype.type, lanes_of(out.data.itemsize)
    bounds = Limits(limits.addends.reshape(-1), limits.at, number(limits.low), number(limits.high), limits.is_limited)
    halvings = 1 if has_mask_registers() and 2 * out.columns <= lanes else 0
    for size in static_range(WINDOW, LARGE_WINDOW + 1, LARGE_WINDOW - WINDOW):
        for n in static_range(1, MOST_STEP + 1):
            for halved in static_range(2 if has_mask_registers() else 1):
                if windows.size == size and windows.step == n and halvings == halved:
                    of_kind, data, results = Windows(windows.row, windows.column, n, size), flat_image(image), flat_results(out)
                    window_sums(data, of_kind, flat_weights(weights), results, planes, bounds, lanes >> halved)


@shared
@generic
def window_sums(
    image: Image, windows: Windows, weights: Weights, out: Results, planes: Planes, limits: Limits, lanes: int
) -> None:
    """As ``add_windows``, for a static step and size, in vectors of a static number of lanes.

    The last strip of a plane ends with the row: elements that are computed twice have the same bits.
    """
    keep_short()
    addend = out.data.dtype.type(-0.0)
    offsets = _offsets(windows.step, windows.size, lanes)
    for plane in range(planes.number):
        of_plane, x = Weights(weights.data, weights.at + plane * planes.weights, weights.step), 0
        factors = [every_lane(of_plane, n, lanes) for n in static_range(windows.size * windows.size)]
        if limits.is_limited:
            addend = limits.addends[np.uint64(limits.at + plane)]
        bounds = [splat(addend, lanes), splat(limits.low, lanes), splat(limits.high, lanes)]
        data = Image(image.data, image.at + plane * planes.data, image.height, image.width, image.zeros)
        results = Results(out.data, out.at + plane * planes.out, out.rows, out.columns)
        while x < out.columns:
            along = windows.column + x * windows.step
            if 0 <= along <= image.width - (offsets[len(offsets) - 1] + lanes):
                _strip(data, windows, along, [], factors, results, x, planes.later, bounds)
            else:
                masks = [lanes_inside(along, image.width, offsets[n], lanes) for n in static_range(len(offsets))]
                _strip(data, windows, along, masks, factors, results, x, planes.later, bounds)
            following, last = x + lanes, out.columns - lanes
            x = last if 0 <= last < following < out.columns else following


@generic
def _strip(
    image: Image, windows: Windows, along: int, masks: list[Mask], factors: list[Vector], out: Results, x: int, later: int,
    bounds: list[Vector],
) -> None:  # fmt: skip
    """Store the sums of a strip of columns from ``x`` on, whose first window begins at column ``along``.

    ``masks``: the lanes of each vector of a row that are inside the data; none: all lanes are.
    """
    step, size, lanes = windows.step, windows.size, len(bounds[0])
    kept = (size - 1) // step  # the windows that have a row of the next one
    sums = [splat(out.data.dtype.type(0), lanes)] * (kept + 1)
    row, data = windows.row, shifted(image.data, image.at + windows.row * image.width + along)
    results, left = from_element(out.data, out.at + x), out.rows * out.columns - x
    for t in static_range(size - step):
        _add_row(sums, t, image, row, data, masks, factors, windows)
        row, data = row + 1, shifted(data, image.width)
    for _ in range(out.rows):
        data, results = hidden(data), hidden(results)
        for t in static_range(size - step, size):
            _add_row(sums, t, image, row, data, masks, factors, windows)
            row, data = row + 1, shifted(data, image.width)
        fetch_to_write(results, later)
        _store(results, left, sums[0], bounds, step)
        results, left = from_element(results, out.columns), left - out.columns
        for n in static_range(kept):
            sums[n] = sums[n + 1]


@generic
def _add_row(
    sums: list[Vector], t: int, image: Image, row: int, data: Array, masks: list[Mask], factors: list[Vector], windows: Windows
) -> None:
    """Add row ``t`` of the first window to the sums, and begin the sum of the window whose first row it is.

    A row outside adds nothing, -0, which leaves every sum as it is; or it is read from zeros.
    """
    step = windows.step
    fetch(data, BLOCK)
    if reads_zeros(windows.size, step):
        operands = _operands(data if is_element(row, image.height) else image.zeros, masks, windows, len(factors[0]))
        for n in static_range(t):
            sums[n] = sums[n] + _row_sum(operands, factors, t - n)
        sums[t] = _row_sum(operands, factors, t - t)
        return
    if t % step == 0:
        sums[t // step] = splat(data.dtype.type(-0.0), len(factors[0]))
    if is_element(row, image.height):
        operands = _operands(data, masks, windows, len(factors[0]))
        for n in static_range(t // step + 1):
            sums[n] = sums[n] + _row_sum(operands, factors, t - n * step)


@at_compile_time
def reads_zeros(size: int, step: int) -> bool:
    """Whether a row outside the data is read from zeros: of 16 registers a branch around a row leaves too few to the sums.

    Larger windows, and two vectors for each column, take longer to add than the branch.
    """
    return size == WINDOW and step == 1 and not has_mask_registers()


@generic
def _row_sum(operands: list[Vector], factors: list[Vector], t: int) -> Vector:
    """The products of row ``t`` of windows, added along it."""
    total = factors[t * len(operands)] * operands[0]
    for u in static_range(1, len(operands)):
        total = fused_multiply_add(factors[t * len(operands) + u], operands[u], total)
    return total


@at_compile_time
def _offsets(step: int, size: int, lanes: int) -> tuple[int, ...]:
    """The first elements of the vectors that are loaded of a row."""
    return tuple(u + part * lanes for u in range(0, size, step) for part in range(step))


@generic
def _operands(data: Array, masks: list[Mask], windows: Windows, lanes: int) -> list[Vector]:
    """The elements of a row for each column of the window; 0 where a mask is not set."""
    offsets = _offsets(windows.step, windows.size, lanes)
    if len(masks) == 0:
        row = [load(data, offsets[n], lanes) for n in static_range(len(offsets))]
    else:
        zero = splat(data.dtype.type(0), lanes)
        row = [load_some(data, offsets[n], masks[n], zero) for n in static_range(len(offsets))]
    if windows.step == 1:
        return row
    return [shuffle(row[u - u % 2], row[u - u % 2 + 1], every_second(_order(lanes), u % 2)) for u in static_range(windows.size)]


@at_compile_time
def _order(lanes: int) -> Axes:
    """The column of each lane where windows are two columns apart: an instruction takes elements of one half of two vectors."""
    if lanes < 4:
        return tuple(range(lanes))
    some = lanes // 4
    return tuple(begin + n for half in (0, 1) for begin in (half * some, 2 * some + half * some) for n in range(some))


@generic
def _store(results: Array, left: int, total: Vector, bounds: list[Vector], step: int) -> None:
    """Store a vector of sums with the addend, within the bounds: ``left`` elements from its first are written at all, in order.

    Lanes behind a row that is shorter than a vector are overwritten by the rows that follow.
    """
    total = total + bounds[0]
    total = select(total < bounds[1], bounds[1], total)  # false for NaN
    total = select(total > bounds[2], bounds[2], total)
    if step > 1:
        total = shuffle(total, total, by_column(_order(len(total))))
    if left >= len(total):
        store(results, 0, total)
    else:
        store_some(results, 0, total, first_lanes(left, len(total)))
