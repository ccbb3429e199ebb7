"""Convolution as matrix products by a library: of the weight and the data, or columns that are gathered from these (im2col).

Indices in inner loops are unsigned: the compiler then omits the check for negative indices, and LLVM vectorises the loops.
"""

from __future__ import annotations

import numpy as np

from ...native.blas.blas_call import MatrixAt, Product
from ...native.blas.gemm import call_gemm
from ...native.memory import Array, Axes, generic
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside
from .geometry import Convolution, has_row, position, position_count, tap_count, tap_place, tap_source
from .weight_layout import OUT_IN_SPACE, SPACE_IN_OUT, Layouts

#: The number of gathered elements per tile, which stays in the cache; but at least LEAST_PLACES positions of the result.
COLUMNS, LEAST_POSITIONS = 2**18, 16


@generic
def flipped(matrix: MatrixAt) -> MatrixAt:
    """The transposed matrix."""
    return MatrixAt(matrix.at, matrix.step, not matrix.transposed)


@generic
def multiply(gemm: int, size: int, a: MatrixAt, b: MatrixAt, out: MatrixAt, shape: Axes) -> None:
    """Row-major ``out[m, n] = a @ b``; ``shape``: m, n and the number of terms; ``size``: bytes of an element."""
    m, n, k = shape
    call_gemm(gemm, Product(size, n, m, k, b, a, out))


@generic
def gather_run(columns: Array, to: int, count: int, data: Array, at: int, step: int, first: int, end: int) -> None:
    """``columns[to + i] = data[at + i * step]`` from ``first`` to ``end`` of ``count``, 0 before and after."""
    for i in range(first):
        columns[to + i] = 0
    if step == 1:
        for i in range(first, end):
            columns[np.uint64(to + i)] = data[np.uint64(at + i)]
    else:
        for i in range(first, end):
            columns[np.uint64(to + i)] = data[np.uint64(at + i * step)]
    for i in range(end, count):
        columns[to + i] = 0


@generic
def gather_tap(columns: Array, to: int, conv: Convolution, at: int, tap: Axes, place: Axes, count: int) -> None:
    """Gather operands of a tap (depth, row, column) at ``count`` positions from ``place`` on; the channel starts at ``at``."""
    data, out, stride = conv.data, conv.out, conv.window.stride[2]
    offset = tap[2] * conv.window.dilation[2] - conv.window.before[2]
    # bounds within a whole row of the result
    inside, outside = first_inside(offset, stride), end_inside(offset, stride, data.sizes[COLUMN], out.sizes[COLUMN])
    (z, y, x), done = place, 0
    while done < count:
        run = min(count - done, out.sizes[COLUMN] - x)
        iz, iy, ix = tap_source(conv.window, (z, y, x), tap)
        first, end = run, run
        if has_row(data, iz, iy):
            first = min(max(inside - x, 0), run)
            end = max(min(outside - x, run), first)
        line = at + iz * data.steps[DEPTH] + iy * data.steps[ROW] + ix * data.steps[COLUMN]
        gather_run(columns, to + done, run, data.data, line, stride * data.steps[COLUMN], first, end)
        done += run
        x = 0
        y += 1
        if y == out.sizes[ROW]:
            y = 0
            z += 1


@generic
def gather_by_rows(columns: Array, conv: Convolution, at: int, begin: int, count: int, order: Axes) -> None:
    """``columns[k, j]``: the operand of kernel element k at position ``begin + j`` of the result; the input starts at ``at``.

    ``order``: the strides of k per input channel and per tap.
    """
    (_, inputs, depth, height, width), place = conv.weight.sizes, position(conv.out, begin)
    for i in range(inputs):
        for z in range(depth):
            for y in range(height):
                for x in range(width):
                    to = (i * order[0] + ((z * height + y) * width + x) * order[1]) * count
                    gather_tap(columns, to, conv, at + i * conv.data.steps[CHANNEL], (z, y, x), place, count)


@generic
def gather_by_points(columns: Array, conv: Convolution, at: int, begin: int, count: int, order: Axes) -> None:
    """``columns[j, k]``: ``gather_by_rows``, transposed."""
    data, inputs, taps = conv.data, conv.weight.sizes[1], tap_count(conv.weight)
    for j in range(count):
        place = position(conv.out, begin + j)
        for tap in range(taps):
            z, y, x = tap_source(conv.window, place, tap_place(conv.weight, tap))
            to = j * inputs * taps + tap * order[1]
            if has_row(data, z, y) and 0 <= x < data.sizes[COLUMN]:
                line = at + z * data.steps[DEPTH] + y * data.steps[ROW] + x * data.steps[COLUMN]
                for i in range(inputs):
                    columns[np.uint64(to + i * order[0])] = data.data[np.uint64(line + i * data.steps[CHANNEL])]
            else:
                for i in range(inputs):
                    columns[np.uint64(to + i * order[0])] = 0


@generic
def multiply_tile(gemm: int, size: int, weight: MatrixAt, columns: MatrixAt, out: MatrixAt, shape: Axes, out_last: bool) -> None:
    """The product of one group for some positions, into channels of the result.

    ``shape``: the output channels, positions and terms.
    """
    if out_last:
        multiply(gemm, size, flipped(columns), flipped(weight), out, (shape[1], shape[0], shape[2]))
    else:
        multiply(gemm, size, weight, columns, out, shape)


@generic
def tile_length(conv: Convolution) -> int:
    """The number of positions per tile of gathered columns."""
    return min(position_count(conv.out), max(LEAST_POSITIONS, COLUMNS // max(conv.weight.sizes[1] * tap_count(conv.weight), 1)))


@generic
def weight_matrix(conv: Convolution, group: int, terms: int, layout: int) -> MatrixAt:
    """The weight of a group: a row for each output channel."""
    outputs, is_transposed = conv.weight.sizes[0], layout == SPACE_IN_OUT
    at = group * (outputs // conv.groups) * conv.weight.steps[0] * conv.weight.data.itemsize
    return MatrixAt(conv.weight.data.ctypes.data + at, outputs if is_transposed else terms, is_transposed)


@generic
def multiply_columns(conv: Convolution, columns: Array, is_gathered: bool, gemm: int, layouts: Layouts) -> None:
    """Multiply the weight by the columns of a tile that are gathered in ``columns``, or else by the data themselves."""
    kernel_layout, data_last, out_last = layouts
    data, out, inputs = conv.data, conv.out, conv.weight.sizes[1]
    size, plane, outputs = out.data.itemsize, position_count(out), conv.weight.sizes[0] // conv.groups
    terms, tile = inputs * tap_count(conv.weight), tile_length(conv) if is_gathered else plane
    order = (conv.weight.steps[1], 1) if kernel_layout == OUT_IN_SPACE else (1, inputs)
    for b in range(data.sizes[BATCH]):
        for g in range(conv.groups):
            at = b * data.steps[BATCH] + g * inputs * data.steps[CHANNEL]
            to = b * out.steps[BATCH] + g * outputs * out.steps[CHANNEL]
            for begin in range(0, plane, tile):
                n = min(tile, plane - begin)
                operand = MatrixAt(data.data.ctypes.data + at * size, data.sizes[CHANNEL] if data_last else plane, data_last)
                if is_gathered:
                    if data_last:
                        gather_by_points(columns, conv, at, begin, n, order)
                    else:
                        gather_by_rows(columns, conv, at, begin, n, order)
                    operand = MatrixAt(columns.ctypes.data, terms if data_last else n, data_last)
                y = out.data.ctypes.data + (to + begin * out.steps[COLUMN]) * size
                results = MatrixAt(y, out.sizes[CHANNEL] if out_last else plane, False)
                weight = weight_matrix(conv, g, terms, kernel_layout)
                multiply_tile(gemm, size, weight, operand, results, (outputs, n, terms), out_last)
