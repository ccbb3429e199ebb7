"""Regions of an image, with interpolation.

The mean of the samples of a bin is a sum over rows of sums over columns: each row of a bin's samples has the same columns.  The
elements that a bin reads along an axis are its *taps*, with the sums of their weights.

Sample coordinates are computed in float64, separately along rows and columns.  A *mark* is (lower index, upper index, weight of
the upper one).  Regions come from a network, so their numbers are arbitrary.  Neither a loop bound nor a memory address depends
on an unchecked number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...native.inlining import apart
from ...native.memory import Array, Axes, Element, Word, alloc, array_float64, array_int64, free, generic
from ...native.status import BAD_VALUE, INDEX_OUT_OF_RANGE, OK, OUT_OF_MEMORY
from ..shaped import Shaped
from ..spatial.cpu import BATCH, CHANNEL, COLUMN, ROW, Spatial, spatial, start_of, strides_of

#: The largest distance of a region's corner in elements: sums of such numbers are exact.
FARTHEST = 2.0**50
#: The columns of a region, for each of its taps, from which the taps alone are read: vectors read neighbours.
WIDE = 4


class Grid(NamedTuple):
    """The bins of a region: their numbers along rows and columns, the elements of the data per unit of a region's corners, and
    the samples of a bin along an axis, 0 for one per element."""

    pooled: Axes
    scale: float
    ratio: int


class Bins(NamedTuple):
    """Marks or taps, bin after bin, of rows and then of columns: indices, weights, and the end of each bin."""

    indices: Array
    weights: Array
    ends: Array


@generic
def region_axis(rois: Array, region: int, axis: int, grid: Grid) -> tuple[float, float, float]:
    """Along one axis (0: rows, 1: columns): the region's start, the size of a bin, and the samples per bin."""
    start = np.float64(rois[5 * region + 2 - axis]) * grid.scale
    end = np.float64(rois[5 * region + 4 - axis]) * grid.scale
    bin_size = max(end - start, 1.0) / grid.pooled[axis]
    return start, bin_size, np.float64(grid.ratio) if grid.ratio > 0 else math.ceil(bin_size)


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
def mark_axis(marks: Bins, first: int, bin_at: int, rois: Array, region: int, axis: int, size: int, grid: Grid) -> float:
    """Fill in the marks of one axis from ``first`` on, the ends of its bins from ``bin_at`` on; they count from ``first``.

    Returns the number of samples per bin, including those outside.
    """
    pooled, (indices, weights, ends) = grid.pooled[axis], marks
    start, bin_size, samples = region_axis(rois, region, axis, grid)
    step, found = bin_size / samples, first
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
        ends[bin_at + k] = found - first
    return samples


@generic
def marks_needed(rois: Array, region: int, axis: int, size: int, grid: Grid) -> int:
    """An upper bound of the number of marks along an axis of a region."""
    start, bin_size, samples = region_axis(rois, region, axis, grid)
    total = 0
    for k in range(grid.pooled[axis]):
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
def place_taps(marks: Bins, first: int, bins: int, bin_at: int, taps: Bins, at: int, samples: float) -> None:
    """Store the taps of each bin from ``at`` on; its marks begin at ``first``, the ends of both are from ``bin_at`` on.

    A weight is a part of the mean of ``samples``.
    """
    mark, tap = first, at
    for k in range(bins):
        begin = tap
        while mark < first + marks.ends[bin_at + k]:
            weight = marks.weights[mark] / samples
            tap = add_tap(taps.indices, taps.weights, begin, tap, marks.indices[2 * mark], 1.0 / samples - weight)
            tap = add_tap(taps.indices, taps.weights, begin, tap, marks.indices[2 * mark + 1], weight)
            mark += 1
        taps.ends[bin_at + k] = tap


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
def average_region(data: Spatial, out: Spatial, at: Word, to: Word, pooled: Axes, taps: Bins, most: int, line: Array) -> None:
    """The means of all bins of a region: taps of rows from 0 on, of columns from ``most`` on; ``line``: for a row of the data."""
    indices, weights, ends = taps
    count, left, right = ends[pooled[0] + pooled[1] - 1] - most, 0, 0
    for tap in range(most, most + count):
        left = min(left, indices[tap]) if tap > most else indices[tap]
        right = max(right, indices[tap] + 1)
    is_wide = right - left > WIDE * count
    first, last = (0, count) if is_wide else (left, right)
    for c in range(data.sizes[CHANNEL]):
        source, target = at + c * data.steps[CHANNEL], to + c * out.steps[CHANNEL]
        for k in range(pooled[0]):
            for x in range(first, last):
                line[np.uint64(x)] = 0.0
            for tap in range(ends[k - 1] if k > 0 else 0, ends[k]):
                row = source + indices[tap] * data.steps[ROW]
                add_row(data.data, row, data.steps[COLUMN], weights[tap], indices, most, count, left, right, is_wide, line)
            for m in range(pooled[1]):
                total = 0.0
                for tap in range(ends[pooled[0] + m - 1] if m > 0 else most, ends[pooled[0] + m]):
                    total += weights[tap] * line[tap - most if is_wide else indices[tap]]
                out.data[target + k * out.steps[ROW] + m * out.steps[COLUMN]] = total


@generic
def pool_bin(data: Spatial, at: Word, marks: Bins, rows: Axes, columns: Axes, floor: float) -> float:
    """The maximum, starting from ``floor``, of the samples of one bin: ``rows`` and ``columns`` are (begin, end) of its marks."""
    indices, weights, _ = marks
    out = floor
    for i in range(rows[0], rows[1]):
        y0, y1, wy = indices[2 * i], indices[2 * i + 1], weights[i]
        for j in range(columns[0], columns[1]):
            value = sample_of(data.data, at, data.steps, y0, y1, wy, indices[2 * j], indices[2 * j + 1], weights[j])
            if value > out or value != value:
                out = value
            if out != out:
                return out
    return out


@generic
def align_region(
    data: Spatial,
    rois: Array,
    out: Spatial,
    region: int,
    marks: Bins,
    most: int,
    taps: Bins,
    line: Array,
    grid: Grid,
    is_max: bool,
) -> None:
    """All bins of one region: marks of rows from 0 on, of columns from ``most`` on, and taps, twice as many."""
    (rows, columns), ends = grid.pooled, marks.ends
    samples_y = mark_axis(marks, 0, 0, rois, region, 0, data.sizes[ROW], grid)
    samples_x = mark_axis(marks, most, rows, rois, region, 1, data.sizes[COLUMN], grid)
    image = np.int64(rois[5 * region]) * data.steps[BATCH]
    if not is_max:
        place_taps(marks, 0, rows, 0, taps, 0, samples_y)
        place_taps(marks, most, columns, rows, taps, 2 * most, samples_x)
        average_region(data, out, image, region * out.steps[BATCH], grid.pooled, taps, 2 * most, line)
        return
    for c in range(data.sizes[CHANNEL]):
        at, to = image + c * data.steps[CHANNEL], start_of(out, region, c)
        for k in range(rows):
            of_rows = (ends[k - 1] if k > 0 else 0, ends[k])
            for m in range(columns):
                of_columns = (most + (ends[rows + m - 1] if m > 0 else 0), most + ends[rows + m])
                # a sample outside is 0, which takes part in the maximum
                all_inside = of_rows[1] - of_rows[0] == samples_y and of_columns[1] - of_columns[0] == samples_x
                largest = pool_bin(data, at, marks, of_rows, of_columns, -math.inf if all_inside else 0.0)
                out.data[to + k * out.steps[ROW] + m * out.steps[COLUMN]] = largest


@apart("scale")
@generic
def roi_align(data: Shaped, rois: Shaped, out: Shaped, pooled: Axes, scale: float, ratio: int, layout: bool, is_max: bool) -> int:
    """The mean, or maximum, of the interpolated samples of each bin."""
    given, regions, grid = spatial(data, layout), rois.dims[0], Grid(pooled, scale, ratio)
    sizes = given.sizes
    results = (1, sizes[CHANNEL], 1, pooled[0], pooled[1])
    status = check_regions(rois.data, regions, sizes[BATCH], scale)
    if status != OK:
        return status
    most = 1
    for region in range(regions):
        most = max(most, marks_needed(rois.data, region, 0, sizes[ROW], grid))
        most = max(most, marks_needed(rois.data, region, 1, sizes[COLUMN], grid))
    bins, columns = pooled[0] + pooled[1], max(sizes[COLUMN], 2 * most)
    block = alloc(8 * (14 * most + 2 * bins + columns))
    if block == 0:
        return OUT_OF_MEMORY
    ends = block + 112 * most + 8 * columns
    marks = Bins(array_int64(block, 4 * most), array_float64(block + 32 * most, 2 * most), array_int64(ends, bins))
    taps = Bins(
        array_int64(block + 48 * most, 4 * most), array_float64(block + 80 * most, 4 * most), array_int64(ends + 8 * bins, bins)
    )
    line = array_float64(block + 112 * most, columns)
    for region in range(regions):
        to = Spatial(out.data, results, strides_of(results, layout))
        align_region(given, rois.data, to, region, marks, most, taps, line, grid, is_max)
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
def roi_pool(data: Shaped, rois: Shaped, out: Shaped, pooled: Axes, scale: float, layout: bool) -> int:
    """The maximum of each bin."""
    given, regions = spatial(data, layout), rois.dims[0]
    sizes, steps = given.sizes, given.steps
    status = check_regions(rois.data, regions, sizes[BATCH], scale)
    if status != OK:
        return status
    out_steps = strides_of((1, sizes[CHANNEL], 1, pooled[0], pooled[1]), layout)
    for region in range(regions):
        for k in range(pooled[0]):
            rows = bin_ends(rois.data, region, 0, k, pooled[0], scale, sizes[ROW])
            for m in range(pooled[1]):
                columns = bin_ends(rois.data, region, 1, m, pooled[1], scale, sizes[COLUMN])
                to = region * out_steps[BATCH] + k * out_steps[ROW] + m * out_steps[COLUMN]
                for c in range(sizes[CHANNEL]):
                    at = np.int64(rois.data[5 * region]) * steps[BATCH] + c * steps[CHANNEL]
                    out.data[to + c * out_steps[CHANNEL]] = largest_of(data.data, at, steps, rows, columns)
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
    data: Shaped, boxes: Shaped, box_indices: Shaped, out: Shaped, layout: bool, is_nearest: bool, outside: float
) -> int:
    """Crop each box from its image, and resize it."""
    given, results, corners = spatial(data, layout), spatial(out, layout), boxes.data
    rows, width = results.sizes[ROW], results.sizes[COLUMN]
    for k in range(results.sizes[BATCH]):
        if not 0 <= box_indices.data[k] < given.sizes[BATCH]:
            return INDEX_OUT_OF_RANGE
    for k in range(results.sizes[BATCH]):
        columns = (corners[4 * k + 1], corners[4 * k + 3], width, given.sizes[COLUMN])
        for y in range(rows):
            row = (crop_place(corners[4 * k], corners[4 * k + 2], y, rows, given.sizes[ROW]), given.sizes[ROW])
            for c in range(results.sizes[CHANNEL]):
                at, to = start_of(given, box_indices.data[k], c), start_of(results, k, c) + y * results.steps[ROW]
                step = results.steps[COLUMN]
                crop_row(data.data, at, given.steps, row, columns, out.data, to, step, is_nearest, outside)
    return OK
