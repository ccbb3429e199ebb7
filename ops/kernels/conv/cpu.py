"""Convolution: by tiles (``tiles``, ``by_shifts``), by matrix products over gathered columns (im2col), by planes, or directly.

Tiles and planes accumulate in the dtype of the data, in order; im2col as the BLAS does; the direct algorithm in float64.
``ops.strategy.convolution.conv_strategy`` chooses.

Indices in inner loops are unsigned: the compiler then omits the check for negative indices, and LLVM vectorises the loops.

``stride``, ``before`` (padding), ``dilation`` and ``layouts`` (kernel layout, whether the channels of the data are last, whether
those of the result are last) are constants of the compiled code.  Sizes and the number of groups are not: convolutions of one
network share their code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...native.blas.gemm import call_gemm
from ...native.inlining import apart
from ...native.memory import Array, Axes, generic
from ...native.status import OK
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside, sizes_of, strides_of
from .by_channels import convolve_channels, has_few_positions
from .by_plane import convolve_planes
from .by_positions import convolve_positions
from .by_rows import convolve_rows
from .by_shifts import convolve_shifts
from .by_taps import convolve_taps
from .by_winograd import BAND, convolve_winograd, transform_weight
from .depthwise import convolve_depthwise, has_windows, is_depthwise
from .direct import convolve_directly
from .tiles import convolve_tiles
from .weight_layout import OUT_IN_SPACE, SPACE_IN_OUT, Layouts, group_count, kernel_sizes, kernel_strides

#: The number of gathered elements per tile, which stays in the cache; but at least LEAST_PLACES positions of the result.
COLUMNS, LEAST_POSITIONS = 2**18, 16


# ---- as matrix products ----------------------------------------------------------------------------------------------


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
def gather_tap(
    columns: Array, to: int, data: Array, at: int, tap: Axes, place: Axes, count: int, sizes: Axes, steps: Axes, out_sizes: Axes,
    stride: Axes, before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """Gather operands of a tap (depth, row, column) at ``count`` positions from ``place`` on; the channel starts at ``at``."""
    step, offset = stride[2] * steps[COLUMN], tap[2] * dilation[2] - before[2]
    # bounds within a whole row of the result
    inside, outside = first_inside(offset, stride[2]), end_inside(offset, stride[2], sizes[COLUMN], out_sizes[COLUMN])
    z, y, x = place
    done = 0
    while done < count:
        run = min(count - done, out_sizes[COLUMN] - x)
        iz = z * stride[0] + tap[0] * dilation[0] - before[0]
        iy = y * stride[1] + tap[1] * dilation[1] - before[1]
        first, end = run, run
        if 0 <= iz < sizes[DEPTH] and 0 <= iy < sizes[ROW]:
            first = min(max(inside - x, 0), run)
            end = max(min(outside - x, run), first)
        line = at + iz * steps[DEPTH] + iy * steps[ROW] + (offset + x * stride[2]) * steps[COLUMN]
        gather_run(columns, to + done, run, data, line, step, first, end)
        done += run
        x = 0
        y += 1
        if y == out_sizes[ROW]:
            y = 0
            z += 1


@generic
def gather_by_rows(
    columns: Array, data: Array, at: int, begin: int, count: int, sizes: Axes, steps: Axes, out_sizes: Axes, kernel: Axes,
    order: Axes, stride: Axes, before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """``columns[k, j]``: the operand of kernel element k at position ``begin + j`` of the result; the input starts at ``at``.

    ``order``: the strides of k per input channel and per tap.
    """
    row = begin // out_sizes[COLUMN]
    place = (row // out_sizes[ROW], row % out_sizes[ROW], begin % out_sizes[COLUMN])
    for i in range(kernel[1]):
        for z in range(kernel[2]):
            for y in range(kernel[3]):
                for x in range(kernel[4]):
                    to = (i * order[0] + ((z * kernel[3] + y) * kernel[4] + x) * order[1]) * count
                    line = at + i * steps[CHANNEL]
                    gather_tap(
                        columns, to, data, line, (z, y, x), place, count, sizes, steps, out_sizes, stride, before, dilation
                    )


@generic
def gather_by_points(
    columns: Array, data: Array, at: int, begin: int, count: int, sizes: Axes, steps: Axes, out_sizes: Axes, kernel: Axes,
    order: Axes, stride: Axes, before: Axes, dilation: Axes,
) -> None:  # fmt: skip
    """``columns[j, k]``: ``gather_by_rows``, transposed."""
    inputs, taps = kernel[1], kernel[2] * kernel[3] * kernel[4]
    for j in range(count):
        p = begin + j
        x, y, z = p % out_sizes[COLUMN], p // out_sizes[COLUMN] % out_sizes[ROW], p // out_sizes[COLUMN] // out_sizes[ROW]
        for tap in range(taps):
            iz = z * stride[0] + tap // (kernel[3] * kernel[4]) * dilation[0] - before[0]
            iy = y * stride[1] + tap // kernel[4] % kernel[3] * dilation[1] - before[1]
            ix = x * stride[2] + tap % kernel[4] * dilation[2] - before[2]
            to = j * inputs * taps + tap * order[1]
            if 0 <= iz < sizes[DEPTH] and 0 <= iy < sizes[ROW] and 0 <= ix < sizes[COLUMN]:
                line = at + iz * steps[DEPTH] + iy * steps[ROW] + ix * steps[COLUMN]
                for i in range(inputs):
                    columns[np.uint64(to + i * order[0])] = data[np.uint64(line + i * steps[CHANNEL])]
            else:
                for i in range(inputs):
                    columns[np.uint64(to + i * order[0])] = 0


@generic
def multiply(
    gemm: int, size: int, a: int, lda: int, transpose_a: bool, b: int, ldb: int, transpose_b: bool, c: int, ldc: int, m: int,
    n: int, k: int,
) -> None:  # fmt: skip
    """Row-major ``c[m, n] = op(a) @ op(b)`` at addresses."""
    call_gemm(gemm, size, 1 if transpose_b else 0, 1 if transpose_a else 0, n, m, k, b, ldb, a, lda, c, ldc)


@generic
def multiply_tile(
    gemm: int, size: int, weight: int, columns: int, out: int, m: int, n: int, k: int, outputs: int, ld: Axes, layouts: Layouts
) -> None:
    """The product of one group for ``n`` positions: weight and columns in their layouts, into channels of the result.

    ``m`` of the ``outputs`` channels are computed; ``ld``: the leading dimensions of columns and result.
    """
    kernel_layout, data_last, out_last = layouts
    weight_is_transposed = kernel_layout == SPACE_IN_OUT
    ldw = outputs if weight_is_transposed else k
    if out_last:
        multiply(gemm, size, columns, ld[0], not data_last, weight, ldw, not weight_is_transposed, out, ld[1], n, m, k)
    else:
        multiply(gemm, size, weight, ldw, weight_is_transposed, columns, ld[0], data_last, out, ld[1], m, n, k)


@generic
def tile_length(kernel: Axes, plane: int) -> int:
    """The number of positions per tile of gathered columns."""
    terms = kernel[1] * kernel[2] * kernel[3] * kernel[4]
    return min(plane, max(LEAST_POSITIONS, COLUMNS // max(terms, 1)))


@generic
def multiply_pointwise(
    data: Array, weight: Array, out: Array, sizes: Axes, out_sizes: Axes, kernel: Axes, gemm: int, groups: int, layouts: Layouts
) -> None:
    """Multiply without gathering: the data are the columns."""
    kernel_layout, data_last, out_last = layouts
    size, plane = out.itemsize, out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]
    taps = kernel_strides(kernel, kernel_layout)
    steps, out_steps = strides_of(sizes, data_last), strides_of(out_sizes, out_last)
    ld = (sizes[CHANNEL] if data_last else plane, out_sizes[CHANNEL] if out_last else plane)
    outputs = kernel[0] // groups
    for b in range(sizes[BATCH]):
        for g in range(groups):
            w = weight.ctypes.data + g * outputs * taps[0] * size
            x = data.ctypes.data + (b * steps[BATCH] + g * kernel[1] * steps[CHANNEL]) * size
            y = out.ctypes.data + (b * out_steps[BATCH] + g * outputs * out_steps[CHANNEL]) * size
            multiply_tile(gemm, size, w, x, y, outputs, plane, kernel[1], kernel[0], ld, layouts)


@generic
def multiply_gathered(
    data: Array, weight: Array, out: Array, columns: Array, sizes: Axes, out_sizes: Axes, kernel: Axes, gemm: int, groups: int,
    stride: Axes, before: Axes, dilation: Axes, layouts: Layouts,
) -> None:  # fmt: skip
    """Tile by tile: gather columns, multiply."""
    kernel_layout, data_last, out_last = layouts
    size, plane = out.itemsize, out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]
    taps = kernel_strides(kernel, kernel_layout)
    terms = kernel[1] * kernel[2] * kernel[3] * kernel[4]
    order = (taps[1], 1) if kernel_layout == OUT_IN_SPACE else (1, kernel[1])
    steps, out_steps = strides_of(sizes, data_last), strides_of(out_sizes, out_last)
    outputs, tile = kernel[0] // groups, tile_length(kernel, plane)
    for b in range(sizes[BATCH]):
        for g in range(groups):
            at = b * steps[BATCH] + g * kernel[1] * steps[CHANNEL]
            w = weight.ctypes.data + g * outputs * taps[0] * size
            to = b * out_steps[BATCH] + g * outputs * out_steps[CHANNEL]
            for begin in range(0, plane, tile):
                n = min(tile, plane - begin)
                if data_last:
                    gather_by_points(
                        columns, data, at, begin, n, sizes, steps, out_sizes, kernel, order, stride, before, dilation
                    )
                else:
                    gather_by_rows(columns, data, at, begin, n, sizes, steps, out_sizes, kernel, order, stride, before, dilation)
                y = out.ctypes.data + (to + begin * out_steps[COLUMN]) * size
                ld = (terms if data_last else n, out_sizes[CHANNEL] if out_last else plane)
                multiply_tile(gemm, size, w, columns.ctypes.data, y, outputs, n, terms, kernel[0], ld, layouts)


@generic
def is_trivial(out: Array, kernel: Axes) -> bool:
    """Whether the result is empty or every element is an empty sum; empty sums are stored here."""
    terms = kernel[1] * kernel[2] * kernel[3] * kernel[4]
    if terms == 0:
        for i in range(out.size):
            out[i] = 0
    return terms == 0 or out.size == 0


@generic
def is_finished(out: Array, kernel: Axes, out_sizes: Axes, finish: Callable[..., None], argv: int) -> bool:
    """As ``is_trivial``; the epilogue has been applied, too.  A kernel without work runs in one part."""
    if not is_trivial(out, kernel):
        return False
    if out.size > 0:
        finish(argv, 0, out_sizes[BATCH] * out_sizes[CHANNEL], out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN])
    return True


@generic
def is_finished_apart(
    out: Array, sums: Array, kernel: Axes, out_sizes: Axes, finish: Callable[..., None], argv: int, low: int, high: int
) -> bool:
    """As ``is_finished``, with empty sums in ``sums``: the result, or a buffer that ``finish`` reads.

    Of the parts of a call, that with block 0 finishes a result that is an operand: once.  ``low``, ``high``: the part's blocks.
    """
    if not is_trivial(sums, kernel):
        return False
    rows, run = out_sizes[BATCH] * out_sizes[CHANNEL], out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]
    if sums.ctypes.data == out.ctypes.data and out.size > 0:
        finish(argv, 0, rows, run, sums, 0, run)
    elif low == 0 and high > 0 and out.size > 0:
        for at in range(0, out.size, run):
            for first in range(0, run, sums.size):
                finish(argv, at + first, 1, min(sums.size, run - first), sums, 0, 0)
    return True


# ---- kernel bodies ---------------------------------------------------------------------------------------------------


@generic
def pointwise(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, gemm: int, layouts: Layouts
) -> int:
    """Pointwise convolution by matrix products without gathering: each result position reads one data position."""
    sizes, out_sizes = sizes_of(data_dims, layouts[1]), sizes_of(out_dims, layouts[2])
    kernel = kernel_sizes(weight_dims, layouts[0])
    if not is_trivial(out, kernel):
        multiply_pointwise(data, weight, out, sizes, out_sizes, kernel, gemm, group_count(sizes, kernel), layouts)
    return OK


@apart("before", "lowest", "highest")
@generic
def planes(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, low: int, high: int, work: Array,
    numbers: Array, finish: Callable[..., None], argv: int, addend: Array, stride: Axes, before: Axes, dilation: Axes,
    layouts: Layouts, lowest: float, highest: float, is_limited: bool,
) -> int:  # fmt: skip
    """Convolution by planes: the blocks ``low`` to ``high`` (see ``convolve_planes``)."""
    sizes, out_sizes, kernel = sizes_of(data_dims, False), sizes_of(out_dims, False), kernel_sizes(weight_dims, layouts[0])
    if not is_finished(out, kernel, out_sizes, finish, argv):
        steps, out_steps, taps = strides_of(sizes, False), strides_of(out_sizes, False), kernel_strides(kernel, layouts[0])
        groups = group_count(sizes, kernel)
        if not has_windows(kernel, stride, dilation) and has_few_positions(kernel, groups, sizes, out_sizes, stride, dilation):
            convolve_channels(
                data, weight, out, work, finish, argv, low, high, sizes, steps, out_sizes, out_steps, kernel, taps, stride,
                before, dilation, addend, lowest, highest, is_limited,
            )  # fmt: skip
        elif is_depthwise(kernel, groups, sizes, out_sizes, stride):
            convolve_depthwise(
                data, weight, out, work, numbers, finish, argv, low, high, sizes, steps, out_sizes, out_steps, kernel, taps,
                stride, before, dilation, addend, lowest, highest, is_limited,
            )  # fmt: skip
        else:
            convolve_planes(
                data, weight, out, work, numbers, finish, argv, low, high, sizes, steps, out_sizes, out_steps, kernel, taps,
                groups, stride, before, dilation,
            )  # fmt: skip
    return OK


@apart("stride", "before", "dilation")
@generic
def tiles(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, low: int, high: int,
    panels: Array, plane: Array, sums: Array, finish: Callable[..., None], fetch_operands: Callable[..., None], argv: int,
    stride: Axes, before: Axes, dilation: Axes,
) -> int:  # fmt: skip
    """Convolution by tiles of matrix products: the blocks ``low`` to ``high`` (see ``convolve_tiles``)."""
    sizes, out_sizes, kernel = sizes_of(data_dims, False), sizes_of(out_dims, False), kernel_sizes(weight_dims, OUT_IN_SPACE)
    if not is_finished_apart(out, sums, kernel, out_sizes, finish, argv, low, high):
        steps, out_steps = strides_of(sizes, False), strides_of(out_sizes, False)
        groups = group_count(sizes, kernel)
        convolve_tiles(
            data, weight, out, panels, plane, sums, finish, fetch_operands, argv, low, high, sizes, steps, out_sizes, out_steps,
            kernel, groups, stride, before, dilation,
        )  # fmt: skip
    return OK


@apart()
@generic
def positions(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, low: int, high: int,
    panels: Array, sums: Array, results: Array, finish: Callable[..., None], fetch_operands: Callable[..., None], argv: int,
) -> int:  # fmt: skip
    """Convolution of one tap by tiles of positions: the blocks ``low`` to ``high`` (see ``convolve_positions``)."""
    sizes, out_sizes, kernel = sizes_of(data_dims, False), sizes_of(out_dims, False), kernel_sizes(weight_dims, OUT_IN_SPACE)
    if not is_finished_apart(out, results, kernel, out_sizes, finish, argv, low, high):
        convolve_positions(
            data, weight, out, panels, sums, results, finish, fetch_operands, argv, low, high, sizes[BATCH], kernel[1], kernel[0],
            strides_of(sizes, False)[CHANNEL],
        )  # fmt: skip
    return OK


@apart()
@generic
def rows(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, low: int, high: int,
    transposed: Array, results: Array, finish: Callable[..., None], argv: int,
) -> int:  # fmt: skip
    """Convolution of one tap of few positions by rows: the blocks ``low`` to ``high`` (see ``convolve_rows``)."""
    sizes, out_sizes, kernel = sizes_of(data_dims, False), sizes_of(out_dims, False), kernel_sizes(weight_dims, OUT_IN_SPACE)
    if not is_finished_apart(out, results, kernel, out_sizes, finish, argv, low, high):
        convolve_rows(
            data, weight, out, transposed, results, finish, argv, low, high, sizes[BATCH], kernel[1], kernel[0],
            strides_of(sizes, False)[CHANNEL],
        )  # fmt: skip
    return OK


@apart()
@generic
def taps(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, low: int, high: int,
    panels: Array, sums: Array, numbers: Array, work: Array, results: Array, finish: Callable[..., None],
    fetch_operands: Callable[..., None], argv: int, stride: Axes, before: Axes, dilation: Axes,
) -> int:  # fmt: skip
    """Convolution tap by tap: the blocks ``low`` to ``high`` (see ``convolve_taps``)."""
    sizes, out_sizes, kernel = sizes_of(data_dims, False), sizes_of(out_dims, False), kernel_sizes(weight_dims, SPACE_IN_OUT)
    if not is_finished_apart(out, results, kernel, out_sizes, finish, argv, low, high):
        convolve_taps(
            data, weight, out, panels, sums, numbers, work, results, finish, fetch_operands, argv, low, high, sizes,
            strides_of(sizes, False), out_sizes, strides_of(out_sizes, False), kernel, stride, before, dilation,
        )  # fmt: skip
    return OK


@apart("before", "dilation")
@generic
def shifts(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, low: int, high: int,
    work: Array, sums: Array, numbers: Array, finish: Callable[..., None], argv: int, stride: Axes, before: Axes, dilation: Axes,
) -> int:  # fmt: skip
    """Convolution by shifts of padded data: the blocks ``low`` to ``high`` (see ``convolve_shifts``)."""
    sizes, out_sizes, kernel = sizes_of(data_dims, False), sizes_of(out_dims, False), kernel_sizes(weight_dims, OUT_IN_SPACE)
    if not is_finished(out, kernel, out_sizes, finish, argv):
        steps, out_steps = strides_of(sizes, False), strides_of(out_sizes, False)
        convolve_shifts(
            data, weight, out, work, sums, numbers, finish, argv, low, high, sizes, steps, out_sizes, out_steps, kernel,
            group_count(sizes, kernel), stride, before, dilation,
        )  # fmt: skip
    return OK


@apart()
@generic
def winograd(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, low: int, high: int,
    filters: Array, panels: Array, columns: Array, sums: Array, zeros: Array, finish: Callable[..., None], argv: int,
    before: Axes, stride: int,
) -> int:  # fmt: skip
    """Convolution by Winograd's algorithm: the blocks ``low`` to ``high`` (see ``convolve_winograd``)."""
    sizes, out_sizes, kernel = sizes_of(data_dims, False), sizes_of(out_dims, False), kernel_sizes(weight_dims, OUT_IN_SPACE)
    if not is_finished_apart(out, sums, kernel, out_sizes, finish, argv, low, high):
        steps, out_steps = strides_of(sizes, False), strides_of(out_sizes, False)
        transform_weight(weight, filters, kernel[0] * kernel[1], stride)
        convolve_winograd(
            data, filters, out, panels, columns, sums, zeros, finish, argv, low, high, kernel[0], sizes, steps, out_sizes,
            out_steps, before, stride,
        )  # fmt: skip
    return OK


@apart()
@generic
def winograd_of_filters(
    data: Array, data_dims: Axes, filters: Array, filters_dims: Axes, out: Array, out_dims: Axes, low: int, high: int,
    panels: Array, columns: Array, sums: Array, zeros: Array, finish: Callable[..., None], argv: int, before: Axes, stride: int,
) -> int:  # fmt: skip
    """As ``winograd``, of a transformed weight ``[products, O, I]``; a block has some of the output channels."""
    sizes, out_sizes = sizes_of(data_dims, False), sizes_of(out_dims, False)
    if not is_finished_apart(out, sums, (filters_dims[1], filters_dims[2], 1, 1, 1), out_sizes, finish, argv, low, high):
        steps, out_steps = strides_of(sizes, False), strides_of(out_sizes, False)
        convolve_winograd(
            data, filters, out, panels, columns, sums, zeros, finish, argv, low, high, BAND, sizes, steps, out_sizes,
            out_steps, before, stride,
        )  # fmt: skip
    return OK


@generic
def gathered(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, columns: Array, gemm: int,
    stride: Axes, before: Axes, dilation: Axes, layouts: Layouts,
) -> int:  # fmt: skip
    """Convolution by matrix products over gathered columns; ``columns`` holds ``tile_length`` positions."""
    sizes, out_sizes = sizes_of(data_dims, layouts[1]), sizes_of(out_dims, layouts[2])
    kernel = kernel_sizes(weight_dims, layouts[0])
    if not is_trivial(out, kernel):
        groups = group_count(sizes, kernel)
        multiply_gathered(data, weight, out, columns, sizes, out_sizes, kernel, gemm, groups, stride, before, dilation, layouts)
    return OK


@generic
def directly(
    data: Array, data_dims: Axes, weight: Array, weight_dims: Axes, out: Array, out_dims: Axes, totals: Array, stride: Axes,
    before: Axes, dilation: Axes, layouts: Layouts,
) -> int:  # fmt: skip
    """Direct convolution of any dtypes."""
    convolve_directly(data, data_dims, weight, weight_dims, out, out_dims, totals, stride, before, dilation, layouts)
    return OK
