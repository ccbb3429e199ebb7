"""The transformations of data and of sums in Winograd's convolution with 3 x 3 filters.

A tile of 4 x 4 elements of the data gives 2 x 2 results; with stride 2 a tile of 5 x 5 elements does.  Neighbouring tiles begin 2
or 4 elements apart.  A vector has the same element of neighbouring tiles: every second or fourth element of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...inlining import keep_out_of_line, keep_short, shared
from ...memory import Array, Axes, generic
from ...static_values import at_compile_time, static_range
from ...vector_registers import vector_bytes
from ...vectors import Vector, from_element, is_element, load, load_some, shifted, shuffle, splat, store
from ..products.register_tile import PANEL_BYTES
from .image_rows import Image, flat_image
from .tap_vectors import lanes_inside
from .winograd_axis import AXES, MOST_STRIDE, RESULTS, terms_of_data, terms_of_sums, total

#: Elements of the shortest vectors: of a register on every machine.
LEAST_LANES = 4
#: Bytes of the zeros that stand for a row outside the data.
ZERO_BYTES = 5 * PANEL_BYTES


class Elements(NamedTuple):
    """Transformed elements: element ``n`` of tile ``j`` of channel ``i`` is at ``at + n * step + i * row + j``."""

    data: Array
    at: int
    step: int
    row: int


class Pairs(NamedTuple):
    """Results of channels, ``row`` elements apart; the second row of a tile is ``below`` elements from the first."""

    data: Array
    at: int
    row: int
    below: int


@generic
def transform_data(
    image: Image, channel: int, channels: int, row: int, column: int, out: Elements, count: int, stride: int
) -> None:
    """Store the 16 elements of ``B^T d B`` of ``count`` tiles of each channel; with stride 2 the 25 elements.

    Element ``(y, x)`` of the tile ``d`` number ``j`` is that of row ``row + y`` and column ``column + 2 * stride * j + x`` of the
    image; those of channels are ``channel`` elements apart.  ``image.zeros`` begins with ZERO_BYTES of zeros.  Contiguous arrays
    of float32.  Elements after the last tile are overwritten, up to a multiple of LEAST_LANES tiles.
    """
    for n in static_range(1, MOST_STRIDE + 1):
        if stride == n:
            first = from_element(out.data.reshape(-1), out.at)
            data_tiles(flat_image(image), channel, channels, row, column, Elements(first, 0, out.step, out.row), count, n)


@generic
def transform_sums(sums: Elements, out: Pairs, channels: int, count: int, stride: int) -> None:
    """Store ``A^T m A`` of ``count`` tiles of each channel; ``m`` has as many elements as those of ``transform_data``.

    Result ``(y, x)`` of tile ``j`` of channel ``i`` is stored at ``out.at + i * out.row + y * out.below + 2 * j + x``.
    Contiguous arrays of float32.  Elements after the last tile are overwritten, up to PANEL_BYTES of tiles.
    """
    for n in static_range(1, MOST_STRIDE + 1):
        if stride == n:
            given, results = from_element(sums.data.reshape(-1), sums.at), from_element(out.data.reshape(-1), out.at)
            sum_tiles(Elements(given, 0, sums.step, sums.row), Pairs(results, 0, out.row, out.below), channels, count, n)


# ---- data --------------------------------------------------------------------------------------------------------------------


@at_compile_time
def _sizes() -> Axes:
    """The lanes of vectors, long ones first."""
    lanes = vector_bytes() // 4
    return tuple(lanes >> n for n in range(lanes.bit_length()) if lanes >> n >= LEAST_LANES)


@at_compile_time
def _offsets(stride: int, lanes: int) -> Axes:
    """The first elements of the vectors of a row of tiles."""
    # with stride 2 the last vector is loaded for its last element, that of the last tile
    return (0, lanes, 2, 2 + lanes) if stride == 1 else (*[n * lanes for n in range(4)], 3 * lanes + 1)


@shared
@generic
def data_tiles(image: Image, channel: int, channels: int, row: int, column: int, out: Elements, count: int, stride: int) -> None:
    """As ``transform_data`` for a static stride.  A loop for each size of vectors overwrites few elements after the last tile."""
    done = 0
    if channels > 0:
        for lanes in _sizes():
            while count - done > lanes - LEAST_LANES:
                to = Elements(from_element(out.data, done), 0, out.step, out.row)
                _strip(image, channel, channels, row, column + RESULTS * stride * done, to, lanes, stride)
                done += lanes


@generic
def _strip(image: Image, channel: int, channels: int, row: int, along: int, out: Elements, lanes: int, stride: int) -> None:
    """The tiles of a vector, of all channels, whose first element is in column ``along``."""
    keep_out_of_line(), keep_short()
    side, offsets = len(terms_of_data(stride)), _offsets(stride, lanes)
    rows, steps = [image.zeros] * side, [0] * side
    for y in static_range(side):
        if is_element(row + y, image.height):
            rows[y], steps[y] = shifted(image.data, image.at + (row + y) * image.width + along), channel
    if 0 <= along <= image.width - (offsets[len(offsets) - 1] + lanes):
        _channels(rows, steps, [], out, channels, lanes, stride)
    else:
        # -1 in each lane: LLVM keeps a vector of bits in a register of its own only within a block
        inside = [lanes_inside(along, image.width, offsets[n], lanes) for n in static_range(len(offsets))]
        masks = [-mask.astype(np.int32) for mask in inside]
        _channels(rows, steps, masks, out, channels, lanes, stride)


@generic
def _channels(
    rows: list[Array], steps: Sequence[int], masks: Sequence[Vector], out: Elements, channels: int, lanes: int, stride: int
) -> None:
    """The loop over channels.  ``rows``, ``steps``: the rows of the tiles, and the elements to those of the next channel."""
    to = out.data
    for _ in range(channels):
        _tile(rows, masks, to, out.step, lanes, stride)
        for y in static_range(len(rows)):
            rows[y] = shifted(rows[y], steps[y])
        to = from_element(to, out.row)


@at_compile_time
def _new_rows(stride: int, y: int) -> Axes:
    """The rows of a tile that row ``y`` of the products' elements needs first."""
    before = {row for terms in AXES[stride].data[:y] for _, row in terms}
    return tuple(row for _, row in AXES[stride].data[y] if row not in before)


@generic
def _tile(rows: Sequence[Array], masks: Sequence[Vector], out: Array, step: int, lanes: int, stride: int) -> None:
    """The transformation of a vector of tiles of a channel: a row is read when it is needed first."""
    combinations, side = terms_of_data(stride), len(rows)
    lines = [splat(np.float32(0), lanes)] * (side * side)
    for y in static_range(side):
        for row in _new_rows(stride, y):
            elements = _line(rows[row], masks, lanes, stride)
            for x in static_range(side):
                lines[row * side + x] = total(combinations[x], elements)
        line = from_element(out, y * side * step)
        for x in static_range(side):
            store(line, x * step, total(combinations[y], _column(lines, x, side)))


@generic
def _column(lines: Sequence[Vector], x: int, length: int) -> list[Vector]:
    """Element ``x`` of each line of ``length`` elements."""
    return [lines[y * length + x] for y in static_range(len(lines) // length)]


@at_compile_time
def _every(step: int, lanes: int, first: int) -> Axes:
    """Every ``step``-th lane of two vectors."""
    return tuple(range(first, 2 * lanes, step))


@at_compile_time
def _of_halves(parity: int) -> Axes:
    """Every second element of two vectors, each of two halves of which the other vector has the next one."""
    return tuple(n + parity for n in (0, 2, 8, 10, 4, 6, 12, 14))


@at_compile_time
def _next_tile(lanes: int) -> Axes:
    """The lanes of a vector but the first, and the last lane of another."""
    return (*range(1, lanes), 2 * lanes - 1)


@generic
def _line(data: Array, masks: Sequence[Vector], lanes: int, stride: int) -> list[Vector]:
    """The elements of a row of each tile."""
    if stride == 1 and len(masks) == 0 and lanes == 2 * LEAST_LANES:
        return _line_of_halves(data, lanes // 2)
    offsets = _offsets(stride, lanes)
    if len(masks) == 0:
        loaded = [load(data, offsets[n], lanes) for n in static_range(len(offsets))]
    else:
        nothing = splat(data.dtype.type(0), lanes)
        loaded = [load_some(data, offsets[n], masks[n] < 0, nothing) for n in static_range(len(offsets))]
    if stride == 1:
        return [shuffle(loaded[n - n % 2], loaded[n - n % 2 + 1], _every(2, lanes, n % 2)) for n in static_range(4)]
    found = [
        _joined(shuffle(loaded[0], loaded[1], _every(4, lanes, x)), shuffle(loaded[2], loaded[3], _every(4, lanes, x)))
        for x in static_range(4)
    ]
    # the last element is the next tile's first
    return [found[0], found[1], found[2], found[3], shuffle(found[0], loaded[4], _next_tile(lanes))]


@generic
def _joined(one: Vector, other: Vector) -> Vector:
    """The lanes of two vectors as those of one."""
    return shuffle(one, other, _every(1, len(one), 0))


@generic
def _line_of_halves(data: Array, half: int) -> list[Vector]:
    """As ``_line``: instructions of AVX take elements of the same half of two vectors, so halves are loaded in this order."""
    four = [load(data, n // 4 * 2 + n % 4 * half, half) for n in static_range(8)]
    pairs = [_joined(four[n // 2 * 4 + n % 2], four[n // 2 * 4 + n % 2 + 2]) for n in static_range(4)]
    return [shuffle(pairs[n - n % 2], pairs[n - n % 2 + 1], _of_halves(n % 2)) for n in static_range(4)]


# ---- sums --------------------------------------------------------------------------------------------------------------------


@at_compile_time
def _alternate(lanes: int, part: int) -> Axes:
    """Half of the lanes of two vectors, in turn from each."""
    return tuple(part * lanes // 2 + n // 2 + n % 2 * lanes for n in range(lanes))


@shared
@generic
def sum_tiles(sums: Elements, out: Pairs, channels: int, count: int, stride: int) -> None:
    """As ``transform_sums`` for a static stride."""
    keep_short()
    lanes, given, results = vector_bytes() // 4, sums.data, out.data
    for _ in range(channels):
        here, to = given, results
        for _ in range(0, count, lanes):
            _sum_tile(here, sums.step, to, out.below, lanes, stride)
            here, to = from_element(here, lanes), from_element(to, RESULTS * lanes)
        given, results = from_element(given, sums.row), from_element(results, out.row)


@generic
def _sum_tile(sums: Array, step: int, out: Array, below: int, lanes: int, stride: int) -> None:
    """The results of a vector of tiles."""
    combinations, side = terms_of_sums(stride), len(terms_of_data(stride))
    lines = [splat(np.float32(0), lanes)] * (side * RESULTS)
    for y in static_range(side):
        line = from_element(sums, y * side * step)
        elements = [load(line, n * step, lanes) for n in static_range(side)]
        for x in static_range(RESULTS):
            lines[y * RESULTS + x] = total(combinations[x], elements)
    for y in static_range(RESULTS):
        left, right = [total(combinations[y], _column(lines, n, len(combinations))) for n in static_range(RESULTS)]
        for part in static_range(RESULTS):
            store(out, y * below + part * lanes, shuffle(left, right, _alternate(lanes, part)))
