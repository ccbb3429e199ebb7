"""Words of data: 4 bytes of channels or of columns, side by side, with the byte of the padding around the data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...native.memory import Array, Axes, generic
from ...native.static_values import at_compile_time, static_range
from ...native.vector_registers import vector_bytes
from ...native.vectors import Vector, load, load_some, mask_of_bits, shifted, splat, store
from .geometry import CHANNELS, COLUMNS, WORD, ByteConvolution, Planes, Region, plane_words, words_of_columns

#: The largest stride of columns with which vectors of words are made of vectors of bytes.
MOST_STEP = 2


class Sources(NamedTuple):
    """The rows of data that a row of words is made of: per byte of a word its first element, and the column of its first byte.

    ``size``: the columns of the data; ``step``: from a word to the next.
    """

    data: Array
    at: Axes
    columns: Axes
    size: int
    step: int


@at_compile_time
def lanes_of_words() -> int:
    """The words of a vector."""
    return vector_bytes() // WORD


@generic
def bits_between(first: int, end: int, width: int) -> int:
    """A bit for each of ``width`` lanes, fewer than 64, from ``first`` to ``end`` (exclusive)."""
    first, end = min(max(first, 0), width), min(max(end, 0), width)
    return (1 << end) - (1 << first) if first < end else 0


@generic
def bytes_inside(source: Sources, k: int, word: int, step: int, lanes: int) -> Vector:
    """Byte ``k`` of ``lanes`` words, all of the data."""
    return load(source.data, source.at[k] + source.columns[k] + word * step, lanes * step)[::step]


@generic
def bytes_around(source: Sources, k: int, word: int, step: int, lanes: int, pad: Vector) -> Vector:
    """Byte ``k`` of ``lanes`` words, where the data ends the byte of the padding."""
    column = source.columns[k] + word * step
    inside = mask_of_bits(bits_between(-column, source.size - column, lanes * step), lanes * step)
    return load_some(shifted(source.data, source.at[k] + column), 0, inside, pad)[::step]


@generic
def joined(parts: list[Vector]) -> Vector:
    """Words of 4 bytes, the first of which is the lowest."""
    wide = [part.astype(np.int32) for part in parts]
    return (wide[0] | (wide[1] << 8)) | ((wide[2] << 16) | (wide[3] << 24))


@generic
def store_row(panel: Array, to: int, count: int, source: Sources, pad: Array, step: int) -> None:
    """Store a row of words, for a static step, and words of any value behind them, up to a whole vector."""
    lanes = lanes_of_words()
    outside = splat(pad[0], lanes * step)
    for word in range(0, count, lanes):
        last = source.columns[3] + (word + lanes) * step
        if source.columns[0] + word * step >= 0 and last <= source.size:
            store(panel, to + word, joined([bytes_inside(source, k, word, step, lanes) for k in static_range(WORD)]))
        else:
            store(panel, to + word, joined([bytes_around(source, k, word, step, lanes, outside) for k in static_range(WORD)]))


@generic
def store_words(panel: Array, to: int, count: int, source: Sources, pad: Array) -> None:
    """Store a row of words one by one."""
    for word in range(count):
        total = 0
        for k in static_range(WORD):
            column = source.columns[k] + word * source.step
            byte = int(pad[0])
            if 0 <= column < source.size:
                byte = int(source.data[np.uint64(source.at[k] + column)])
            total = total | byte << 8 * k
        panel[np.uint64(to + word)] = total - (total >> 31 << 32)


@generic
def fill_row(panel: Array, to: int, count: int, pad: Array) -> None:
    """Store words of the byte of the padding, up to a whole vector."""
    lanes = lanes_of_words()
    outside = splat(pad[0], lanes * WORD).view(np.int32)
    for word in range(0, count, lanes):
        store(panel, to + word, outside)


@generic
def first_of_bytes(conv: ByteConvolution, first: int, plane: int, k: int) -> tuple[int, int]:
    """The channel of byte ``k`` of a plane's words, and the columns from the word's place to the byte.

    ``first``: the group's first channel.  Bytes beyond the channels of the group repeat the last one: their weights are 0.
    """
    if conv.form == CHANNELS:
        return first + min(plane * WORD + k, conv.sizes[1] // conv.groups - 1), 0
    words = words_of_columns(conv.window.taps[1])
    return first + plane // words, (plane % words * WORD + k) * conv.window.dilation[1]


@generic
def place_plane(conv: ByteConvolution, region: Region, planes: Planes, batch: int, first: int, plane: int, panel: Array) -> None:
    """Store a plane of words; ``first``: the first channel of the group."""
    (stride, before, _, _), (_, channels, rows, columns) = conv.window, conv.sizes
    to = plane * plane_words(planes)
    channel0, column0 = first_of_bytes(conv, first, plane, 0)
    channel1, column1 = first_of_bytes(conv, first, plane, 1)
    channel2, column2 = first_of_bytes(conv, first, plane, 2)
    channel3, column3 = first_of_bytes(conv, first, plane, 3)
    for down in range(planes.phases[0]):
        for across in range(planes.phases[1]):
            x = region.column * stride[1] + across - before[1]
            of_bytes = (x + column0, x + column1, x + column2, x + column3)
            for r in range(planes.rows):
                y = (region.row + r) * stride[0] + down - before[0]
                if 0 <= y < rows:
                    at = batch * channels * rows * columns + y * columns
                    size = rows * columns
                    places = (at + channel0 * size, at + channel1 * size, at + channel2 * size, at + channel3 * size)
                    source = Sources(conv.data, places, of_bytes, columns, stride[1])
                    if stride[1] > MOST_STEP:
                        store_words(panel, to, planes.columns, source, conv.pad)
                    for step in static_range(1, MOST_STEP + 1):
                        if stride[1] == step:
                            store_row(panel, to, planes.columns, source, conv.pad, step)
                else:
                    fill_row(panel, to, planes.columns, conv.pad)
                to += planes.columns
