"""Words of data: 4 bytes of channels or of columns, side by side, with the byte of the padding around the data."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....shape_funcs.defs.convolution.conv import BYTE_WORD as WORD
from ...native.front_end.llvm import host
from ...native.memory import Array, Axes, generic
from ...native.static_values import at_compile_time, static, static_range
from ...native.vector_registers import vector_bytes
from ...native.vectors import Mask, Vector, lane_numbers, load, load_some, mask_of_bits, permute, shifted, shuffle, splat, store
from ..spatial.cpu import end_inside, first_inside
from .geometry import COLUMNS, ByteConvolution, Planes, Region, words_of_columns

#: The bytes of an order of bytes.
ORDER_BYTES = 64
#: The largest stride of columns with which vectors of words are made of vectors of bytes.
MOST_STEP = 2


class Plane(NamedTuple):
    """A phase of a plane of words: its first word, rows and columns.

    ``column``: of the data, of the first word's first byte; ``step``: from a word to the next.  The rows ``first`` to ``end``
    (exclusive) are those of data.
    """

    to: int
    rows: int
    columns: int
    column: int
    step: int
    first: int
    end: int


class Source(NamedTuple):
    """The rows of data of a phase: per byte of a word the first element of row 0, the elements from a row to the next, and the
    columns; ``pad``: the byte around the data; ``order``: see ``place_order``."""

    data: Array
    at: Axes
    row: int
    columns: int
    pad: Array
    order: Array


@at_compile_time
def lanes_of_words() -> int:
    """The words of a vector."""
    return vector_bytes() // WORD


@at_compile_time
def permutes_bytes() -> bool:
    """Whether an instruction lays bytes of a vector anywhere."""
    return "avx512vbmi" in host.features()


@at_compile_time
def static_lanes(lanes: int) -> tuple[int, ...]:
    """The numbers of lanes, in order."""
    return tuple(range(lanes))


@at_compile_time
def _neighbours(lanes: int) -> tuple[int, ...]:
    """The bytes of words of 4 neighbours, a byte apart."""
    return tuple(word + k for word in range(lanes) for k in range(WORD))


@at_compile_time
def lays_words() -> bool:
    """Whether an instruction lays the bytes of 4 vectors side by side, which are a vector of words."""
    return permutes_bytes() and lanes_of_words() * WORD == ORDER_BYTES


@generic
def place_order(order: Array) -> None:
    """Store the places of the bytes of words of one byte of each of 4 vectors: LLVM splits an order that it knows."""
    if lays_words():
        numbers = lane_numbers(static(ORDER_BYTES))
        store(order, 0, (((numbers & 3) << 4) + (numbers >> 2)).astype(np.uint8))


@generic
def bits_between(first: int, end: int, width: int) -> int:
    """A bit for each of ``width`` lanes, fewer than 64, from ``first`` to ``end`` (exclusive)."""
    first, end = min(max(first, 0), width), min(max(end, 0), width)
    return (1 << end) - (1 << first) if first < end else 0


@generic
def bytes_of(source: Source, at: int, column: int, lanes: int, inside: Mask, is_whole: bool) -> Vector:
    """Bytes of a row that begins at ``at``, from a column on; the byte of the padding where they are not ``inside``."""
    if is_whole:
        return load(source.data, at + column, lanes)
    return load_some(shifted(source.data, at + column), 0, inside, splat(source.pad[0], lanes))


@generic
def inside_of(source: Source, column: int, lanes: int) -> Mask:
    """The bytes from a column on that are data."""
    return mask_of_bits(bits_between(-column, source.columns - column, lanes), lanes)


@generic
def store_channels(panel: Array, plane: Plane, source: Source, word: int, step: int, is_whole: bool) -> None:
    """Store a vector of each row of a phase, of words of 4 channels, for a static step."""
    lanes, column = lanes_of_words(), plane.column + word * step
    inside, offset = inside_of(source, column, lanes * step), plane.first * source.row
    for r in range(plane.first, plane.end):
        parts = [bytes_of(source, source.at[k] + offset, column, lanes * step, inside, is_whole) for k in static_range(WORD)]
        store(panel, plane.to + r * plane.columns + word, _words_of_parts([part[::step] for part in parts], source.order))
        offset += source.row


@generic
def _words_of_parts(parts: list[Vector], order: Array) -> Vector:
    """Words of one byte of each of 4 vectors."""
    if lays_words():
        pair, all_parts = static_lanes(2 * len(parts[0])), static_lanes(WORD * len(parts[0]))
        joined = shuffle(shuffle(parts[0], parts[1], pair), shuffle(parts[2], parts[3], pair), all_parts)
        return permute(joined, load(order, 0, static(ORDER_BYTES))).view(np.int32)
    wide = [part.astype(np.int32) for part in parts]
    return (wide[0] | (wide[1] << 8)) | ((wide[2] << 16) | (wide[3] << 24))


@generic
def store_whole_words(panel: Array, plane: Plane, source: Source, first: int, end: int) -> None:
    """Store the vectors ``first`` to ``end`` (exclusive) of each row, all of data, of words of 4 channels and a step of 1."""
    lanes = lanes_of_words()
    for r in range(plane.first, plane.end):
        here, to = r * source.row + plane.column, plane.to + r * plane.columns
        for word in range(first * lanes, end * lanes, lanes):
            parts = [load(source.data, source.at[k] + here + word, lanes) for k in static_range(WORD)]
            store(panel, to + word, _words_of_parts(parts, source.order))


@generic
def store_neighbours(panel: Array, plane: Plane, source: Source, word: int, step: int, is_whole: bool) -> None:
    """As ``store_channels``, of words of 4 columns."""
    lanes, column = lanes_of_words(), plane.column + word * step
    inside, beside = inside_of(source, column, 2 * lanes), inside_of(source, column + 2, 2 * lanes)
    at = source.at[0] + plane.first * source.row
    for r in range(plane.first, plane.end):
        part = bytes_of(source, at, column, 2 * lanes, inside, is_whole)
        if step == 1:
            store(panel, plane.to + r * plane.columns + word, shuffle(part, part, _neighbours(lanes)).view(np.int32))
        else:
            pairs, others = part.view(np.uint16), bytes_of(source, at, column + 2, 2 * lanes, beside, is_whole).view(np.uint16)
            store(panel, plane.to + r * plane.columns + word, pairs.astype(np.int32) | (others.astype(np.int32) << 16))
        at += source.row


@generic
def store_word(panel: Array, plane: Plane, source: Source, word: int, form: int) -> None:
    """Store a word of each row of a phase."""
    for r in range(plane.first, plane.end):
        total = 0
        for k in static_range(WORD):
            column = plane.column + word * plane.step + (k if form == COLUMNS else 0)
            byte = int(source.pad[0])
            if 0 <= column < source.columns:
                byte = int(source.data[np.uint64(source.at[k] + r * source.row + column)])
            total = total | byte << 8 * k
        panel[np.uint64(plane.to + r * plane.columns + word)] = total - (total >> 31 << 32)


@generic
def fill_rows(panel: Array, plane: Plane, first: int, end: int, pad: Array) -> None:
    """Store words of the byte of the padding in the rows ``first`` to ``end`` (exclusive), and up to a vector behind them."""
    lanes = lanes_of_words()
    outside = splat(pad[0], lanes * WORD).view(np.int32)
    for word in range(first * plane.columns, end * plane.columns, lanes):
        store(panel, plane.to + word, outside)


@generic
def place_phase(panel: Array, plane: Plane, source: Source, form: int) -> None:
    """Store a phase of a plane of words, and any words up to a vector behind it.

    A vector may reach into the next row: the last vectors of rows are stored before the others, and earlier rows before later.
    Those in the middle do not, and are stored together.
    """
    lanes, step = lanes_of_words(), plane.step
    fill_rows(panel, plane, 0, plane.first, source.pad)
    vectors = (plane.columns + lanes - 1) // lanes if plane.first < plane.end else 0
    if step > MOST_STEP:
        for word in range(plane.columns if vectors > 0 else 0):
            store_word(panel, plane, source, word, form)
        vectors = 0
    first, end = 0, 0  # the vectors of rows in the middle
    if step == 1 and form != COLUMNS and vectors > 0:
        first = max(-plane.column + lanes - 1, 0) // lanes
        end = min(source.columns - plane.column, plane.columns) // lanes
    if first >= end:
        first, end = 0, 0
    store_vectors(panel, plane, source, end, vectors, form)
    if first < end:
        store_whole_words(panel, plane, source, first, end)
        store_vectors(panel, plane, source, 0, first, form)
    fill_rows(panel, plane, plane.end, plane.rows, source.pad)


@generic
def store_vectors(panel: Array, plane: Plane, source: Source, first: int, end: int, form: int) -> None:
    """Store the vectors ``first`` to ``end`` (exclusive) of each row, the last ones first."""
    lanes, step = lanes_of_words(), plane.step
    for vector in range(end - 1, first - 1, -1):
        word = vector * lanes
        column = plane.column + word * step
        last = column + (2 * lanes + 2 if form == COLUMNS else lanes * step)
        for some in static_range(1, MOST_STEP + 1):
            for whole in static_range(2):
                if step == some and (column >= 0 and last <= source.columns) == (whole == 1):
                    if form == COLUMNS:
                        store_neighbours(panel, plane, source, word, some, whole == 1)
                    else:
                        store_channels(panel, plane, source, word, some, whole == 1)


@generic
def place_plane(conv: ByteConvolution, region: Region, planes: Planes, batch: int, first: int, plane: int, panel: Array) -> None:
    """Store a plane of words; ``first``: the first channel of the group.

    Bytes beyond the channels of the group repeat the last one: their weights are 0.
    """
    (stride, before, _, taps), (_, channels, rows, columns), form = conv.window, conv.sizes, conv.form
    words, most, size = words_of_columns(taps[1]), conv.sizes[1] // conv.groups - 1, rows * columns
    c = plane // words if form == COLUMNS else plane * WORD
    shift, apart = (plane % words * WORD, 0) if form == COLUMNS else (0, size)
    for phase in range(planes.phases[0] * planes.phases[1]):
        y = region.row * stride[0] + phase // planes.phases[1] - before[0]
        x = region.column * stride[1] + phase % planes.phases[1] - before[1] + shift
        at = (batch * channels + first + c) * size + y * columns
        more = (at + min(1, most - c) * apart, at + min(2, most - c) * apart, at + min(3, most - c) * apart)
        source = Source(conv.data, (at, more[0], more[1], more[2]), stride[0] * columns, columns, conv.pad, conv.order)
        inside = max(min(end_inside(y, stride[0], rows, planes.rows), planes.rows), 0)
        begin = min(first_inside(y, stride[0]), inside)
        to = plane * planes.apart + phase * planes.rows * planes.columns
        place_phase(panel, Plane(to, planes.rows, planes.columns, x, stride[1], begin, inside), source, form)
