"""Shapes of operators that sample regions of an image: one result per region, all of one size."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import need_rank, same_size
from ...symbolic.dim import Shape, dim
from ...symbolic.registry import Operand, register_shape_func
from ..convolution.conv import data_layouts, in_layout, layout_in, per_axis, shape_in_layout


@register_shape_func("vision.roi_pool")
@register_shape_func("vision.roi_align")
def roi_align(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """For data ``[B, C, H, W]`` and regions ``[K, 5]``: ``[K, C, *attrs.pooled_size]``."""
    data, rois = inputs
    need_rank(data, 4, "the data", 0)
    need_rank(rois, 2, "the regions", 1)
    layout = layout_in(attrs.layout, data_layouts(2), "layout")
    message = "a region must have {} numbers (batch index, x1, y1, x2, y2), not {}"
    same_size(dim(5), rois.shape[1], message, 1, 1)
    pooled = per_axis(attrs.pooled_size, 2, "pooled_size")
    _, channels, _ = in_layout(data.shape, layout)
    return shape_in_layout(rois.shape[0], channels, (dim(pooled[0]), dim(pooled[1])), layout)


@register_shape_func("image.crop_and_resize")
def crop_and_resize(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """For data ``[B, H, W, C]``, boxes ``[K, 4]`` and box indices ``[K]``: ``[K, *attrs.crop_size, C]``."""
    data, boxes, indices = inputs
    need_rank(data, 4, "the data", 0)
    need_rank(boxes, 2, "the boxes", 1)
    need_rank(indices, 1, "box_indices", 2)
    layout = layout_in(attrs.layout, data_layouts(2), "layout")
    same_size(dim(4), boxes.shape[1], "a box must have {} numbers (y1, x1, y2, x2), not {}", 1, 1)
    count = same_size(boxes.shape[0], indices.shape[0], "there are {} boxes, but box_indices has {}", 2, 0)
    crop = per_axis(attrs.crop_size, 2, "crop_size")
    _, channels, _ = in_layout(data.shape, layout)
    return shape_in_layout(count, channels, (dim(crop[0]), dim(crop[1])), layout)
