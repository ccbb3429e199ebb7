"""Transformations of Winograd's convolution of a window of 3 x 3 for neighbouring tiles of a row, of some channels.

A tile of 4 x 4 data gives 2 x 2 results, with stride 2 a tile of 5 x 5 data; tiles are 2 or 4 elements apart.  The same element
of neighbouring tiles is a vector: every second or fourth element of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...memory import Array, Axes, generic
from ...static_values import at_compile_time, static, static_range
from ...vectors import Mask, Vector, join, lane_numbers, load, load_some, shuffle, splat, store
from ..inlining import keep_apart, keep_out_of_line, keep_short, keep_words_single
from ..products.register_tile import PANEL_BYTES, vector_bytes
from .winograd_axis import AXES, RESULTS, terms_of_data, terms_of_sums, total

#: Elements of the shortest vectors: of a register on every machine.
LEAST_LANES = 4
#: Bytes of the zeros that stand for a row outside the data.
ZERO_BYTES = 5 * PANEL_BYTES


class Picture(NamedTuple):
    """The data of some channels, ``channel`` elements apart, from element ``at`` on."""

    data: Array
    at: int
    height: int
    width: int
    channel: int
    channels: int


class Elements(NamedTuple):
    """Transformed elements: element ``n`` of tile ``j`` of channel ``i`` is at ``at + n * step + i * row + j``."""

    data: Array
    at: int
    step: int
    row: int


class Results(NamedTuple):
    """Results of channels that are ``row`` elements apart; the second row of a tile is ``below`` elements from the first."""

    data: Array
    at: int
    row: int
    below: int


@generic
def transform_data(
    data: Array, at: int, height: int, width: int, first_row: int, first_column: int, channel: int, channels: int, zeros: Array,
    out: Array, to: int, step: int, row: int, count: int,
) -> None:  # fmt: skip
    """Store the 16 elements of ``B^T d B`` of ``count`` tiles of each channel.

    Element ``n`` of tile ``j`` of channel ``i`` is stored at ``to + n * step + i * row + j``.  Element ``(y, x)`` of the tile
    ``d`` is that of row ``first_row + y`` and column ``first_column + 2 * j + x`` of the data, or 0 outside ``height`` rows and
    ``width`` columns; channels are ``channel`` elements apart.  ``zeros`` begins with ZERO_BYTES of zeros.  Contiguous arrays
    of float32; ``at``, ``to``: the first elements.  Elements behind are overwritten, up to a multiple of LEAST_LANES tiles.
    """
    picture = Picture(data, at, height, width, channel, channels)
    _transform_data(picture, first_row, first_column, zeros, Elements(out, to, step, row), count, static(1))


@generic
def transform_strided_data(
    data: Array, at: int, height: int, width: int, first_row: int, first_column: int, channel: int, channels: int, zeros: Array,
    out: Array, to: int, step: int, row: int, count: int,
) -> None:  # fmt: skip
    """As ``transform_data`` with stride 2: 25 elements of a tile, which is 4 columns from the next."""
    picture = Picture(data, at, height, width, channel, channels)
    _transform_data(picture, first_row, first_column, zeros, Elements(out, to, step, row), count, static(2))


@generic
def transform_sums(
    sums: Array, at: int, step: int, row: int, channels: int, out: Array, to: int, out_row: int, below: int, count: int
) -> None:
    """Store ``A^T m A`` of ``count`` tiles of each channel; ``m`` has 16 elements, as those of ``transform_data``.

    Result ``(y, x)`` of tile ``j`` of channel ``i`` is stored at ``to + i * out_row + y * below + 2 * j + x``; elements behind
    are overwritten, up to PANEL_BYTES of tiles.  Contiguous arrays of float32.
    """
    _transform_sums(Elements(sums, at, step, row), Results(out, to, out_row, below), channels, count, static(1))


@generic
def transform_strided_sums(
    sums: Array, at: int, step: int, row: int, channels: int, out: Array, to: int, out_row: int, below: int, count: int
) -> None:
    """As ``transform_sums`` with stride 2: ``m`` has 25 elements, as those of ``transform_strided_data``."""
    _transform_sums(Elements(sums, at, step, row), Results(out, to, out_row, below), channels, count, static(2))


# ---- data --------------------------------------------------------------------------------------------------------------------


@at_compile_time
def _most_lanes() -> int:
    return vector_bytes() // 4


@at_compile_time
def _sizes() -> Axes:
    """The lanes of vectors, long ones first."""
    lanes = _most_lanes()
    return tuple(lanes >> n for n in range(lanes.bit_length()) if lanes >> n >= LEAST_LANES)


@at_compile_time
def _offsets(stride: int, lanes: int) -> Axes:
    """The first elements of the vectors of a row of tiles."""
    # with stride 2 the last vector is there for its last element, that of the last tile
    return (0, lanes, 2, 2 + lanes) if stride == 1 else (*[n * lanes for n in range(4)], 3 * lanes + 1)


@generic
def _transform_data(
    picture: Picture, first_row: int, first_column: int, zeros: Array, out: Elements, count: int, stride: int
) -> None:
    """As ``transform_data`` for a static stride: a loop for each size of vectors, so that few elements behind are overwritten."""
    keep_out_of_line(), keep_short(), keep_apart(), keep_words_single()
    if picture.channels > 0:
        done = 0
        for lanes in _sizes():
            while count - done > lanes - LEAST_LANES:
                _transform_strip(picture, first_row, first_column, zeros, out, done, lanes, stride)
                done += lanes


@generic
def _transform_strip(
    picture: Picture, first_row: int, first_column: int, zeros: Array, out: Elements, first: int, lanes: int, stride: int
) -> None:
    """The tiles of a vector, of all channels."""
    side, offsets, along = len(terms_of_data(stride)), _offsets(stride, lanes), first_column + RESULTS * stride * first
    arrays, places, steps = [zeros] * side, [0] * side, [0] * side
    for y in static_range(side):
        line = first_row + y
        if line >= 0 and line < picture.height:
            arrays[y], places[y], steps[y] = picture.data, picture.at + line * picture.width + along, picture.channel
    if along >= 0 and along <= picture.width - (offsets[-1] + lanes):
        _transform_channels(arrays, places, steps, (), out, first, picture.channels, lanes, stride)
    else:
        masks = [_inside(-along - offset, picture.width - along - offset, lanes) for offset in offsets]
        _transform_channels(arrays, places, steps, masks, out, first, picture.channels, lanes, stride)


@generic
def _inside(first: int, end: int, lanes: int) -> Vector:
    """The lanes from ``first`` to ``end`` (exclusive), any numbers; -1 in each.

    LLVM keeps a vector of bits in a register of its own only within a block.
    """
    numbers = lane_numbers(lanes).astype(np.int32)
    low, high = np.int32(min(max(first, 0), lanes)), np.int32(min(max(end, 0), lanes))
    inside: Mask = (numbers >= low) & (numbers < high)
    return -inside.astype(np.int32)


@generic
def _transform_channels(
    arrays: Sequence[Array], places: Sequence[int], steps: Sequence[int], masks: Sequence[Vector], out: Elements, first: int,
    channels: int, lanes: int, stride: int,
) -> None:  # fmt: skip
    """The loop over channels.  ``arrays``, ``places``, ``steps``: of each row of the tiles."""
    at, to = [place for place in places], out.at + first  # noqa: C416 - the list that this function may change
    for _ in range(channels):
        _transform_tile(arrays, at, masks, Elements(out.data, to, out.step, 0), lanes, stride)
        for y in static_range(len(at)):
            at[y] += steps[y]
        to += out.row


@at_compile_time
def _new_rows(stride: int, y: int) -> Axes:
    """The rows of a tile that row ``y`` of the products' elements needs first."""
    before = {row for terms in AXES[stride].data[:y] for _, row in terms}
    return tuple(row for _, row in AXES[stride].data[y] if row not in before)


@generic
def _transform_tile(
    arrays: Sequence[Array], at: Sequence[int], masks: Sequence[Vector], out: Elements, lanes: int, stride: int
) -> None:
    """The transformation of a vector of tiles of a channel: a row is read when it is needed first."""
    combinations = terms_of_data(stride)
    lines: list[list[Vector]] = [[]] * len(at)
    for y in static_range(len(at)):
        for row in _new_rows(stride, y):
            elements = _line(arrays[row], at[row], masks, lanes, stride)
            lines[row] = [total(each, elements) for each in combinations]
        base, terms = out.at + y * len(at) * out.step, combinations[y]
        for x in static_range(len(at)):
            element = lines[terms[0][1]][x]
            for term in terms[1:]:
                element = element + lines[term[1]][x] if term[0] > 0 else element - lines[term[1]][x]
            store(out.data, base + x * out.step, element)


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
def _line(data: Array, at: int, masks: Sequence[Vector], lanes: int, stride: int) -> list[Vector]:
    """The elements of a row of each tile."""
    if stride == 1 and len(masks) == 0 and lanes == 2 * LEAST_LANES:
        return _line_of_halves(data, at, lanes // 2)
    offsets = _offsets(stride, lanes)
    if len(masks) == 0:
        loaded = [load(data, at + offset, lanes) for offset in offsets]
    else:
        nothing = splat(data.dtype.type(0), lanes)
        loaded = [load_some(data, at + offsets[n], masks[n] < 0, nothing) for n in static_range(len(offsets))]
    if stride == 1:
        return [shuffle(loaded[n - n % 2], loaded[n - n % 2 + 1], _every(2, lanes, n % 2)) for n in static_range(4)]
    found = [
        join(shuffle(loaded[0], loaded[1], _every(4, lanes, x)), shuffle(loaded[2], loaded[3], _every(4, lanes, x)))
        for x in static_range(4)
    ]
    # the last element is the next tile's first
    return [*found, shuffle(found[0], loaded[4], _next_tile(lanes))]


@generic
def _line_of_halves(data: Array, at: int, half: int) -> list[Vector]:
    """As ``_line``: instructions of AVX take elements of the same half of two vectors, so halves are loaded in this order."""
    found: list[Vector] = []
    for first in (0, 2):
        four = [load(data, at + first + n * half, half) for n in static_range(4)]
        low, high = join(four[0], four[2]), join(four[1], four[3])
        found = [*found, *[shuffle(low, high, _of_halves(parity)) for parity in static_range(2)]]
    return found


# ---- sums --------------------------------------------------------------------------------------------------------------------


@at_compile_time
def _alternate(lanes: int, part: int) -> Axes:
    """Half of the lanes of two vectors, in turn from each."""
    return tuple(part * lanes // 2 + n // 2 + n % 2 * lanes for n in range(lanes))


@generic
def _transform_sums(sums: Elements, out: Results, channels: int, count: int, stride: int) -> None:
    """As ``transform_sums`` for a static stride."""
    keep_out_of_line(), keep_short(), keep_apart()
    for i in range(channels):
        for j in range(0, count, _most_lanes()):
            _sum_tiles(sums, sums.at + i * sums.row + j, out, out.at + i * out.row + RESULTS * j, stride)


@generic
def _sum_tiles(sums: Elements, at: int, out: Results, to: int, stride: int) -> None:
    """The results of a vector of tiles."""
    combinations, side, lanes = terms_of_sums(stride), len(terms_of_data(stride)), _most_lanes()
    lines: list[list[Vector]] = []
    for y in static_range(side):
        base = at + y * side * sums.step
        elements = [load(sums.data, base + x * sums.step, lanes) for x in static_range(side)]
        lines = [*lines, [total(each, elements) for each in combinations]]
    for y in static_range(RESULTS):
        left, right = [total(combinations[y], [line[x] for line in lines]) for x in static_range(RESULTS)]
        for part in static_range(RESULTS):
            store(out.data, to + y * out.below + part * lanes, shuffle(left, right, _alternate(lanes, part)))
