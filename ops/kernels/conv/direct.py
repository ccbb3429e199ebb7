"""Convolution without a library, for any dtypes and layouts; accumulates in float64.

Indices in inner loops are unsigned: the compiler then omits the check for negative indices, and LLVM vectorises the loops.
"""

from __future__ import annotations

import numpy as np

from ...native.memory import Array, Axes, Element, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside
from .geometry import Convolution, Filters, has_row, tap_count, tap_place, tap_source


@generic
def add_row(totals: Array, data: Array, at: int, step: int, first: int, end: int, factor: Element) -> None:
    """``totals[i] += factor * data[at + i * step]`` from ``first`` to ``end``."""
    if step == 1:
        for i in range(first, end):
            totals[np.uint64(i)] += factor * np.float64(data[np.uint64(at + i)])
    else:
        for i in range(first, end):
            totals[i] += factor * np.float64(data[at + i * step])


@generic
def direct_row(totals: Array, conv: Convolution, at: int, w_at: int, row: Axes) -> None:
    """Add one row of one output channel to ``totals``: its group's first input channel starts at ``at``, its kernel at ``w_at``;
    ``row`` is (depth, row, number of columns) of the result."""
    data, (_, inputs, depth, height, width), steps = conv.data, conv.weight.sizes, conv.weight.steps
    for x in range(row[2]):
        totals[x] = 0.0
    for i in range(inputs):
        for kz in range(depth):
            for ky in range(height):
                z, y, _ = tap_source(conv.window, (row[0], row[1], 0), (kz, ky, 0))
                if has_row(data, z, y):
                    line = at + i * data.steps[CHANNEL] + z * data.steps[DEPTH] + y * data.steps[ROW]
                    tap = w_at + i * steps[1] + (kz * height + ky) * width * steps[2]
                    for kx in range(width):
                        stride, offset = conv.window.stride[2], kx * conv.window.dilation[2] - conv.window.before[2]
                        first, end = first_inside(offset, stride), end_inside(offset, stride, data.sizes[COLUMN], row[2])
                        factor = np.float64(conv.weight.data[tap + kx * steps[2]])
                        if first < end:
                            start, step = line + offset * data.steps[COLUMN], stride * data.steps[COLUMN]
                            add_row(totals, data.data, start, step, first, end, factor)


@generic
def direct_by_rows(totals: Array, conv: Convolution) -> None:
    """Compute each row of each channel separately: for layouts with channels before space."""
    data, out, outputs = conv.data, conv.out, conv.weight.sizes[0] // conv.groups
    for b in range(out.sizes[BATCH]):
        for o in range(out.sizes[CHANNEL]):
            at = b * data.steps[BATCH] + (o // outputs) * conv.weight.sizes[1] * data.steps[CHANNEL]
            for z in range(out.sizes[DEPTH]):
                for y in range(out.sizes[ROW]):
                    direct_row(totals, conv, at, o * conv.weight.steps[0], (z, y, out.sizes[COLUMN]))
                    to = b * out.steps[BATCH] + o * out.steps[CHANNEL] + z * out.steps[DEPTH] + y * out.steps[ROW]
                    for x in range(out.sizes[COLUMN]):
                        out.data[to + x * out.steps[COLUMN]] = totals[x]


@generic
def add_channels(totals: Array, data: Array, at: int, weight: Filters, w_at: int, groups: int) -> None:
    """Add one tap of all output channels; the input channels are contiguous in ``data`` from ``at`` on."""
    outputs, inputs, taps = weight.sizes[0] // groups, weight.sizes[1], weight.steps
    if outputs == 1 and inputs == 1 and taps[0] == 1:
        for g in range(groups):
            totals[np.uint64(g)] += np.float64(data[np.uint64(at + g)]) * np.float64(weight.data[np.uint64(w_at + g)])
        return
    for g in range(groups):
        for i in range(inputs):
            factor = np.float64(data[at + g * inputs + i])
            for o in range(g * outputs, (g + 1) * outputs):
                totals[o] += factor * np.float64(weight.data[w_at + o * taps[0] + i * taps[1]])


@generic
def direct_by_points(totals: Array, conv: Convolution) -> None:
    """Compute all channels of one position together: for layouts with channels last."""
    data, weight, out = conv.data, conv.weight, conv.out
    for b in range(out.sizes[BATCH]):
        for z in range(out.sizes[DEPTH]):
            for y in range(out.sizes[ROW]):
                for x in range(out.sizes[COLUMN]):
                    for o in range(weight.sizes[0]):
                        totals[np.uint64(o)] = 0.0
                    for tap in range(tap_count(weight)):
                        iz, iy, ix = tap_source(conv.window, (z, y, x), tap_place(weight, tap))
                        if has_row(data, iz, iy) and 0 <= ix < data.sizes[COLUMN]:
                            at = b * data.steps[BATCH] + iz * data.steps[DEPTH] + iy * data.steps[ROW] + ix * data.steps[COLUMN]
                            add_channels(totals, data.data, at, weight, tap * weight.steps[2], conv.groups)
                    to = b * out.steps[BATCH] + z * out.steps[DEPTH] + y * out.steps[ROW] + x * out.steps[COLUMN]
                    for o in range(weight.sizes[0]):
                        out.data[to + o * out.steps[CHANNEL]] = totals[o]


@generic
def convolve_directly(conv: Convolution, totals: Array, data_last: bool) -> None:
    """Direct convolution of any dtypes and layouts; ``totals``: one per column of a result row, and at least one per channel."""
    if data_last:
        direct_by_points(totals, conv)
    else:
        direct_by_rows(totals, conv)
