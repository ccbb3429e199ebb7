"""Convolution of bytes without a sign by weights with a sign, exact in int32, modulo its width.

The data of a region of the result become planes of words, which stay in the second cache; tiles of output channels by positions
read them.  Sums of a few output channels are finished while they are in the first cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ....shape_funcs.defs.convolution.conv import BYTE_BLOCK as BLOCK
from ....shape_funcs.defs.convolution.conv import BYTE_ROWS as ROWS
from ...native.inlining import apart
from ...native.memory import Array, generic
from ...native.static_values import static
from ...native.status import OK
from ..conv.epilogue import Epilogue
from ..shaped import Shaped
from .blocks import Part, add_blocks, configure_blocks, release_blocks
from .dense import dense_planes, is_dense
from .depthwise import Channel, add_in_place, is_in_place, place_vectors
from .geometry import (
    BLOCKS,
    COLUMNS,
    ByteConvolution,
    ByteWindow,
    Planes,
    Region,
    block_depth,
    column_regions,
    plane_count,
    planes_of,
    region_of,
    row_regions,
    streams_positions,
    words_of_columns,
)
from .last_positions import LastPositions, gather_last_positions
from .limited import limits_weights
from .strips import add_rows, add_small_channels, copies_rows, copy_channel, place_rows, place_weights, strip_of
from .tile import Reads, Sums, Weights, add_positions
from .winograd import add_by_transforms, is_shorter
from .words import bits_between, lanes_of_words, place_order, place_plane


class ByteBuffers(NamedTuple):
    """Room for planes of words; for integers, of steps and of vectors of positions; for the sums of a tile; for a configuration
    of registers of tiles, then for an order of bytes."""

    panel: Array
    table: Array
    sums: Array
    config: Array


@generic
def word_of_tap(conv: ByteConvolution, planes: Planes, y: int, x: int) -> int:
    """The first word of a plane that a tap of the window reads."""
    stride, down, across = conv.window.stride, y * conv.window.dilation[0], x * conv.window.dilation[1]
    step = max(stride[1], planes.phases[1])
    line = (down % stride[0] * planes.phases[1] + across % step) * planes.rows + down // stride[0]
    return line * planes.columns + across // step


@generic
def place_steps(conv: ByteConvolution, planes: Planes, table: Array) -> int:
    """Store the first word of each step, in the order of the weights; their number."""
    taps, step, words, together = conv.window.taps, 0, 1, 1
    columns = taps[1]
    if conv.form == COLUMNS:
        columns, words = 1, words_of_columns(taps[1])
        together = words
    elif conv.form == BLOCKS:
        together = block_depth(planes.number)
    for plane in range(0, planes.number, together):
        for y in range(taps[0]):
            for x in range(columns):
                for word in range(words):
                    table[step] = (plane + word) * planes.apart + word_of_tap(conv, planes, y, x)
                    step += 1
    return step


@generic
def place_positions(region: Region, planes: Planes, table: Array, at: int) -> int:
    """Store the bits and the place of each vector of positions (see ``Sums``); their number."""
    lanes, count, at_vector = lanes_of_words(), streams_positions(region, planes), at
    for first in range(0, count, lanes):
        row, column = first // planes.columns, first % planes.columns
        table[at_vector + 1] = row * region.columns + min(column, region.columns)
        bits = 0
        for begin in range(first - column, min(first + lanes, count), planes.columns):
            bits = bits | bits_between(begin - first, begin - first + region.columns, lanes)
        table[at_vector] = bits
        at_vector += 2
    return (at_vector - at) // 2


@generic
def sums_pitch(positions: int) -> int:
    """The elements from a row of sums to the next: a vector is stored behind the last position."""
    return (positions + 15) // 16 * 16 + 16


@generic
def depth_of(conv: ByteConvolution) -> int:
    """The planes of a block."""
    return block_depth(plane_count(conv.sizes[1] // conv.groups, 1, BLOCKS))


@generic
def compute_panels(
    conv: ByteConvolution, filters: Shaped, start: Array, buffers: ByteBuffers, epilogue: Epilogue, low: int, high: int,
    with_tiles: bool,
) -> None:  # fmt: skip
    """The blocks ``low`` to ``high`` (exclusive): the tiles of output channels of a group at the positions of a region.

    ``filters``: ``[groups, tiles, steps, rows of a tile]``; ``with_tiles``: whether registers of tiles are configured.
    """
    tiles, steps, depth = filters.dims[1], filters.dims[2], depth_of(conv)
    outputs, positions = len(start) // conv.groups, conv.out_sizes[0] * conv.out_sizes[1]
    regions = row_regions(conv.out_sizes[0], conv.out_sizes[1]) * column_regions(conv.out_sizes[1])
    number = low
    while number < high:
        tile, rest = number % tiles, number // tiles
        end = min(tiles, tile + high - number)
        number += end - tile
        region, g, b = region_of(conv.out_sizes, rest % regions), rest // regions % conv.groups, rest // regions // conv.groups
        planes = planes_of(conv, region)
        if is_dense(conv, region, planes, (end - tile) * BLOCK):
            planes = dense_planes(conv, region, planes)
        numbers = place_steps(conv, planes, buffers.table)
        vectors = place_positions(region, planes, buffers.table, numbers)
        for plane in range(planes.number):
            place_plane(conv, region, planes, b, g * (conv.sizes[1] // conv.groups), plane, buffers.panel)
        count, begin = region.rows * region.columns, region.row * conv.out_sizes[1] + region.column
        pitch, first = sums_pitch(count), g * outputs
        reads, sums = Reads(buffers.panel, buffers.table, numbers, depth, planes.apart), Sums(buffers.sums, 0, pitch, numbers)
        to = (b * len(start) + first) * positions + begin
        weights = Weights(filters.data, g * tiles * steps * filters.dims[3], start, first, first + outputs - 1)
        if conv.form == BLOCKS:
            last = LastPositions(0, 0, 0)
            if not with_tiles:
                stream = streams_positions(region, planes)
                last = gather_last_positions(reads, vectors, count, stream, planes.number * planes.apart)
            part = Part(tile, end, vectors, count, outputs, to, positions, last)
            if limits_weights():
                if is_shorter(conv, region, planes):
                    add_by_transforms(buffers.panel, planes, region, weights, numbers, buffers.sums, epilogue, part)
                else:
                    add_blocks(reads, weights, buffers.sums, epilogue, part, with_tiles)
            else:
                add_blocks(reads, weights, buffers.sums, epilogue, part, with_tiles)
        else:
            for row in range(tile * ROWS, end * ROWS, ROWS):
                some = Weights(filters.data, weights.at + row * steps, start, first + row, weights.last)
                add_positions(reads, some, sums, vectors, static(ROWS), static(0))
                epilogue.finish(epilogue.argv, to + row * positions, min(ROWS, outputs - row), count, buffers.sums, 0, pitch)


@generic
def compute_channels(
    conv: ByteConvolution, filters: Shaped, start: Array, buffers: ByteBuffers, epilogue: Epilogue, low: int, high: int
) -> None:
    """As ``compute_panels`` of groups with one output channel, of which a block has ROWS.

    ``filters``: ``[groups, 1, steps, 1]``.
    """
    steps, channels, inputs, taps = filters.dims[2], len(start), conv.sizes[1] // conv.groups, conv.window.taps
    tiles, positions = (channels + ROWS - 1) // ROWS, conv.out_sizes[0] * conv.out_sizes[1]
    regions = row_regions(conv.out_sizes[0], conv.out_sizes[1]) * column_regions(conv.out_sizes[1])
    number = low
    while number < high:
        tile, rest = number % tiles, number // tiles
        end = min(tiles, tile + high - number)
        number += end - tile
        region, b = region_of(conv.out_sizes, rest % regions), rest // regions
        count, begin = region.rows * region.columns, region.row * conv.out_sizes[1] + region.column
        is_here = is_in_place(conv) and region.columns == conv.out_sizes[1]
        is_strip, strip = copies_rows(conv) and region.columns == conv.out_sizes[1], strip_of(conv, region, buffers.panel)
        pitch, planes, vectors = sums_pitch(count), planes_of(conv, region), 0
        if is_here:
            vectors = place_vectors(conv, region, buffers.table, steps)
        elif is_strip:
            vectors = place_rows(conv, region, strip, buffers.table)
        else:
            place_steps(conv, planes, buffers.table)
            vectors = place_positions(region, planes, buffers.table, steps)
        for t in range(tile, end):
            some = min(ROWS, channels - t * ROWS)
            done = 0
            if is_strip:
                weights = Weights(filters.data, t * ROWS * steps, start, t * ROWS, t * ROWS)
                done = add_small_channels(conv, region, strip, b * channels + t * ROWS, weights, some, buffers.sums, pitch)
            for c in range(t * ROWS + done, t * ROWS + some):
                weights, to = Weights(filters.data, c * steps, start, c, c), (c - t * ROWS) * pitch
                if is_here:
                    at = ((b * channels + c) * conv.sizes[2] + region.row * conv.window.stride[0]) * conv.sizes[3]
                    channel = Channel(conv.data, at, conv.pad, weights, buffers.sums, to)
                    add_in_place(channel, buffers.table, steps, vectors, conv.window.stride[1])
                elif is_strip:
                    copy_channel(conv, region, strip, b * channels + c)
                    place_weights(strip, weights, taps[0], taps[1])
                    add_rows(conv, strip, buffers.table, vectors, weights, buffers.sums, to)
                else:
                    for plane in range(planes.number):
                        place_plane(conv, region, planes, b, c * inputs, plane, buffers.panel)
                    reads, sums = Reads(buffers.panel, buffers.table, steps, 1, 0), Sums(buffers.sums, to, pitch, steps)
                    add_positions(reads, weights, sums, vectors, static(1), static(0))
            to = (b * channels + t * ROWS) * positions + begin
            epilogue.finish(epilogue.argv, to, some, count, buffers.sums, 0, pitch)


@apart("stride", "before", "dilation", "taps", "form")
@generic
def byte_products(
    data: Shaped, filters: Shaped, start: Shaped, pad: Shaped, out: Shaped, low: int, high: int, buffers: ByteBuffers,
    finish: Callable[..., None], argv: int, window: ByteWindow, form: int,
) -> int:  # fmt: skip
    """The convolution: the blocks ``low`` to ``high`` of ``compute_panels`` or of ``compute_channels``.

    ``filters``: ``[groups, tiles, steps, rows of a tile]``.
    """
    sizes, out_sizes = (data.dims[0], data.dims[1], data.dims[2], data.dims[3]), (out.dims[2], out.dims[3])
    epilogue = Epilogue(finish, argv)
    is_flat = window.taps[0] * window.taps[1] == 1 and out_sizes[0] == sizes[2] and out_sizes[1] == sizes[3]
    if is_flat and window.stride[0] * window.stride[1] == 1 and window.before[0] + window.before[1] == 0:
        sizes, out_sizes = (sizes[0], sizes[1], 1, sizes[2] * sizes[3]), (1, sizes[2] * sizes[3])
    conv = ByteConvolution(data.data, sizes, out_sizes, window, filters.dims[0], form, pad.data, buffers.config)
    with_tiles = form == BLOCKS and configure_blocks(buffers.config, depth_of(conv))
    place_order(buffers.config)  # registers keep their configuration
    if filters.dims[3] == 1:
        compute_channels(conv, filters, start.data, buffers, epilogue, low, high)
    else:
        compute_panels(conv, filters, start.data, buffers, epilogue, low, high, with_tiles)
    release_blocks(with_tiles)
    return OK
