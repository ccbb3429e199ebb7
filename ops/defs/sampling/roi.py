"""Operators that sample regions of an image."""

from __future__ import annotations

import math
from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import data_layouts, per_axis
from ...composition.legalize import indices
from ...core.dtype_rules import FLOATS, INTEGERS, one_of, require, require_same
from ...core.implementation import Kernel, Split
from ...core.op import Op, OpPattern, TypeRelError
from ...kernels.roi import cpu as bodies
from ...kernels.roi import cuda as cuda
from ..convolution.conv import Numbers

#: Maximum number of samples of a bin along each axis; a finer grid is rejected as a mistake.
MOST_SAMPLES = 1024


@frozen
class RoiAlignAttrs:
    """``pooled_size``: rows and columns of the result; ``spatial_scale``: elements of the data per unit of the regions;
    ``sample_ratio``: samples along each axis of a bin, -1 or 0 for one per element; ``mode``: mean or maximum of the samples."""

    pooled_size: Numbers
    spatial_scale: float
    sample_ratio: int = -1
    layout: str = data_layouts(2)[0]
    mode: Literal["avg", "max"] = "avg"


@frozen
class RoiPoolAttrs:
    """``pooled_size``: rows and columns of the result; ``spatial_scale``: elements of the data per unit of the regions."""

    pooled_size: Numbers
    spatial_scale: float
    layout: str = data_layouts(2)[0]


@frozen
class CropAndResizeAttrs:
    """``crop_size``: rows and columns of the result; ``method``: bilinear interpolation or the nearest element;
    ``extrapolation_value``: the value outside the image; ``out_dtype``: None for the data's."""

    crop_size: Numbers
    layout: str = data_layouts(2)[1]
    method: Literal["bilinear", "nearest"] = "bilinear"
    extrapolation_value: float = 0.0
    out_dtype: str | None = None


def _finite(name: str, attribute: str, value: float) -> None:
    if not math.isfinite(value):
        raise TypeRelError(f"{name}: {attribute} must be finite, not {value}")


def _regions_dtype(name: str, dtypes: tuple[Any, ...], attrs: Any) -> str:
    dtype = require_same(name, dtypes, (0, 1), ("data", "rois"))
    require(name, dtype, FLOATS, 0, "data")
    _finite(name, "spatial_scale", attrs.spatial_scale)
    return dtype


def _roi_align_rule(dtypes: tuple[Any, ...], attrs: RoiAlignAttrs) -> str:
    name = "vision.roi_align"
    dtype = _regions_dtype(name, dtypes, attrs)
    if attrs.sample_ratio > MOST_SAMPLES:
        raise TypeRelError(f"{name}: sample_ratio must be at most {MOST_SAMPLES}, not {attrs.sample_ratio}")
    return dtype


def _crop_rule(dtypes: tuple[Any, ...], attrs: CropAndResizeAttrs) -> str:
    name = "image.crop_and_resize"
    require(name, dtypes[0], FLOATS, 0, "data")
    require(name, dtypes[1], FLOATS, 1, "boxes")
    require(name, dtypes[2], INTEGERS, 2, "box_indices")
    _finite(name, "extrapolation_value", attrs.extrapolation_value)
    if attrs.out_dtype is not None:
        one_of(name, "out_dtype", attrs.out_dtype, FLOATS)
    return attrs.out_dtype or dtypes[0]


def _channels_last(attrs: Any) -> bool:
    return bool(attrs.layout == data_layouts(2)[1])


def _regions(attrs: RoiAlignAttrs) -> dict[str, Any]:
    return {
        "pooled": per_axis(attrs.pooled_size, 2, "pooled_size"),
        "scale": float(attrs.spatial_scale),
        "ratio": attrs.sample_ratio,
        "layout": _channels_last(attrs),
        "is_max": attrs.mode == "max",
    }


def _pools(attrs: RoiPoolAttrs) -> dict[str, Any]:
    return {
        "pooled": per_axis(attrs.pooled_size, 2, "pooled_size"),
        "scale": float(attrs.spatial_scale),
        "layout": _channels_last(attrs),
    }


def _crops(attrs: CropAndResizeAttrs) -> dict[str, Any]:
    return {
        "layout": _channels_last(attrs),
        "is_nearest": attrs.method == "nearest",
        "outside": float(attrs.extrapolation_value),
    }


Op(
    name="vision.roi_align",
    doc="Each region of the data, split into `pooled_size` bins: the mean (or maximum) of interpolated samples.  A region is "
    "batch index, x1, y1, x2, y2; its minimum size is one element.  A sample more than one element outside counts as 0.",
    inputs=("data", "rois"),
    attrs=RoiAlignAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_roi_align_rule,
    kernels=(
        Kernel(
            "roi_align",
            bodies.roi_align,
            attrs=_regions,
            views=("dims",),
            split=Split(ns=10, tensors=(False, True), by=-1),
            cuda=cuda.roi_align(_regions),
            refuses=True,
        ),
    ),
)

Op(
    name="vision.roi_pool",
    doc="Each region of the data, split into `pooled_size` bins of whole elements: the maximum of each bin, 0 of an empty bin.  "
    "A region is batch index, x1, y1, x2, y2; the corners are rounded to the nearest, halves away from 0, and are inclusive.",
    inputs=("data", "rois"),
    attrs=RoiPoolAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=lambda dtypes, attrs: _regions_dtype("vision.roi_pool", dtypes, attrs),
    kernels=(
        Kernel(
            "roi_pool",
            bodies.roi_pool,
            attrs=_pools,
            views=("dims",),
            split=Split(ns=10, tensors=(False, True), by=-1),
            cuda=cuda.roi_pool(_pools),
            refuses=True,
        ),
    ),
)

Op(
    name="image.crop_and_resize",
    doc="The crop of image `box_indices[k]` to box k, resized.  A box is y1, x1, y2, x2; 0 is the first row or column and 1 the "
    "last; a box with swapped corners flips the crop.",
    inputs=("data", "boxes", "box_indices"),
    attrs=CropAndResizeAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_crop_rule,
    legalization=indices(2),
    kernels=(
        Kernel(
            "crop_and_resize",
            bodies.crop_and_resize,
            attrs=_crops,
            views=("dims",),
            split=Split(ns=5, tensors=(False, True), by=-1),
            cuda=cuda.crop_and_resize(_crops),
            refuses=True,
        ),
    ),
)
