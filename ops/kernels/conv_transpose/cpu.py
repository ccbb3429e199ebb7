"""Transposed convolution: each element of the data adds a kernel to the result.

With a BLAS and enough channels: products of kernel and data, a tile of positions at a time, whose rows are scattered to the
result (col2im); float32 then accumulates in float32.  The direct algorithm computes the result row by row and accumulates in
float64.

``groups``, ``stride``, ``before`` (cropped elements), ``dilation`` and ``layouts`` (whether space is first in the kernel, whether
the channels of the data are last, whether those of the result are last) are constants of the compiled code.
"""

from __future__ import annotations

import numpy as np

from ...native.memory import Array, Axes, Element, generic
from ...native.status import OK
from ..conv.cpu import multiply
from ..matmul.cpu import BLAS_LIMIT
from ..spatial.cpu import (
    BATCH,
    CHANNEL,
    COLUMN,
    DEPTH,
    ROW,
    end_inside,
    first_inside,
    sizes_of,
    spatial_size,
    strides_of,
)

#: The number of product elements per tile, which stays in the cache; but at least LEAST_PLACES positions of the data.
COLUMNS, LEAST_POSITIONS = 2**18, 16
#: With fewer channels to sum over, a product is slower than the direct algorithm.
LEAST_CHANNELS = 4


@generic
def kernel_sizes(dims: Axes, space_first: bool) -> tuple[int, int, int, int, int]:
    """Sizes of a kernel: channels of the data, output channels of a group, depth, rows, columns."""
    last = len(dims) - 1
    first = 0 if space_first else 2
    inputs, outputs = (dims[last], dims[last - 1]) if space_first else (dims[0], dims[1])
    return inputs, outputs, spatial_size(dims, 0, first), spatial_size(dims, 1, first), spatial_size(dims, 2, first)


@generic
def kernel_strides(kernel: Axes, space_first: bool) -> tuple[int, int, int]:
    """Strides of a kernel: data channel, result channel, tap."""
    inputs, outputs, taps = kernel[0], kernel[1], kernel[2] * kernel[3] * kernel[4]
    return (1, inputs, inputs * outputs) if space_first else (outputs * taps, taps, 1)


# ---- directly ------------------------------------------------------------------------------------------------------


@generic
def source_of(place: int, tap: int, stride: int, before: int, dilation: int, size: int) -> int:
    """The data index from which the tap contributes to ``place`` of the result; -1 for none."""
    away = place + before - tap * dilation
    if away < 0 or away % stride != 0 or away // stride >= size:
        return -1
    return away // stride


@generic
def spread_row(
    totals: Array, data: Array, at: int, step: int, first: int, end: int, factor: Element, offset: int, stride: int
) -> None:
    """``totals[i * stride + offset] += factor * data[at + i * step]`` from ``first`` to ``end``."""
    if step == 1 and stride == 1:
        for i in range(first, end):
            totals[np.uint64(i + offset)] += factor * np.float64(data[np.uint64(at + i)])
    else:
        for i in range(first, end):
            totals[i * stride + offset] += factor * np.float64(data[at + i * step])


@generic
def direct_row(
    data: Array, weight: Array, totals: Array, at: int, w_at: int, inputs: int, row: Axes, sizes: Axes, steps: Axes,
    kernel: Axes, taps: Axes, stride: Axes, before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Add one row of one channel of the result to ``totals``: its group's first input channel starts at ``at``, the kernel of the
    channel pair at ``w_at``; ``row`` is (depth, row, number of columns) of the result."""
    for x in range(row[2]):
        totals[x] = 0.0
    for i in range(inputs):
        for kz in range(kernel[2]):
            z = source_of(row[0], kz, stride[0], before[0], dilation[0], sizes[DEPTH])
            for ky in range(kernel[3]):
                y = source_of(row[1], ky, stride[1], before[1], dilation[1], sizes[ROW])
                if z < 0 or y < 0:
                    continue
                line = at + i * steps[CHANNEL] + z * steps[DEPTH] + y * steps[ROW]
                for kx in range(kernel[4]):
                    offset = kx * dilation[2] - before[2]
                    first = first_inside(offset, stride[2])
                    end = end_inside(offset, stride[2], row[2], sizes[COLUMN])
                    tap = w_at + i * taps[0] + ((kz * kernel[3] + ky) * kernel[4] + kx) * taps[2]
                    spread_row(totals, data, line, steps[COLUMN], first, end, np.float64(weight[tap]), offset, stride[2])


@generic
def transposed_directly(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, columns: Array, totals: Array,
    gemm: int, groups: int, stride: Axes, before: Axes, dilation: Axes, layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """Direct transposed convolution of any dtypes and layouts; ``totals``: one per column of a result row."""
    sizes, out_sizes = sizes_of(data_dims, layouts[1]), sizes_of(out_dims, layouts[2])
    kernel = kernel_sizes(weight_dims, layouts[0])
    taps, steps, out_steps = kernel_strides(kernel, layouts[0]), strides_of(sizes, layouts[1]), strides_of(out_sizes, layouts[2])
    inputs, outputs = kernel[0] // groups, kernel[1]
    for b in range(out_sizes[BATCH]):
        for o in range(out_sizes[CHANNEL]):
            group = o // outputs
            at = b * steps[BATCH] + group * inputs * steps[CHANNEL]
            w_at = group * inputs * taps[0] + o % outputs * taps[1]
            for z in range(out_sizes[DEPTH]):
                for y in range(out_sizes[ROW]):
                    row = (z, y, out_sizes[COLUMN])
                    direct_row(data, weight, totals, at, w_at, inputs, row, sizes, steps, kernel, taps, stride, before, dilation)
                    to = b * out_steps[BATCH] + o * out_steps[CHANNEL] + z * out_steps[DEPTH] + y * out_steps[ROW]
                    for x in range(out_sizes[COLUMN]):
                        out[to + x * out_steps[COLUMN]] = totals[x]
    return OK


# ---- as matrix products ----------------------------------------------------------------------------------------------


@generic
def spread_products(
    columns: Array, out: Array, to: int, begin: int, count: int, tap: int, sizes: Axes, out_sizes: Axes, out_steps: Axes,
    kernel: Axes, stride: Axes, before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Add ``columns``, the products of one tap at ``count`` data positions from ``begin`` on, to the channel at ``to``."""
    kz, ky, kx = tap // (kernel[3] * kernel[4]), tap // kernel[4] % kernel[3], tap % kernel[4]
    offset, done = kx * dilation[2] - before[2], 0
    while done < count:
        p = begin + done
        x = p % sizes[COLUMN]
        run = min(count - done, sizes[COLUMN] - x)
        z = p // sizes[COLUMN] // sizes[ROW] * stride[0] + kz * dilation[0] - before[0]
        y = p // sizes[COLUMN] % sizes[ROW] * stride[1] + ky * dilation[1] - before[1]
        if 0 <= z < out_sizes[DEPTH] and 0 <= y < out_sizes[ROW]:
            start = offset + x * stride[2]
            first = first_inside(start, stride[2])
            end = end_inside(start, stride[2], out_sizes[COLUMN], run)
            line = to + z * out_steps[DEPTH] + y * out_steps[ROW] + start * out_steps[COLUMN]
            step = stride[2] * out_steps[COLUMN]
            if step == 1:
                for i in range(first, end):
                    out[np.uint64(line + i)] += columns[np.uint64(done + i)]
            else:
                for i in range(first, end):
                    out[line + i * step] += columns[done + i]
        done += run


@generic
def add_products(
    data: Array, weight: Array, out: Array, columns: Array, sizes: Axes, out_sizes: Axes, kernel: Axes, gemm: int, groups: int,
    stride: Axes, before: Axes, dilation: Axes, layouts: tuple[bool, ...],
) -> None:  # fmt: skip
    """Tile by tile: multiply, scatter; ``columns`` holds a tile."""
    space_first, data_last, out_last = layouts
    size, positions = out.itemsize, sizes[DEPTH] * sizes[ROW] * sizes[COLUMN]
    n_taps, inputs, outputs = kernel[2] * kernel[3] * kernel[4], kernel[0] // groups, kernel[1]
    terms = outputs * n_taps
    taps, steps, out_steps = kernel_strides(kernel, space_first), strides_of(sizes, data_last), strides_of(out_sizes, out_last)
    tile = len(columns) // terms
    for b in range(sizes[BATCH]):
        for g in range(groups):
            w = weight.ctypes.data + g * inputs * taps[0] * size
            x = data.ctypes.data + (b * steps[BATCH] + g * inputs * steps[CHANNEL]) * size
            for begin in range(0, positions, tile):
                n = min(tile, positions - begin)
                ldw, ldx = kernel[0] if space_first else terms, sizes[CHANNEL] if data_last else positions
                at = x + begin * steps[COLUMN] * size
                multiply(gemm, size, w, ldw, not space_first, at, ldx, data_last, columns.ctypes.data, n, terms, n, inputs)
                for o in range(outputs):
                    to = b * out_steps[BATCH] + (g * outputs + o) * out_steps[CHANNEL]
                    for tap in range(n_taps):
                        row = tap * outputs + o if space_first else o * n_taps + tap
                        spread_products(
                            columns[row * n : (row + 1) * n], out, to, begin, n, tap, sizes, out_sizes, out_steps, kernel, stride,
                            before, dilation,
                        )  # fmt: skip


@generic
def takes_products(sizes: Axes, kernel: Axes, gemm: int, groups: int) -> bool:
    """Whether matrix products are possible and profitable.  A BLAS counts to BLAS_LIMIT and rejects sizes of 0."""
    positions, terms = sizes[DEPTH] * sizes[ROW] * sizes[COLUMN], kernel[1] * kernel[2] * kernel[3] * kernel[4]
    largest = max(max(positions, terms), max(kernel[0], sizes[CHANNEL]))
    return gemm != 0 and positions > 0 and terms > 0 and kernel[0] >= groups * LEAST_CHANNELS and largest <= BLAS_LIMIT


@generic
def transposed(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, columns: Array, totals: Array,
    gemm: int, groups: int, stride: Axes, before: Axes, dilation: Axes, layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """Transposed convolution of tensors that are all float32 or all float64; ``columns`` holds a tile of products."""
    sizes, out_sizes = sizes_of(data_dims, layouts[1]), sizes_of(out_dims, layouts[2])
    kernel = kernel_sizes(weight_dims, layouts[0])
    if not takes_products(sizes, kernel, gemm, groups):
        return transposed_directly(
            data, data_dims, weight, weight_dims, out, out_dims, columns, totals, gemm, groups, stride, before, dilation, layouts
        )
    for i in range(len(out)):
        out[i] = 0
    add_products(data, weight, out, columns, sizes, out_sizes, kernel, gemm, groups, stride, before, dilation, layouts)
    return OK
