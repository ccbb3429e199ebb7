"""Convolution: by tiles (``tiles``, ``by_shifts``), by matrix products over gathered columns (im2col), by planes, or directly.

Tiles and planes accumulate in the dtype of the data, in order; im2col as the BLAS does; the direct algorithm in float64.
``ops.strategy.convolution.conv_strategy`` chooses.

Indices in inner loops are unsigned: the compiler then omits the check for negative indices, and LLVM vectorises the loops.

``steps`` (of the window) and ``layouts`` (kernel layout, whether the channels of the data are last, whether those of the result
are last) are constants of the compiled code.  Sizes and the number of groups are not: convolutions of one
network share their code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...native.inlining import apart
from ...native.memory import Array, Axes, generic
from ...native.status import OK
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside
from .by_channels import convolve_channels, has_few_positions
from .by_plane import convolve_planes
from .by_positions import convolve_positions
from .by_rows import convolve_rows
from .by_shifts import convolve_shifts
from .by_taps import convolve_taps
from .by_winograd import BAND, convolve_winograd, transform_weight
from .depthwise import convolve_depthwise, has_windows, is_depthwise
from .direct import convolve_directly
from .epilogue import Epilogue, Limits, is_finished, is_finished_apart, is_trivial
from .geometry import (
    Buffers,
    Convolution,
    Filters,
    Shapes,
    Steps,
    Window,
    convolution,
    has_row,
    images,
    position,
    position_count,
    tap_count,
    tap_place,
    tap_source,
)
from .matrices import Matrix, multiply, turned
from .tiles import convolve_tiles
from .weight_layout import OUT_IN_SPACE, SPACE_IN_OUT, Layouts

#: The number of gathered elements per tile, which stays in the cache; but at least LEAST_PLACES positions of the result.
COLUMNS, LEAST_POSITIONS = 2**18, 16
#: The steps of a convolution of one tap, and the layouts of bodies with vectors.
UNIT_STEPS = ((1, 1, 1), (0, 0, 0), (1, 1, 1))
CHANNELS_FIRST = (OUT_IN_SPACE, False, False)


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
def gather_tap(columns: Array, to: int, conv: Convolution, at: int, tap: Axes, begin: int, count: int) -> None:
    """Gather operands of a tap (depth, row, column) at ``count`` positions from ``begin`` on; the channel starts at ``at``."""
    data, out, stride = conv.data, conv.out, conv.window.stride[2]
    offset = tap[2] * conv.window.dilation[2] - conv.window.before[2]
    # bounds within a whole row of the result
    inside, outside = first_inside(offset, stride), end_inside(offset, stride, data.sizes[COLUMN], out.sizes[COLUMN])
    z, y, x = position(out, begin)
    done = 0
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
    for i in range(conv.weight.sizes[1]):
        for tap in range(tap_count(conv.weight)):
            to, line = (i * order[0] + tap * order[1]) * count, at + i * conv.data.steps[CHANNEL]
            gather_tap(columns, to, conv, line, tap_place(conv.weight, tap), begin, count)


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
def multiply_tile(gemm: int, size: int, weight: Matrix, columns: Matrix, out: Matrix, shape: Axes, out_last: bool) -> None:
    """The product of one group for some positions, into channels of the result.

    ``shape``: the output channels, positions and terms.
    """
    if out_last:
        multiply(gemm, size, turned(columns), turned(weight), out, (shape[1], shape[0], shape[2]))
    else:
        multiply(gemm, size, weight, columns, out, shape)


@generic
def tile_length(conv: Convolution) -> int:
    """The number of positions per tile of gathered columns."""
    return min(position_count(conv.out), max(LEAST_POSITIONS, COLUMNS // max(conv.weight.sizes[1] * tap_count(conv.weight), 1)))


@generic
def weight_matrix(conv: Convolution, group: int, terms: int, layout: int) -> Matrix:
    """The weight of a group: a row for each output channel."""
    outputs, is_transposed = conv.weight.sizes[0], layout == SPACE_IN_OUT
    at = group * (outputs // conv.groups) * conv.weight.steps[0] * conv.weight.data.itemsize
    return Matrix(conv.weight.data.ctypes.data + at, outputs if is_transposed else terms, is_transposed)


@generic
def multiply_pointwise(conv: Convolution, gemm: int, layouts: Layouts) -> None:
    """Multiply without gathering: the data are the columns."""
    kernel_layout, data_last, out_last = layouts
    data, out, inputs = conv.data, conv.out, conv.weight.sizes[1]
    size, plane, outputs = out.data.itemsize, position_count(out), conv.weight.sizes[0] // conv.groups
    for b in range(data.sizes[BATCH]):
        for g in range(conv.groups):
            x = data.data.ctypes.data + (b * data.steps[BATCH] + g * inputs * data.steps[CHANNEL]) * size
            y = out.data.ctypes.data + (b * out.steps[BATCH] + g * outputs * out.steps[CHANNEL]) * size
            columns = Matrix(x, data.sizes[CHANNEL] if data_last else plane, data_last)
            results = Matrix(y, out.sizes[CHANNEL] if out_last else plane, False)
            weight = weight_matrix(conv, g, inputs, kernel_layout)
            multiply_tile(gemm, size, weight, columns, results, (outputs, plane, inputs), out_last)


@generic
def multiply_gathered(conv: Convolution, columns: Array, gemm: int, layouts: Layouts) -> None:
    """Tile by tile: gather columns, multiply."""
    kernel_layout, data_last, out_last = layouts
    data, out, inputs = conv.data, conv.out, conv.weight.sizes[1]
    size, plane, outputs = out.data.itemsize, position_count(out), conv.weight.sizes[0] // conv.groups
    terms, tile = inputs * tap_count(conv.weight), tile_length(conv)
    order = (conv.weight.steps[1], 1) if kernel_layout == OUT_IN_SPACE else (1, inputs)
    for b in range(data.sizes[BATCH]):
        for g in range(conv.groups):
            at = b * data.steps[BATCH] + g * inputs * data.steps[CHANNEL]
            to = b * out.steps[BATCH] + g * outputs * out.steps[CHANNEL]
            for begin in range(0, plane, tile):
                n = min(tile, plane - begin)
                if data_last:
                    gather_by_points(columns, conv, at, begin, n, order)
                else:
                    gather_by_rows(columns, conv, at, begin, n, order)
                y = out.data.ctypes.data + (to + begin * out.steps[COLUMN]) * size
                gathered = Matrix(columns.ctypes.data, terms if data_last else n, data_last)
                results = Matrix(y, out.sizes[CHANNEL] if out_last else plane, False)
                weight = weight_matrix(conv, g, terms, kernel_layout)
                multiply_tile(gemm, size, weight, gathered, results, (outputs, n, terms), out_last)


# ---- kernel bodies ---------------------------------------------------------------------------------------------------


@generic
def pointwise(data: Array, weight: Array, out: Array, shapes: Shapes, gemm: int, layouts: Layouts) -> int:
    """Pointwise convolution by matrix products without gathering: each result position reads one data position."""
    conv = convolution(data, weight, out, shapes, UNIT_STEPS, layouts)
    if not is_trivial(conv, out):
        multiply_pointwise(conv, gemm, layouts)
    return OK


@apart()
@generic
def planes(
    data: Array, weight: Array, out: Array, shapes: Shapes, low: int, high: int, buffers: Buffers, finish: Callable[..., None],
    argv: int, limits: Limits, steps: Steps, layouts: Layouts,
) -> int:  # fmt: skip
    """Convolution by planes: the blocks ``low`` to ``high`` (see ``convolve_planes``)."""
    conv, epilogue = convolution(data, weight, out, shapes, steps, (layouts[0], False, False)), Epilogue(finish, argv)
    if not is_finished(conv, epilogue):
        if not has_windows(conv) and has_few_positions(conv):
            convolve_channels(conv, buffers[0], epilogue, limits, low, high)
        elif is_depthwise(conv):
            convolve_depthwise(conv, buffers, epilogue, limits, low, high)
        else:
            convolve_planes(conv, buffers, epilogue, low, high)
    return OK


@apart()
@generic
def tiles(
    data: Array, weight: Array, out: Array, shapes: Shapes, low: int, high: int, buffers: Buffers, finish: Callable[..., None],
    fetch_operands: Callable[..., None], argv: int, steps: Steps,
) -> int:  # fmt: skip
    """Convolution by tiles of matrix products: the blocks ``low`` to ``high`` (see ``convolve_tiles``)."""
    conv, epilogue = convolution(data, weight, out, shapes, steps, CHANNELS_FIRST), Epilogue(finish, argv)
    if not is_finished_apart(conv, buffers[2], epilogue, low, high):
        convolve_tiles(conv, buffers, epilogue, fetch_operands, low, high)
    return OK


@apart()
@generic
def positions(
    data: Array, weight: Array, out: Array, shapes: Shapes, low: int, high: int, buffers: Buffers, finish: Callable[..., None],
    fetch_operands: Callable[..., None], argv: int,
) -> int:  # fmt: skip
    """Convolution of one tap by tiles of positions: the blocks ``low`` to ``high`` (see ``convolve_positions``)."""
    conv, epilogue = convolution(data, weight, out, shapes, UNIT_STEPS, CHANNELS_FIRST), Epilogue(finish, argv)
    if not is_finished_apart(conv, buffers[2], epilogue, low, high):
        convolve_positions(conv, buffers, epilogue, fetch_operands, low, high)
    return OK


@apart()
@generic
def rows(
    data: Array, weight: Array, out: Array, shapes: Shapes, low: int, high: int, buffers: Buffers, finish: Callable[..., None],
    argv: int,
) -> int:  # fmt: skip
    """Convolution of one tap of few positions by rows: the blocks ``low`` to ``high`` (see ``convolve_rows``)."""
    conv, epilogue = convolution(data, weight, out, shapes, UNIT_STEPS, CHANNELS_FIRST), Epilogue(finish, argv)
    if not is_finished_apart(conv, buffers[1], epilogue, low, high):
        convolve_rows(conv, buffers, epilogue, low, high)
    return OK


@apart()
@generic
def taps(
    data: Array, weight: Array, out: Array, shapes: Shapes, low: int, high: int, buffers: Buffers, finish: Callable[..., None],
    fetch_operands: Callable[..., None], argv: int, steps: Steps,
) -> int:  # fmt: skip
    """Convolution tap by tap: the blocks ``low`` to ``high`` (see ``convolve_taps``)."""
    layouts = (SPACE_IN_OUT, False, False)
    conv, epilogue = convolution(data, weight, out, shapes, steps, layouts), Epilogue(finish, argv)
    if not is_finished_apart(conv, buffers[4], epilogue, low, high):
        convolve_taps(conv, buffers, epilogue, fetch_operands, low, high)
    return OK


@apart()
@generic
def shifts(
    data: Array, weight: Array, out: Array, shapes: Shapes, low: int, high: int, buffers: Buffers, finish: Callable[..., None],
    argv: int, steps: Steps,
) -> int:  # fmt: skip
    """Convolution by shifts of padded data: the blocks ``low`` to ``high`` (see ``convolve_shifts``)."""
    conv, epilogue = convolution(data, weight, out, shapes, steps, CHANNELS_FIRST), Epilogue(finish, argv)
    if not is_finished(conv, epilogue):
        convolve_shifts(conv, buffers, epilogue, low, high)
    return OK


@apart()
@generic
def winograd(
    data: Array, weight: Array, out: Array, shapes: Shapes, low: int, high: int, buffers: Buffers, finish: Callable[..., None],
    argv: int, before: Axes, stride: int,
) -> int:  # fmt: skip
    """Convolution by Winograd's algorithm: the blocks ``low`` to ``high`` (see ``convolve_winograd``)."""
    steps, epilogue = ((1, stride, stride), before, (1, 1, 1)), Epilogue(finish, argv)
    conv, (filters, panels, columns, sums, zeros) = convolution(data, weight, out, shapes, steps, CHANNELS_FIRST), buffers
    if not is_finished_apart(conv, sums, epilogue, low, high):
        transform_weight(weight, filters, conv.weight.sizes[0] * conv.weight.sizes[1], stride)
        transformed = Convolution(conv.data, Filters(filters, conv.weight.sizes, conv.weight.steps), conv.out, conv.window, 1)
        convolve_winograd(transformed, (panels, columns, sums, zeros), epilogue, low, high, conv.weight.sizes[0])
    return OK


@apart()
@generic
def winograd_of_filters(
    data: Array, filters: Array, out: Array, shapes: Shapes, low: int, high: int, buffers: Buffers, finish: Callable[..., None],
    argv: int, before: Axes, stride: int,
) -> int:  # fmt: skip
    """As ``winograd``, of a transformed weight ``[products, O, I]``; a block has some of the output channels."""
    weight, epilogue = Filters(filters, (shapes[1][1], shapes[1][2], 1, 1, 1), (0, 0, 0)), Epilogue(finish, argv)
    window = Window((1, stride, stride), before, (1, 1, 1))
    conv = Convolution(images(data, shapes[0], False), weight, images(out, shapes[2], False), window, 1)
    if not is_finished_apart(conv, buffers[2], epilogue, low, high):
        convolve_winograd(conv, buffers, epilogue, low, high, BAND)
    return OK


@generic
def gathered(
    data: Array, weight: Array, out: Array, shapes: Shapes, buffers: Buffers, gemm: int, steps: Steps, layouts: Layouts
) -> int:
    """Convolution by matrix products over gathered columns; the buffer holds ``tile_length`` positions."""
    conv = convolution(data, weight, out, shapes, steps, layouts)
    if not is_trivial(conv, out):
        multiply_gathered(conv, buffers[0], gemm, layouts)
    return OK


@generic
def directly(data: Array, weight: Array, out: Array, shapes: Shapes, buffers: Buffers, steps: Steps, layouts: Layouts) -> int:
    """Direct convolution of any dtypes."""
    convolve_directly(convolution(data, weight, out, shapes, steps, layouts), buffers[0], layouts[1])
    return OK
