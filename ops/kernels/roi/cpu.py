"""Regions of an image, with interpolation.

The mean of the samples of a bin is a sum over rows of sums over columns: each row of a bin's samples has the same columns.  The
elements that a bin reads along an axis are its *taps*, with the sums of their weights.

Sample coordinates are computed in float64, separately along rows and columns.  A *mark* is (lower index, upper index, weight of
the upper one).  Regions come from a network, so their numbers are arbitrary.  Neither a loop bound nor a memory address depends
on an unchecked number.
"""

from __future__ import annotations

import math

import numpy as np

from ...native.inlining import apart
from ...native.memory import Array, Axes, Element, Word, alloc, array_float64, array_int64, free, generic
from ...native.status import BAD_VALUE, INDEX_OUT_OF_RANGE, OK, OUT_OF_MEMORY
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, ROW, sizes_of, strides_of

#: The largest distance of a region's corner in elements: sums of such numbers are exact.
FARTHEST = 2.0**50
#: The columns of a region, for each of its taps, from which the taps alone are read: vectors read neighbours.
WIDE = 4


@generic
def region_axis(rois: Array, region: int, axis: int, pooled: int, scale: float, ratio: int) -> tuple[float, float, float]:
    """Along one axis (0: rows, 1: columns): the region's start, the size of a bin, and the samples per bin."""
    start = np.float64(rois[5 * region + 2 - axis]) * scale
    end = np.float64(rois[5 * region + 4 - axis]) * scale
    bin_size = max(end - start, 1.0) / pooled
    return start, bin_size, np.float64(ratio) if ratio > 0 else math.ceil(bin_size)


@generic
def samples_inside(start: float, bin_size: float, samples: float, number: int, size: int) -> tuple[int, int]:
    """Begin and end of the samples of bin ``number`` that may be inside: at most a few per element."""
    first, step = start + number * bin_size, bin_size / samples
    low = min(max((-1.0 - first) / step - 1.5, 0.0), samples)
    high = min(max((size - first) / step + 1.5, 0.0), samples)
    return math.floor(low), math.ceil(high)


@generic
def is_outside(at: float, size: int) -> bool:
    """Whether a sample is more than one element beyond the edge; its value is then 0."""
    return at < -1.0 or at > size


@generic
def mark_axis(
    indices: Array, weights: Array, ends: Array, rois: Array, region: int, axis: int, size: int, attrs: tuple[int, float, int]
) -> float:
    """Fill in the marks of one axis, bin after bin: ``ends[k]`` is the end of bin k.  Returns the number of samples per bin,
    including those outside."""
    pooled, scale, ratio = attrs
    start, bin_size, samples = region_axis(rois, region, axis, pooled, scale, ratio)
    step, found = bin_size / samples, 0
    for k in range(pooled):
        begin, end = samples_inside(start, bin_size, samples, k, size)
        for i in range(begin, end):
            at = start + k * bin_size + (i + 0.5) * step
            if size > 0 and not is_outside(at, size):
                at = min(max(at, 0.0), size - 1.0)
                low = math.floor(at)
                indices[2 * found], indices[2 * found + 1] = low, min(low + 1, size - 1)
                weights[found] = at - low
                found += 1
        ends[k] = found
    return samples


@generic
def marks_needed(rois: Array, region: int, axis: int, size: int, attrs: tuple[int, float, int]) -> int:
    """An upper bound of the number of marks along an axis of a region."""
    pooled, scale, ratio = attrs
    start, bin_size, samples = region_axis(rois, region, axis, pooled, scale, ratio)
    total = 0
    for k in range(pooled):
        begin, end = samples_inside(start, bin_size, samples, k, size)
        total += end - begin
    return total


@generic
def check_regions(rois: Array, regions: int, batches: int, scale: float) -> int:
    """OK if every region has finite corners that are not too large, and a batch index in range."""
    for region in range(regions):
        for i in range(5 * region + 1, 5 * region + 5):
            if not abs(np.float64(rois[i]) * scale) <= FARTHEST:
                return BAD_VALUE
        batch = rois[5 * region]
        if not 0 <= batch < batches:
            return INDEX_OUT_OF_RANGE
    return OK


@generic
def sample_of(data: Array, at: Word, steps: Axes, y0: int, y1: int, wy: float, x0: int, x1: int, wx: float) -> float:
    """The bilinear interpolation between four elements."""
    upper, lower = at + y0 * steps[ROW], at + y1 * steps[ROW]
    left, right = x0 * steps[COLUMN], x1 * steps[COLUMN]
    a, b = np.float64(data[np.uint64(upper + left)]), np.float64(data[np.uint64(upper + right)])
    c, d = np.float64(data[np.uint64(lower + left)]), np.float64(data[np.uint64(lower + right)])
    return (1.0 - wy) * ((1.0 - wx) * a + wx * b) + wy * ((1.0 - wx) * c + wx * d)


@generic
def add_tap(indices: Array, weights: Array, begin: int, end: int, index: int, weight: float) -> int:
    """Add a weight to the tap of this index, one of the last two from ``begin`` on, or to a new one; the end of the taps."""
    for tap in range(max(begin, end - 2), end):
        if indices[tap] == index:
            weights[tap] += weight
            return end
    indices[end] = index
    weights[end] = weight
    return end + 1


@generic
def place_taps(
    indices: Array, weights: Array, ends: Array, first: int, bins: int, bin_at: int, tap_indices: Array, tap_weights: Array,
    tap_ends: Array, at: int, samples: float,
) -> None:  # fmt: skip
    """Store the taps of each bin from ``at`` on; its marks begin at ``first``, the ends of both are from ``bin_at`` on.

    A weight is a part of the mean of ``samples``.
    """
    mark, tap = first, at
    for k in range(bins):
        begin = tap
        while mark < first + ends[bin_at + k]:
            weight = weights[mark] / samples
            tap = add_tap(tap_indices, tap_weights, begin, tap, indices[2 * mark], 1.0 / samples - weight)
            tap = add_tap(tap_indices, tap_weights, begin, tap, indices[2 * mark + 1], weight)
            mark += 1
        tap_ends[bin_at + k] = tap


@generic
def add_row(
    data: Array, row: Word, step: int, weight: float, indices: Array, first: int, count: int, left: int, right: int,
    is_wide: bool, line: Array,
) -> None:  # fmt: skip
    """Add a weighted row of the data to ``line``: the columns ``left`` to ``right``, or of ``count`` taps if ``is_wide``."""
    if is_wide:
        for j in range(count):
            line[j] += weight * np.float64(data[np.uint64(row + indices[first + j] * step)])
    else:
        for x in range(left, right):
            line[np.uint64(x)] += weight * np.float64(data[np.uint64(row + x * step)])


@generic
def average_region(
    data: Array, out: Array, at: Word, to: Word, channels: int, steps: Axes, out_steps: Axes, pooled: Axes, indices: Array,
    weights: Array, ends: Array, most: int, line: Array,
) -> None:  # fmt: skip
    """The means of all bins of a region: taps of rows from 0 on, of columns from ``most`` on; ``line``: for a row of the data."""
    count, left, right = ends[pooled[0] + pooled[1] - 1] - most, 0, 0
    for tap in range(most, most + count):
        left = min(left, indices[tap]) if tap > most else indices[tap]
        right = max(right, indices[tap] + 1)
    is_wide = right - left > WIDE * count
    first, last = (0, count) if is_wide else (left, right)
    for c in range(channels):
        source, target = at + c * steps[CHANNEL], to + c * out_steps[CHANNEL]
        for k in range(pooled[0]):
            for x in range(first, last):
                line[np.uint64(x)] = 0.0
            for tap in range(ends[k - 1] if k > 0 else 0, ends[k]):
                row = source + indices[tap] * steps[ROW]
                add_row(data, row, steps[COLUMN], weights[tap], indices, most, count, left, right, is_wide, line)
            for m in range(pooled[1]):
                total = 0.0
                for tap in range(ends[pooled[0] + m - 1] if m > 0 else most, ends[pooled[0] + m]):
                    total += weights[tap] * line[tap - most if is_wide else indices[tap]]
                out[target + k * out_steps[ROW] + m * out_steps[COLUMN]] = total


@generic
def pool_bin(
    data: Array, at: Word, steps: Axes, indices: Array, weights: Array, rows: Axes, columns: Axes, floor: float
) -> float:
    """The maximum, starting from ``floor``, of the samples of one bin: ``rows`` and ``columns`` are (begin, end) of its marks."""
    out = floor
    for i in range(rows[0], rows[1]):
        y0, y1, wy = indices[2 * i], indices[2 * i + 1], weights[i]
        for j in range(columns[0], columns[1]):
            value = sample_of(data, at, steps, y0, y1, wy, indices[2 * j], indices[2 * j + 1], weights[j])
            if value > out or value != value:
                out = value
            if out != out:
                return out
    return out


@generic
def align_region(
    data: Array, rois: Array, out: Array, region: int, indices: Array, weights: Array, ends: Array, most: int, taps: Array,
    tap_weights: Array, line: Array, sizes: Axes, layout: bool, pooled: Axes, scale: float, ratio: int, is_max: bool,
) -> None:  # fmt: skip
    """All bins of one region: marks of rows from 0 on, of columns from ``most`` on, and taps, twice as many."""
    steps, out_steps = strides_of(sizes, layout), strides_of((1, sizes[CHANNEL], 1, pooled[0], pooled[1]), layout)
    row_attrs, column_attrs = (pooled[0], scale, ratio), (pooled[1], scale, ratio)
    samples_y = mark_axis(indices, weights, ends, rois, region, 0, sizes[ROW], row_attrs)
    samples_x = mark_axis(indices[2 * most :], weights[most:], ends[pooled[0] :], rois, region, 1, sizes[COLUMN], column_attrs)
    bins, image = pooled[0] + pooled[1], np.int64(rois[5 * region]) * steps[BATCH]
    if not is_max:
        place_taps(indices, weights, ends, 0, pooled[0], 0, taps, tap_weights, ends[bins:], 0, samples_y)
        place_taps(indices, weights, ends, most, pooled[1], pooled[0], taps, tap_weights, ends[bins:], 2 * most, samples_x)
        average_region(
            data, out, image, region * out_steps[BATCH], sizes[CHANNEL], steps, out_steps, pooled, taps, tap_weights,
            ends[bins:], 2 * most, line,
        )  # fmt: skip
        return
    for c in range(sizes[CHANNEL]):
        at = image + c * steps[CHANNEL]
        to = region * out_steps[BATCH] + c * out_steps[CHANNEL]
        for k in range(pooled[0]):
            rows = (ends[k - 1] if k > 0 else 0, ends[k])
            for m in range(pooled[1]):
                columns = (most + (ends[pooled[0] + m - 1] if m > 0 else 0), most + ends[pooled[0] + m])
                # a sample outside is 0, which takes part in the maximum
                all_inside = rows[1] - rows[0] == samples_y and columns[1] - columns[0] == samples_x
                largest = pool_bin(data, at, steps, indices, weights, rows, columns, -math.inf if all_inside else 0.0)
                out[to + k * out_steps[ROW] + m * out_steps[COLUMN]] = largest


@apart("scale")
@generic
def roi_align(
    data: Array, data_dims: Axes, rois: Array, rois_dims: Axes, out: Array, out_dims: Axes, pooled: Axes, scale: float,
    ratio: int, layout: bool, is_max: bool,
) -> int:  # fmt: skip
    """The mean, or maximum, of the interpolated samples of each bin."""
    sizes, regions = sizes_of(data_dims, layout), rois_dims[0]
    status = check_regions(rois, regions, sizes[BATCH], scale)
    if status != OK:
        return status
    most = 1
    for region in range(regions):
        most = max(most, marks_needed(rois, region, 0, sizes[ROW], (pooled[0], scale, ratio)))
        most = max(most, marks_needed(rois, region, 1, sizes[COLUMN], (pooled[1], scale, ratio)))
    bins, columns = pooled[0] + pooled[1], max(sizes[COLUMN], 2 * most)
    block = alloc(8 * (14 * most + 2 * bins + columns))
    if block == 0:
        return OUT_OF_MEMORY
    indices, weights = array_int64(block, 4 * most), array_float64(block + 32 * most, 2 * most)
    taps, tap_weights = array_int64(block + 48 * most, 4 * most), array_float64(block + 80 * most, 4 * most)
    line, ends = array_float64(block + 112 * most, columns), array_int64(block + 112 * most + 8 * columns, 2 * bins)
    for region in range(regions):
        align_region(
            data, rois, out, region, indices, weights, ends, most, taps, tap_weights, line, sizes, layout, pooled, scale, ratio,
            is_max,
        )  # fmt: skip
    free(block)
    return OK


# ---- elements without interpolation ------------------------------------------------------------------------------


@generic
def bin_ends(rois: Array, region: int, axis: int, number: int, pooled: int, scale: float, size: int) -> tuple[Word, Word]:
    """Begin and end, clipped to the image, of bin ``number`` of a region along an axis (0: rows, 1: columns)."""
    low: float
    high: float
    low, high = np.float64(rois[5 * region + 2 - axis]) * scale, np.float64(rois[5 * region + 4 - axis]) * scale
    # round to nearest, halves away from 0
    low, high = math.copysign(math.floor(abs(low) + 0.5), low), math.copysign(math.floor(abs(high) + 0.5), high)
    length = max(high - low + 1.0, 1.0)
    begin, end = low + math.floor(number * length / pooled), low + math.ceil((number + 1) * length / pooled)
    return np.int64(min(max(begin, 0.0), np.float64(size))), np.int64(min(max(end, 0.0), np.float64(size)))


@generic
def largest_of(data: Array, at: Word, steps: Axes, rows: tuple[Word, Word], columns: tuple[Word, Word]) -> float:
    """The maximum element, NaN if one is NaN; 0 for an empty bin."""
    if rows[0] >= rows[1] or columns[0] >= columns[1]:
        return 0.0
    best = -math.inf
    for i in range(rows[0], rows[1]):
        for j in range(columns[0], columns[1]):
            value = np.float64(data[at + i * steps[ROW] + j * steps[COLUMN]])
            if value != value:
                return value
            best = max(best, value)
    return best


@generic
def roi_pool(
    data: Array, data_dims: Axes, rois: Array, rois_dims: Axes, out: Array, out_dims: Axes, pooled: Axes, scale: float,
    layout: bool,
) -> int:  # fmt: skip
    """The maximum of each bin."""
    sizes, regions = sizes_of(data_dims, layout), rois_dims[0]
    status = check_regions(rois, regions, sizes[BATCH], scale)
    if status != OK:
        return status
    steps, out_steps = strides_of(sizes, layout), strides_of((1, sizes[CHANNEL], 1, pooled[0], pooled[1]), layout)
    for region in range(regions):
        for k in range(pooled[0]):
            rows = bin_ends(rois, region, 0, k, pooled[0], scale, sizes[ROW])
            for m in range(pooled[1]):
                columns = bin_ends(rois, region, 1, m, pooled[1], scale, sizes[COLUMN])
                to = region * out_steps[BATCH] + k * out_steps[ROW] + m * out_steps[COLUMN]
                for c in range(sizes[CHANNEL]):
                    at = np.int64(rois[5 * region]) * steps[BATCH] + c * steps[CHANNEL]
                    out[to + c * out_steps[CHANNEL]] = largest_of(data, at, steps, rows, columns)
    return OK


# ---- crops -----------------------------------------------------------------------------------------------------------


@generic
def crop_place(low: Element, high: Element, i: int, count: int, size: int) -> float:
    """The image coordinate of row (or column) ``i`` of ``count`` of a crop; the box gives ``low`` and ``high``."""
    if count == 1:
        return 0.5 * (np.float64(low) + np.float64(high)) * (size - 1)
    return np.float64(low) * (size - 1) + i * ((np.float64(high) - np.float64(low)) * (size - 1) / (count - 1))


@generic
def crop_row(
    data: Array, at: int, steps: Axes, row: tuple[float, int], columns: tuple[Element, Element, int, int], out: Array, to: int,
    step: int, is_nearest: bool, outside: float,
) -> None:  # fmt: skip
    """One row of one channel of a crop.  ``row`` is (its coordinate, rows of the image), ``columns`` (begin and end of the box,
    columns of the crop, of the image).  Elements outside the image become ``outside``."""
    place, height = row
    low, high, count, width = columns
    for x in range(count):
        across = crop_place(low, high, x, count, width)
        if not (0.0 <= place <= height - 1 and 0.0 <= across <= width - 1):
            out[to + x * step] = outside
        elif is_nearest:
            i, j = math.floor(place + 0.5), math.floor(across + 0.5)
            out[to + x * step] = data[at + i * steps[ROW] + j * steps[COLUMN]]
        else:
            y0, x0 = math.floor(place), math.floor(across)
            y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
            out[to + x * step] = sample_of(data, at, steps, y0, y1, place - y0, x0, x1, across - x0)


@generic
def crop_and_resize(
    data: Array, data_dims: Axes, boxes: Array, boxes_dims: Axes, box_indices: Array, indices_dims: Axes, out: Array,
    out_dims: Axes, layout: bool, is_nearest: bool, outside: float,
) -> int:  # fmt: skip
    """Crop each box from its image, and resize it."""
    sizes, out_sizes = sizes_of(data_dims, layout), sizes_of(out_dims, layout)
    steps, out_steps = strides_of(sizes, layout), strides_of(out_sizes, layout)
    for k in range(out_sizes[BATCH]):
        if not 0 <= box_indices[k] < sizes[BATCH]:
            return INDEX_OUT_OF_RANGE
    for k in range(out_sizes[BATCH]):
        columns = (boxes[4 * k + 1], boxes[4 * k + 3], out_sizes[COLUMN], sizes[COLUMN])
        for y in range(out_sizes[ROW]):
            row = (crop_place(boxes[4 * k], boxes[4 * k + 2], y, out_sizes[ROW], sizes[ROW]), sizes[ROW])
            for c in range(out_sizes[CHANNEL]):
                at = box_indices[k] * steps[BATCH] + c * steps[CHANNEL]
                to = k * out_steps[BATCH] + c * out_steps[CHANNEL] + y * out_steps[ROW]
                crop_row(data, at, steps, row, columns, out, to, out_steps[COLUMN], is_nearest, outside)
    return OK
