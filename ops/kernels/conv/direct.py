"""Convolution without a library, for any dtypes and layouts; accumulates in float64.

Indices in inner loops are unsigned: the compiler then omits the check for negative indices, and LLVM vectorises the loops.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from ...native.memory import Array, Axes, Element, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside, sizes_of, strides_of
from .weight_layout import Layouts, group_count, kernel_sizes, kernel_strides

#: Groups, stride, padding before, dilation.
Geometry: TypeAlias = tuple[int, Axes, Axes, Axes]


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
def direct_row(
    data: Array, weight: Array, totals: Array, at: int, w_at: int, inputs: int, row: Axes, sizes: Axes, steps: Axes,
    kernel: Axes, taps: Axes, stride: Axes, before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Add one row of one output channel to ``totals``: its group's first input channel starts at ``at``, its kernel at ``w_at``;
    ``row`` is (depth, row, number of columns) of the result, ``taps`` the kernel's strides of input channel and tap."""
    for x in range(row[2]):
        totals[x] = 0.0
    for i in range(inputs):
        for kz in range(kernel[2]):
            z = row[0] * stride[0] + kz * dilation[0] - before[0]
            for ky in range(kernel[3]):
                y = row[1] * stride[1] + ky * dilation[1] - before[1]
                if 0 <= z < sizes[DEPTH] and 0 <= y < sizes[ROW]:
                    line = at + i * steps[CHANNEL] + z * steps[DEPTH] + y * steps[ROW]
                    tap = w_at + i * taps[1] + (kz * kernel[3] + ky) * kernel[4] * taps[2]
                    for kx in range(kernel[4]):
                        offset = kx * dilation[2] - before[2]
                        first, end = first_inside(offset, stride[2]), end_inside(offset, stride[2], sizes[COLUMN], row[2])
                        factor = np.float64(weight[tap + kx * taps[2]])
                        if first < end:
                            add_row(totals, data, line + offset * steps[COLUMN], stride[2] * steps[COLUMN], first, end, factor)


@generic
def direct_by_rows(
    data: Array, weight: Array, out: Array, totals: Array, sizes: Axes, out_sizes: Axes, kernel: Axes, taps: Axes,
    out_last: bool, data_last: bool, geometry: Geometry,
) -> None:  # fmt: skip
    """Compute each row of each channel separately: for layouts with channels before space."""
    groups, stride, before, dilation = geometry
    steps, out_steps = strides_of(sizes, data_last), strides_of(out_sizes, out_last)
    inputs, outputs = kernel[1], kernel[0] // groups
    for b in range(out_sizes[BATCH]):
        for o in range(out_sizes[CHANNEL]):
            at = b * steps[BATCH] + (o // outputs) * inputs * steps[CHANNEL]
            for z in range(out_sizes[DEPTH]):
                for y in range(out_sizes[ROW]):
                    row = (z, y, out_sizes[COLUMN])
                    direct_row(
                        data, weight, totals, at, o * taps[0], inputs, row, sizes, steps, kernel, taps, stride, before, dilation
                    )
                    to = b * out_steps[BATCH] + o * out_steps[CHANNEL] + z * out_steps[DEPTH] + y * out_steps[ROW]
                    for x in range(out_sizes[COLUMN]):
                        out[to + x * out_steps[COLUMN]] = totals[x]


@generic
def add_channels(
    totals: Array, data: Array, at: int, weight: Array, w_at: int, inputs: int, outputs: int, groups: int, taps: Axes
) -> None:
    """Add one tap of all output channels; the input channels are contiguous in ``data`` from ``at`` on."""
    if outputs == 1 and inputs == 1 and taps[0] == 1:
        for g in range(groups):
            totals[np.uint64(g)] += np.float64(data[np.uint64(at + g)]) * np.float64(weight[np.uint64(w_at + g)])
        return
    for g in range(groups):
        for i in range(inputs):
            factor = np.float64(data[at + g * inputs + i])
            for o in range(g * outputs, (g + 1) * outputs):
                totals[o] += factor * np.float64(weight[w_at + o * taps[0] + i * taps[1]])


@generic
def direct_by_points(
    data: Array, weight: Array, out: Array, totals: Array, sizes: Axes, out_sizes: Axes, kernel: Axes, taps: Axes,
    out_last: bool, geometry: Geometry,
) -> None:  # fmt: skip
    """Compute all channels of one position together: for layouts with channels last."""
    groups, stride, before, dilation = geometry
    steps, out_steps = strides_of(sizes, True), strides_of(out_sizes, out_last)
    inputs, outputs = kernel[1], kernel[0] // groups
    for b in range(out_sizes[BATCH]):
        for z in range(out_sizes[DEPTH]):
            for y in range(out_sizes[ROW]):
                for x in range(out_sizes[COLUMN]):
                    for o in range(kernel[0]):
                        totals[np.uint64(o)] = 0.0
                    for tap in range(kernel[2] * kernel[3] * kernel[4]):
                        iz = z * stride[0] + tap // (kernel[3] * kernel[4]) * dilation[0] - before[0]
                        iy = y * stride[1] + tap // kernel[4] % kernel[3] * dilation[1] - before[1]
                        ix = x * stride[2] + tap % kernel[4] * dilation[2] - before[2]
                        if 0 <= iz < sizes[DEPTH] and 0 <= iy < sizes[ROW] and 0 <= ix < sizes[COLUMN]:
                            at = b * steps[BATCH] + iz * steps[DEPTH] + iy * steps[ROW] + ix * steps[COLUMN]
                            add_channels(totals, data, at, weight, tap * taps[2], inputs, outputs, groups, taps)
                    to = b * out_steps[BATCH] + z * out_steps[DEPTH] + y * out_steps[ROW] + x * out_steps[COLUMN]
                    for o in range(kernel[0]):
                        out[to + o * out_steps[CHANNEL]] = totals[o]


@generic
def convolve_directly(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, totals: Array, stride: Axes,
    before: Axes, dilation: Axes, layouts: Layouts,
) -> None:  # fmt: skip
    """Direct convolution of any dtypes and layouts; ``totals``: one per column of a result row, and at least one per channel."""
    kernel_layout, data_last, out_last = layouts
    sizes, out_sizes = sizes_of(data_dims, data_last), sizes_of(out_dims, out_last)
    kernel = kernel_sizes(weight_dims, kernel_layout)
    taps = kernel_strides(kernel, kernel_layout)
    geometry = (group_count(sizes, kernel), stride, before, dilation)
    if data_last:
        direct_by_points(data, weight, out, totals, sizes, out_sizes, kernel, taps, out_last, geometry)
    else:
        direct_by_rows(data, weight, out, totals, sizes, out_sizes, kernel, taps, out_last, data_last, geometry)
