"""Samples of images: at the positions of a grid, and in regions."""

from __future__ import annotations

from functools import reduce

import numpy as np

from .....declarations.frozen_dataclass import frozen
from .....ops.defs.sampling.roi import MOST_SAMPLES
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..elementwise import number
from ..vectors import as_int64, extent

_METHODS = {"linear": "bilinear", "bilinear": "bilinear", "cubic": "bicubic", "bicubic": "bicubic", "nearest": "nearest"}
_LAYOUTS = {2: "NCHW", 3: "NCDHW"}
#: The largest distance of a region's corner that is told from others, in elements.
_FARTHEST = 2.0**48


@onnx_operator("GridSample", since=16)
def grid_sample(node: Node, x: Expr, grid: Expr) -> Expr:
    """Over two or three spatial axes; cubic over two."""
    spatial = node.rank(x) - 2
    if spatial not in _LAYOUTS:
        raise node.error(f"samples have 2 or 3 spatial axes, not {spatial}")
    rank = spatial + 2
    first = relay.transpose(grid, [0, rank - 1, *range(1, rank - 1)])
    return relay.image.grid_sample(
        x, first, node.choice("mode", _METHODS, "linear"), _LAYOUTS[spatial],
        node.attr("padding_mode", "zeros"), bool(node.attr("align_corners", 0)),
    )  # fmt: skip


@onnx_operator("MaxRoiPool", since=1)
def max_roi_pool(node: Node, x: Expr, rois: Expr) -> Expr:
    return relay.vision.roi_pool(x, rois, node.required("pooled_shape"), node.attr("spatial_scale", 1.0))


# ---- regions -------------------------------------------------------------------------------------------------------------


@frozen
class _Samples:
    """The samples of regions along one axis, ``[regions, bins, samples]``.

    ``low``, ``high``: the elements around each; ``weight``: of the upper one; ``counts``: whether it is one of the region's;
    ``inside``: whether it is in the data; ``number``: the samples of each bin, ``[regions]``.
    """

    low: Expr
    high: Expr
    weight: Expr
    counts: Expr
    inside: Expr
    number: Expr


def _samples(node: Node, x: Expr, rois: Expr, axis: int, bins: int) -> _Samples:
    """The samples along the rows (axis 0) or the columns (axis 1)."""
    scale, ratio = number(node.attr("spatial_scale", 1.0), "float64"), node.attr("sampling_ratio", 0)
    half, zero, one = (number(v, "float64") for v in (0.5, 0, 1))
    ends = [relay.reshape(relay.strided_slice(rois, [k], [k + 1], [1], [1]), [-1]) for k in (1 - axis, 3 - axis)]
    start, end = (relay.multiply(relay.cast(e, "float64"), scale) for e in ends)
    length = relay.subtract(end, start)
    if _is_shifted(node):
        start = relay.subtract(start, half)
    else:
        length = relay.maximum(length, one)  # at least one element
    each = node.bind(relay.divide(length, number(bins, "float64")))
    if ratio > 0:
        count = node.bind(relay.full_like(each, number(ratio, "float64")))
        most: Expr = const(ratio, "int64")
    else:
        count = node.bind(relay.maximum(relay.ceil(each), zero))
        most = node.bind(relay.cast(relay.max(relay.concatenate([count, relay.reshape(zero, [1])], 0)), "int64"))
    index = relay.cast(relay.arange(const(0, "int64"), most, const(1, "int64"), dtype="int64"), "float64")
    index = node.bind(relay.reshape(index, [1, 1, -1]))
    start, each, total = (relay.reshape(v, [-1, 1, 1]) for v in (start, each, count))
    step = relay.divide(each, relay.maximum(total, one))
    bin_start = relay.multiply(const(np.arange(bins, dtype=np.float64).reshape(1, -1, 1)), each)
    at = node.bind(relay.add(relay.add(start, bin_start), relay.multiply(relay.add(index, half), step)))
    size = relay.cast(extent(x, 2 + axis), "float64")
    last = relay.subtract(size, one)
    inside = relay.logical_and(relay.greater_equal(at, number(-1, "float64")), relay.less_equal(at, size))
    place = node.bind(relay.minimum(relay.maximum(at, zero), relay.maximum(last, zero)))
    low = node.bind(relay.floor(place))
    high = relay.minimum(relay.add(low, one), last)
    return _Samples(
        node.bind(relay.cast(low, "int64")), node.bind(relay.cast(high, "int64")), node.bind(relay.subtract(place, low)),
        node.bind(relay.less(index, total)), node.bind(inside), count,
    )  # fmt: skip


def _is_shifted(node: Node) -> bool:
    """Whether coordinates are those of the corners of elements, half an element before their centres."""
    return node.version >= 16 and node.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel"


def _means(node: Node, x: Expr, rois: Expr, images: Expr, dtype: str) -> Expr:
    """The means of the samples of regions of at least one element: those of Relay's operator.

    Corners beyond ``_FARTHEST``, infinite ones too, are as far outside as there, and so are those that are NaN.
    """
    scale = node.attr("spatial_scale", 1.0)
    farthest = _FARTHEST / max(abs(scale), 1.0)
    rois = relay.where(relay.isnan(rois), number(farthest, dtype), relay.clip(rois, -farthest, farthest))
    column = relay.reshape(images if node.dtype(images) == dtype else relay.cast(images, dtype), [-1, 1])
    bins = node.attr("output_height", 1), node.attr("output_width", 1)
    return relay.vision.roi_align(x, relay.concatenate([column, rois], 1), bins, scale, node.attr("sampling_ratio", 0))


@onnx_operator("RoiAlign", since=10)
def roi_align(node: Node, x: Expr, rois: Expr, images: Expr) -> Expr:
    """The mean of the samples of each bin; with `mode=max` the largest of the weighted elements around the samples."""
    dtype, is_max = node.dtype(x), node.choice("mode", {"avg": False, "max": True}, "avg")
    has_kernel = not _is_shifted(node) and node.attr("sampling_ratio", 0) <= MOST_SAMPLES and dtype in ("float32", "float64")
    if has_kernel and not is_max:
        return _means(node, x, rois, images, dtype)
    rows = _samples(node, x, rois, 0, node.attr("output_height", 1))
    columns = _samples(node, x, rois, 1, node.attr("output_width", 1))
    zero, one, none = number(0, "float64"), number(1, "float64"), number(-np.inf, "float64")
    flat = relay.reshape(x, [-1])
    channels = relay.reshape(relay.arange(const(0, "int64"), extent(x, 1), const(1, "int64"), dtype="int64"), [1, -1])
    plane = relay.add(relay.multiply(relay.reshape(as_int64(node, images), [-1, 1]), extent(x, 1)), channels)
    plane = node.bind(relay.reshape(relay.multiply(plane, relay.multiply(extent(x, 2), extent(x, 3))), [0, 0, 1, 1, 1, 1]))
    counts = relay.logical_and(_rows(rows.counts), _columns(columns.counts))
    inside = relay.logical_and(_rows(rows.inside), _columns(columns.inside))
    terms = []
    for y, down in ((rows.low, relay.subtract(one, rows.weight)), (rows.high, rows.weight)):
        line = relay.add(plane, relay.multiply(_rows(y), extent(x, 3)))
        for z, across in ((columns.low, relay.subtract(one, columns.weight)), (columns.high, columns.weight)):
            element = relay.cast(relay.take(flat, relay.add(line, _columns(z)), axis=0), "float64")
            value = relay.multiply(relay.multiply(_rows(down), _columns(across)), element)
            terms.append(relay.where(inside, value, zero))
    total = relay.reshape(relay.multiply(rows.number, columns.number), [-1, 1, 1, 1])
    if is_max:
        largest = relay.where(counts, reduce(relay.maximum, terms), none)
        result = relay.where(relay.greater(total, zero), relay.max(largest, axis=[3, 5]), zero)
    else:
        sums = relay.sum(relay.where(counts, reduce(relay.add, terms), zero), axis=[3, 5])
        result = relay.divide(sums, relay.maximum(total, one))
    return relay.cast(result, dtype)


def _rows(x: Expr) -> Expr:
    """``[regions, bins, samples]`` among regions, channels, and both bins and samples of rows and columns."""
    return relay.expand_dims(relay.expand_dims(x, 1), 4, 2)


def _columns(x: Expr) -> Expr:
    return relay.expand_dims(x, 1, 3)
