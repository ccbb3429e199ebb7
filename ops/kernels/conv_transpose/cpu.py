"""Transposed convolution: each element of the data adds a kernel to the result.

With a BLAS and enough channels: products of kernel and data, a tile of positions at a time, whose rows are scattered to the
result (col2im); float32 then accumulates in float32.  The direct algorithm computes the result row by row and accumulates in
float64.

``groups``, ``window`` (with cropped elements for padding) and ``layouts`` (whether space is first in the kernel, whether the
channels of the data are last, whether those of the result are last) are constants of the compiled code.
"""

from __future__ import annotations

import numpy as np

from ...native.blas.blas_call import MatrixAt
from ...native.memory import Array, Axes, Element, generic
from ...native.status import OK
from ..conv.geometry import Convolution, Filters, Window, has_row, position, position_count, tap_count, tap_place, tap_source
from ..conv.matrices import multiply
from ..matmul.cpu import BLAS_LIMIT
from ..shaped import Shaped
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside, spatial, spatial_size

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


@generic
def transposed_convolution(
    data: Shaped, weight: Shaped, out: Shaped, groups: int, window: Window, layouts: tuple[bool, ...]
) -> Convolution:
    """The transposed convolution of tensors in ``layouts``: sizes and steps of its weight have channels of the data first."""
    sizes = kernel_sizes(weight.dims, layouts[0])
    filters = Filters(weight.data, sizes, kernel_strides(sizes, layouts[0]))
    return Convolution(spatial(data, layouts[1]), filters, spatial(out, layouts[2]), window, groups)


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
def direct_row(totals: Array, conv: Convolution, at: int, w_at: int, row: Axes) -> None:
    """Add one row of one channel of the result to ``totals``: its group's first input channel starts at ``at``, the kernel of the
    channel pair at ``w_at``; ``row`` is (depth, row, number of columns) of the result."""
    data, (_, _, depth, height, width), taps, (stride, before, dilation) = (
        conv.data,
        conv.weight.sizes,
        conv.weight.steps,
        conv.window,
    )
    for x in range(row[2]):
        totals[x] = 0.0
    for i in range(conv.weight.sizes[0] // conv.groups):
        for kz in range(depth):
            z = source_of(row[0], kz, stride[0], before[0], dilation[0], data.sizes[DEPTH])
            for ky in range(height):
                y = source_of(row[1], ky, stride[1], before[1], dilation[1], data.sizes[ROW])
                if z < 0 or y < 0:
                    continue
                line = at + i * data.steps[CHANNEL] + z * data.steps[DEPTH] + y * data.steps[ROW]
                for kx in range(width):
                    offset = kx * dilation[2] - before[2]
                    first = first_inside(offset, stride[2])
                    end = end_inside(offset, stride[2], row[2], data.sizes[COLUMN])
                    factor = np.float64(conv.weight.data[w_at + i * taps[0] + ((kz * height + ky) * width + kx) * taps[2]])
                    spread_row(totals, data.data, line, data.steps[COLUMN], first, end, factor, offset, stride[2])


@generic
def transpose_directly(conv: Convolution, totals: Array) -> None:
    """Direct transposed convolution of any dtypes and layouts; ``totals``: one per column of a result row."""
    data, out, taps = conv.data, conv.out, conv.weight.steps
    inputs, outputs = conv.weight.sizes[0] // conv.groups, conv.weight.sizes[1]
    for b in range(out.sizes[BATCH]):
        for o in range(out.sizes[CHANNEL]):
            group = o // outputs
            at = b * data.steps[BATCH] + group * inputs * data.steps[CHANNEL]
            w_at = group * inputs * taps[0] + o % outputs * taps[1]
            for z in range(out.sizes[DEPTH]):
                for y in range(out.sizes[ROW]):
                    direct_row(totals, conv, at, w_at, (z, y, out.sizes[COLUMN]))
                    to = b * out.steps[BATCH] + o * out.steps[CHANNEL] + z * out.steps[DEPTH] + y * out.steps[ROW]
                    for x in range(out.sizes[COLUMN]):
                        out.data[to + x * out.steps[COLUMN]] = totals[x]


@generic
def transposed_directly(
    data: Shaped, weight: Shaped, out: Shaped, columns: Array, totals: Array, gemm: int, groups: int, window: Window,
    layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """Direct transposed convolution of any dtypes and layouts; ``totals``: one per column of a result row."""
    transpose_directly(transposed_convolution(data, weight, out, groups, window, layouts), totals)
    return OK


# ---- as matrix products ----------------------------------------------------------------------------------------------


@generic
def spread_products(columns: Array, conv: Convolution, to: int, begin: int, count: int, tap: int) -> None:
    """Add ``columns``, the products of one tap at ``count`` data positions from ``begin`` on, to the channel at ``to``."""
    data, out, stride, place, done = conv.data, conv.out, conv.window.stride[2], tap_place(conv.weight, tap), 0
    while done < count:
        at = position(data, begin + done)
        run = min(count - done, data.sizes[COLUMN] - at[2])
        z, y, x = tap_source(conv.window, at, place)
        if has_row(out, z, y):
            first = first_inside(x, stride)
            end = end_inside(x, stride, out.sizes[COLUMN], run)
            line = to + z * out.steps[DEPTH] + y * out.steps[ROW] + x * out.steps[COLUMN]
            step = stride * out.steps[COLUMN]
            if step == 1:
                for i in range(first, end):
                    out.data[np.uint64(line + i)] += columns[np.uint64(done + i)]
            else:
                for i in range(first, end):
                    out.data[line + i * step] += columns[done + i]
        done += run


@generic
def add_products(conv: Convolution, columns: Array, gemm: int, layouts: tuple[bool, ...]) -> None:
    """Tile by tile: multiply, scatter; ``columns`` holds a tile."""
    space_first, data_last, _ = layouts
    data, weight, out, size, positions = conv.data, conv.weight, conv.out, conv.out.data.itemsize, position_count(conv.data)
    n_taps, inputs, outputs = tap_count(weight), weight.sizes[0] // conv.groups, weight.sizes[1]
    terms = outputs * n_taps
    tile = len(columns) // terms
    for b in range(data.sizes[BATCH]):
        for g in range(conv.groups):
            w = weight.data.ctypes.data + g * inputs * weight.steps[0] * size
            x = data.data.ctypes.data + (b * data.steps[BATCH] + g * inputs * data.steps[CHANNEL]) * size
            for begin in range(0, positions, tile):
                n = min(tile, positions - begin)
                filters = MatrixAt(w, weight.sizes[0] if space_first else terms, not space_first)
                at = x + begin * data.steps[COLUMN] * size
                operand = MatrixAt(at, data.sizes[CHANNEL] if data_last else positions, data_last)
                multiply(gemm, size, filters, operand, MatrixAt(columns.ctypes.data, n, False), (terms, n, inputs))
                for o in range(outputs):
                    to = b * out.steps[BATCH] + (g * outputs + o) * out.steps[CHANNEL]
                    for tap in range(n_taps):
                        row = tap * outputs + o if space_first else o * n_taps + tap
                        spread_products(columns[row * n : (row + 1) * n], conv, to, begin, n, tap)


@generic
def takes_products(conv: Convolution, gemm: int) -> bool:
    """Whether matrix products are possible and profitable.  A BLAS counts to BLAS_LIMIT and rejects sizes of 0."""
    inputs, positions, terms = conv.weight.sizes[0], position_count(conv.data), conv.weight.sizes[1] * tap_count(conv.weight)
    largest = max(max(positions, terms), max(inputs, conv.data.sizes[CHANNEL]))
    return gemm != 0 and positions > 0 and terms > 0 and inputs >= conv.groups * LEAST_CHANNELS and largest <= BLAS_LIMIT


@generic
def transposed(
    data: Shaped, weight: Shaped, out: Shaped, columns: Array, totals: Array, gemm: int, groups: int, window: Window,
    layouts: tuple[bool, ...],
) -> int:  # fmt: skip
    """Transposed convolution of tensors that are all float32 or all float64; ``columns`` holds a tile of products."""
    conv = transposed_convolution(data, weight, out, groups, window, layouts)
    if not takes_products(conv, gemm):
        transpose_directly(conv, totals)
        return OK
    for i in range(len(out.data)):
        out.data[i] = 0
    add_products(conv, columns, gemm, layouts)
    return OK
