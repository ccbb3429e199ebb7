"""Convolution of few channels, mainly depthwise, of halves: a few planes at a time are widened, and convolved as float32.

A cast of all the data, and one of the whole result, would read and write more bytes than the convolution.  Planes in float32, and
their sums, stay in the second cache.  The algorithms are those of ``conv.planes``, with the same bits as of widened data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ...native.inlining import apart
from ...native.memory import Array, generic
from ...native.status import OK
from ...native.vectors import from_element
from ..conv.by_channels import LANES, has_few_positions
from ..conv.cpu import CHANNELS_FIRST, convolve_groups
from ..conv.epilogue import Epilogue, Limits, is_finished_apart
from ..conv.geometry import Convolution, Filters, Window, convolution
from ..shaped import Shaped
from ..spatial.cpu import CHANNEL, COLUMN, DEPTH, ROW, Spatial
from ..spatial.halves import widen

#: Elements of planes of data, and of planes of sums, that are widened and computed together.
TOGETHER = 2**12
#: The fewest rows of the result that are computed together, of large planes.
LEAST_ROWS = 8


class HalfBuffers(NamedTuple):
    """Room in float32 for some planes, for the weight, for the sums of some planes, and for the buffers of ``conv.planes``."""

    planes: Array
    filters: Array
    sums: Array
    work: Array
    numbers: Array


@generic
def leave(argv: int, at: int, rows: int, count: int, sums: Array, first: int, pitch: int) -> None:
    """Leave a part of the sums as it is: those of all planes are finished together."""


class Part(NamedTuple):
    """``groups`` groups from ``first`` on, of those of all batches, and ``rows`` rows of the result from ``row`` on."""

    first: int
    groups: int
    row: int
    rows: int


@generic
def rows_together(conv: Convolution) -> int:
    """The rows of the result that are computed together: all of them, unless planes of two axes have too many elements."""
    data, out, (_, down, _) = conv.data, conv.out, conv.window.stride
    (outputs, inputs, depth, _, _), rows = conv.weight.sizes, out.sizes[ROW]
    row = max(inputs * data.sizes[COLUMN] * down, outputs // conv.groups * out.sizes[COLUMN], 1)
    if row * rows <= TOGETHER or data.sizes[DEPTH] * out.sizes[DEPTH] * depth > 1:
        return rows
    return min(max(TOGETHER // row, LEAST_ROWS), rows)


@apart("before")
@generic
def half_planes(
    data: Shaped, weight: Shaped, out: Shaped, low: int, high: int, buffers: HalfBuffers, finish: Callable[..., None], argv: int,
    window: Window,
) -> int:  # fmt: skip
    """Convolution by planes of halves: the blocks ``low`` to ``high`` (exclusive), groups of each element of the batch.

    Layout NCHW of data and result, OIHW of the weight.
    """
    conv, epilogue = convolution(data, weight, out, window, CHANNELS_FIRST), Epilogue(finish, argv)
    if is_finished_apart(conv, buffers.sums, epilogue, low, high):
        return OK
    widen(weight.data, 0, weight.data.size, buffers.filters, 0)
    group, rows = conv.weight.sizes[0] // conv.groups, rows_together(conv)
    together, first = 1, low
    if rows == conv.out.sizes[ROW]:
        together = max(TOGETHER // max(conv.weight.sizes[1] * conv.data.steps[CHANNEL], group * conv.out.steps[CHANNEL], 1), 1)
    if has_few_positions(conv):
        together = max(together // LANES, 1) * LANES
    while first < high:
        g = first % conv.groups
        count = min(together, min(high - first, conv.groups - g))
        for row in range(0, conv.out.sizes[ROW], rows):
            convolve_part(conv, buffers, epilogue, Part(first, count, row, min(rows, conv.out.sizes[ROW] - row)))
        first += count
    return OK


@generic
def convolve_part(conv: Convolution, buffers: HalfBuffers, epilogue: Epilogue, part: Part) -> None:
    """Compute and finish a part of the result, all of its rows or those of one group; ``buffers`` have the weights."""
    (planes, filters, sums, work, numbers), (data, steps), (stride, before, dilation) = buffers, conv.data[1:], conv.window
    (outputs, inputs, depth, tall, across), out = conv.weight.sizes, conv.out.sizes
    top = part.row * stride[1] - before[1]
    begin = min(max(top, 0), data[ROW])
    end = max(min(top + (part.rows - 1) * stride[1] + (tall - 1) * dilation[1] + 1, data[ROW]), begin)
    if part.rows == out[ROW]:
        begin, end = 0, data[ROW]
    plane = data[DEPTH] * (end - begin) * data[COLUMN]
    if plane == steps[CHANNEL]:
        widen(conv.data.data, part.first * inputs * plane, part.groups * inputs * plane, planes, 0)
    else:
        for i in range(inputs):
            widen(conv.data.data, (part.first * inputs + i) * steps[CHANNEL] + begin * steps[ROW], plane, planes, i * plane)
    group, g = outputs // conv.groups, part.first % conv.groups
    given, made, positions = part.groups * inputs, part.groups * group, out[DEPTH] * part.rows * out[COLUMN]
    of_weight = (made, inputs, depth, tall, across)
    deep, high, wide = data[DEPTH], end - begin, data[COLUMN]
    some = Convolution(
        Spatial(planes, (1, given, deep, high, wide), (0, plane, high * wide, wide, 1)),
        Filters(from_element(filters, g * group * conv.weight.steps[0]), of_weight, conv.weight.steps),
        Spatial(sums, (1, made, out[DEPTH], part.rows, out[COLUMN]), (0, positions, part.rows * out[COLUMN], out[COLUMN], 1)),
        Window(stride, (before[0], begin - top, before[2]), dilation),
        part.groups,
    )
    limits = Limits(sums, -math.inf, math.inf, False)
    convolve_groups(some, work, numbers, Epilogue(leave, epilogue.argv), limits, 0, part.groups)
    to = part.first * group * conv.out.steps[CHANNEL] + part.row * conv.out.steps[ROW]
    epilogue.finish(epilogue.argv, to, made, positions, sums, 0, positions)
