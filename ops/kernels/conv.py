"""Convolution: as matrix products over gathered columns, or directly.

The product needs a BLAS and enough channels to be worth the gathering; float32 then accumulates as the BLAS does.  Direct
convolution, which has all of depthwise convolution, accumulates in float64.

Indices in inner loops are unsigned: numba then does not ask whether they count from the end, and LLVM makes vector code.

``groups``, ``stride``, ``before`` (padding), ``dilation`` and ``layouts`` (kernel layout, are the channels of the data last, are
those of the result last) are constants of the compiled code; together, without the layouts, they are the ``geometry``.
"""

from __future__ import annotations

import numpy as np

from ..native.libraries import call_gemm
from ..native.memory import alloc, array_float32, array_float64, free, generic  # type: ignore[attr-defined]
from ..native.status import OK, OUT_OF_MEMORY
from .matmul import BLAS_LIMIT
from .planes import BATCH, CHANNEL, COLUMN, DEPTH, ROW, end_inside, first_inside, sizes_of, spatial_size, strides_of

#: The kernel layouts: output channels, then input channels, then space; space, input, output; output, space, input; space,
#: output, input, as depthwise kernels lie beside data whose channels are last.
OUT_IN_SPACE, SPACE_IN_OUT, OUT_SPACE_IN, SPACE_OUT_IN = range(4)
#: So many elements of gathered columns at once: they stay in the cache.
_COLUMNS = 2**18
#: A product that makes fewer channels from a group is slower than direct convolution.
_LEAST_CHANNELS = 4


@generic
def kernel_sizes(dims, layout):  # type: ignore[no-untyped-def]
    """Of a kernel: output channels, input channels of a group, depth, rows, columns."""
    first = 2 if layout == OUT_IN_SPACE else (1 if layout == OUT_SPACE_IN else 0)
    last = len(dims) - 1
    outputs = dims[last] if layout == SPACE_IN_OUT else (dims[last - 1] if layout == SPACE_OUT_IN else dims[0])
    inputs = dims[1] if layout == OUT_IN_SPACE else (dims[last - 1] if layout == SPACE_IN_OUT else dims[last])
    return outputs, inputs, spatial_size(dims, 0, first), spatial_size(dims, 1, first), spatial_size(dims, 2, first)


@generic
def kernel_strides(sizes, layout):  # type: ignore[no-untyped-def]
    """Of a kernel: the steps from an output channel to the next, an input channel, a tap (its taps are in row-major order)."""
    outputs, inputs, taps = sizes[0], sizes[1], sizes[2] * sizes[3] * sizes[4]
    if layout == OUT_IN_SPACE:
        return inputs * taps, taps, 1
    if layout == SPACE_OUT_IN:
        return inputs, 1, inputs * outputs
    return (1, outputs, inputs * outputs) if layout == SPACE_IN_OUT else (taps * inputs, 1, inputs)


# ---- directly ------------------------------------------------------------------------------------------------------


@generic
def add_row(totals, data, at, step, first, end, factor):  # type: ignore[no-untyped-def]
    """``totals[i] += factor * data[at + i * step]`` from ``first`` to ``end``."""
    if step == 1:
        for i in range(first, end):
            totals[np.uint64(i)] += factor * np.float64(data[np.uint64(at + i)])
    else:
        for i in range(first, end):
            totals[i] += factor * np.float64(data[at + i * step])


@generic
def direct_row(data, weight, totals, at, w_at, inputs, row, sizes, steps, kernel, taps, stride, before, dilation):  # type: ignore[no-untyped-def]
    """One row of one output channel into ``totals``: its group's first input channel starts at ``at``, its kernel at ``w_at``;
    ``row`` is (depth, row, number of columns) of the result, ``taps`` the kernel's steps from input channel and from tap."""
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
def direct_by_rows(data, weight, out, totals, sizes, out_sizes, kernel, taps, out_last, data_last, geometry):  # type: ignore[no-untyped-def]
    """Each row of each channel by itself: for channels before space."""
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
def add_channels(totals, data, at, weight, w_at, inputs, outputs, groups, taps):  # type: ignore[no-untyped-def]
    """Add one tap of all output channels: ``data`` holds the input channels side by side from ``at`` on."""
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
def direct_by_points(data, weight, out, totals, sizes, out_sizes, kernel, taps, out_last, geometry):  # type: ignore[no-untyped-def]
    """All channels of one point at once: for channels after space."""
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
def convolve_directly(data, data_dims, weight, weight_dims, out, out_dims, groups, stride, before, dilation, layouts):  # type: ignore[no-untyped-def]
    """Without a library, for any dtypes and layouts."""
    kernel_layout, data_last, out_last = layouts
    sizes, out_sizes = sizes_of(data_dims, data_last), sizes_of(out_dims, out_last)
    kernel = kernel_sizes(weight_dims, kernel_layout)
    taps = kernel_strides(kernel, kernel_layout)
    length = max(out_sizes[COLUMN], kernel[0])
    block = alloc(8 * length)
    if block == 0:
        return OUT_OF_MEMORY
    totals = array_float64(block, length)
    geometry = (groups, stride, before, dilation)
    if data_last:
        direct_by_points(data, weight, out, totals, sizes, out_sizes, kernel, taps, out_last, geometry)
    else:
        direct_by_rows(data, weight, out, totals, sizes, out_sizes, kernel, taps, out_last, data_last, geometry)
    free(block)
    return OK


# ---- as matrix products ----------------------------------------------------------------------------------------------


@generic
def gather_row(columns, to, data, line, step, offset, first, end, x):  # type: ignore[no-untyped-def]
    """Elements ``first`` to ``end`` of a run of output columns that starts at ``x``; see ``gather_by_rows``."""
    at = line + (offset + x * step[0]) * step[1]
    if step[0] * step[1] == 1:
        for i in range(first, end):
            columns[np.uint64(to + i)] = data[np.uint64(at + i)]
    else:
        for i in range(first, end):
            columns[to + i] = data[at + i * step[0] * step[1]]


@generic
def gather_run(columns, to, data, line, place, kernel_x, count, sizes, steps, stride, before, dilation):  # type: ignore[no-untyped-def]
    """What one tap takes for ``count`` places of one output row from ``place`` (depth, row, column in, column out) on."""
    first, end = count, count
    offset = kernel_x * dilation[2] - before[2]
    if 0 <= place[0] < sizes[DEPTH] and 0 <= place[1] < sizes[ROW]:
        start = offset + place[2] * stride[2]
        first = min(count, first_inside(start, stride[2]))
        end = max(first, end_inside(start, stride[2], sizes[COLUMN], count))
    for i in range(first):
        columns[to + i] = 0
    for i in range(end, count):
        columns[to + i] = 0
    if first < end:
        at = line + place[0] * steps[DEPTH] + place[1] * steps[ROW]
        gather_row(columns, to, data, at, (stride[2], steps[COLUMN]), offset, first, end, place[2])


@generic
def gather_by_rows(columns, data, at, begin, count, sizes, steps, out_sizes, kernel, order, stride, before, dilation):  # type: ignore[no-untyped-def]
    """``columns[k, j]``: what kernel element k takes at place ``begin + j`` of the result, the input starting at ``at``.

    ``order`` is how far k goes with an input channel and with a tap.
    """
    for i in range(kernel[1]):
        for tap in range(kernel[2] * kernel[3] * kernel[4]):
            to = (i * order[0] + tap * order[1]) * count
            kz, ky, kx = tap // (kernel[3] * kernel[4]), tap // kernel[4] % kernel[3], tap % kernel[4]
            done = 0
            while done < count:
                p = begin + done
                x = p % out_sizes[COLUMN]
                y, z = p // out_sizes[COLUMN] % out_sizes[ROW], p // out_sizes[COLUMN] // out_sizes[ROW]
                run = min(count - done, out_sizes[COLUMN] - x)
                place = (z * stride[0] + kz * dilation[0] - before[0], y * stride[1] + ky * dilation[1] - before[1], x)
                line = at + i * steps[CHANNEL]
                gather_run(columns, to + done, data, line, place, kx, run, sizes, steps, stride, before, dilation)
                done += run


@generic
def gather_by_points(columns, data, at, begin, count, sizes, steps, out_sizes, kernel, order, stride, before, dilation):  # type: ignore[no-untyped-def]
    """``columns[j, k]``: as ``gather_by_rows``, transposed."""
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
def multiply(gemm, size, a, lda, a_is_turned, b, ldb, b_is_turned, c, ldc, m, n, k):  # type: ignore[no-untyped-def]
    """Row-major ``c[m, n] = op(a) @ op(b)`` at addresses."""
    call_gemm(gemm, size, 1 if b_is_turned else 0, 1 if a_is_turned else 0, n, m, k, b, ldb, a, lda, c, ldc)


@generic
def multiply_tile(gemm, size, weight, columns, out, m, n, k, outputs, ld, layouts):  # type: ignore[no-untyped-def]
    """The product of one group for ``n`` places: weight and columns as they lie, into channels of the result.

    ``m`` channels of the ``outputs`` that there are, ``ld`` the leading dimensions of columns and result.
    """
    kernel_layout, data_last, out_last = layouts
    weight_is_turned = kernel_layout == SPACE_IN_OUT
    ldw = outputs if weight_is_turned else k
    if out_last:
        multiply(gemm, size, columns, ld[0], not data_last, weight, ldw, not weight_is_turned, out, ld[1], n, m, k)
    else:
        multiply(gemm, size, weight, ldw, weight_is_turned, columns, ld[0], data_last, out, ld[1], m, n, k)


@generic
def is_pointwise(kernel, stride, before, sizes, out_sizes):  # type: ignore[no-untyped-def]
    """Does each place of the result take just the same place of the data?"""
    same = sizes[DEPTH] == out_sizes[DEPTH] and sizes[ROW] == out_sizes[ROW] and sizes[COLUMN] == out_sizes[COLUMN]
    single = kernel[2] * kernel[3] * kernel[4] == 1 and stride[0] * stride[1] * stride[2] == 1
    return same and single and before[0] + before[1] + before[2] == 0


@generic
def tile_length(kernel, places):  # type: ignore[no-untyped-def]
    """For how many places columns are gathered at once."""
    terms = kernel[1] * kernel[2] * kernel[3] * kernel[4]
    return min(places, max(16, _COLUMNS // max(terms, 1)))


@generic
def multiply_pointwise(data, weight, out, sizes, out_sizes, kernel, gemm, groups, layouts):  # type: ignore[no-untyped-def]
    """Without gathering: the data are the columns."""
    kernel_layout, data_last, out_last = layouts
    size, places = out.itemsize, out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]
    taps = kernel_strides(kernel, kernel_layout)
    steps, out_steps = strides_of(sizes, data_last), strides_of(out_sizes, out_last)
    ld = (sizes[CHANNEL] if data_last else places, out_sizes[CHANNEL] if out_last else places)
    outputs = kernel[0] // groups
    for b in range(sizes[BATCH]):
        for g in range(groups):
            w = weight.ctypes.data + g * outputs * taps[0] * size
            x = data.ctypes.data + (b * steps[BATCH] + g * kernel[1] * steps[CHANNEL]) * size
            y = out.ctypes.data + (b * out_steps[BATCH] + g * outputs * out_steps[CHANNEL]) * size
            multiply_tile(gemm, size, w, x, y, outputs, places, kernel[1], kernel[0], ld, layouts)


@generic
def multiply_gathered(data, weight, out, columns, sizes, out_sizes, kernel, gemm, groups, stride, before, dilation, layouts):  # type: ignore[no-untyped-def]
    """Tile by tile: gather columns, multiply."""
    kernel_layout, data_last, out_last = layouts
    size, places = out.itemsize, out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]
    taps = kernel_strides(kernel, kernel_layout)
    terms = kernel[1] * kernel[2] * kernel[3] * kernel[4]
    order = (taps[1], 1) if kernel_layout == OUT_IN_SPACE else (1, kernel[1])
    steps, out_steps = strides_of(sizes, data_last), strides_of(out_sizes, out_last)
    outputs, tile = kernel[0] // groups, tile_length(kernel, places)
    for b in range(sizes[BATCH]):
        for g in range(groups):
            at = b * steps[BATCH] + g * kernel[1] * steps[CHANNEL]
            w = weight.ctypes.data + g * outputs * taps[0] * size
            to = b * out_steps[BATCH] + g * outputs * out_steps[CHANNEL]
            for begin in range(0, places, tile):
                n = min(tile, places - begin)
                if data_last:
                    gather_by_points(
                        columns, data, at, begin, n, sizes, steps, out_sizes, kernel, order, stride, before, dilation
                    )
                else:
                    gather_by_rows(columns, data, at, begin, n, sizes, steps, out_sizes, kernel, order, stride, before, dilation)
                y = out.ctypes.data + (to + begin * out_steps[COLUMN]) * size
                ld = (terms if data_last else n, out_sizes[CHANNEL] if out_last else places)
                multiply_tile(gemm, size, w, columns.ctypes.data, y, outputs, n, terms, kernel[0], ld, layouts)


@generic
def takes_product(sizes, out_sizes, kernel, gemm, groups, layout):  # type: ignore[no-untyped-def]
    """Is it to be done by products?  BLAS takes sizes as int32, and none of 0; the kernel must lie as a matrix."""
    if layout == SPACE_OUT_IN and kernel[2] * kernel[3] * kernel[4] != 1:
        return False
    places = out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]
    terms = kernel[1] * kernel[2] * kernel[3] * kernel[4]
    largest = max(max(places, terms), max(kernel[0], sizes[CHANNEL]))
    return gemm != 0 and places > 0 and terms > 0 and kernel[0] >= groups * _LEAST_CHANNELS and largest <= BLAS_LIMIT


@generic
def convolve_by_products(data, weight, out, columns, sizes, out_sizes, kernel, gemm, groups, stride, before, dilation, layouts):  # type: ignore[no-untyped-def]
    """By BLAS; ``columns`` has room for a tile."""
    if is_pointwise(kernel, stride, before, sizes, out_sizes):
        multiply_pointwise(data, weight, out, sizes, out_sizes, kernel, gemm, groups, layouts)
    else:
        multiply_gathered(data, weight, out, columns, sizes, out_sizes, kernel, gemm, groups, stride, before, dilation, layouts)


@generic
def room_for_columns(sizes, out_sizes, kernel, stride, before):  # type: ignore[no-untyped-def]
    """How many elements ``convolve_by_products`` gathers at once."""
    if is_pointwise(kernel, stride, before, sizes, out_sizes):
        return 1
    places = out_sizes[DEPTH] * out_sizes[ROW] * out_sizes[COLUMN]
    return tile_length(kernel, places) * kernel[1] * kernel[2] * kernel[3] * kernel[4]


@generic
def convolve_float32(
    data, data_dims, weight, weight_dims, out, out_dims, gemm, groups, stride, before, dilation, layouts
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Convolution of float32 data."""
    sizes, out_sizes = sizes_of(data_dims, layouts[1]), sizes_of(out_dims, layouts[2])
    kernel = kernel_sizes(weight_dims, layouts[0])
    if not takes_product(sizes, out_sizes, kernel, gemm, groups, layouts[0]):
        return convolve_directly(data, data_dims, weight, weight_dims, out, out_dims, groups, stride, before, dilation, layouts)
    length = room_for_columns(sizes, out_sizes, kernel, stride, before)
    block = alloc(4 * length)
    if block == 0:
        return OUT_OF_MEMORY
    columns = array_float32(block, length)
    convolve_by_products(data, weight, out, columns, sizes, out_sizes, kernel, gemm, groups, stride, before, dilation, layouts)
    free(block)
    return OK


@generic
def convolve_float64(
    data, data_dims, weight, weight_dims, out, out_dims, gemm, groups, stride, before, dilation, layouts
):  # type: ignore[no-untyped-def]  # fmt: skip
    """As ``convolve_float32``, of float64."""
    sizes, out_sizes = sizes_of(data_dims, layouts[1]), sizes_of(out_dims, layouts[2])
    kernel = kernel_sizes(weight_dims, layouts[0])
    if not takes_product(sizes, out_sizes, kernel, gemm, groups, layouts[0]):
        return convolve_directly(data, data_dims, weight, weight_dims, out, out_dims, groups, stride, before, dilation, layouts)
    length = room_for_columns(sizes, out_sizes, kernel, stride, before)
    block = alloc(8 * length)
    if block == 0:
        return OUT_OF_MEMORY
    columns = array_float64(block, length)
    convolve_by_products(data, weight, out, columns, sizes, out_sizes, kernel, gemm, groups, stride, before, dilation, layouts)
    free(block)
    return OK


@generic
def convolve_halves(
    data, data_dims, weight, weight_dims, out, out_dims, gemm, groups, stride, before, dilation, layouts
):  # type: ignore[no-untyped-def]  # fmt: skip
    """As ``convolve_float32``, of dtypes that no library multiplies."""
    return convolve_directly(data, data_dims, weight, weight_dims, out, out_dims, groups, stride, before, dilation, layouts)


BODIES = {"float32": convolve_float32, "float64": convolve_float64}
