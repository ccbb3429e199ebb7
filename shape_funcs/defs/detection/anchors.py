"""Shapes of operators on the anchors of a detector: boxes around every position of a picture."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import need_rank, same_size
from ...symbolic.dim import Shape, dim, product
from ...symbolic.dim_operations import eq, lt
from ...symbolic.registry import Operand, check, register_shape_func


@register_shape_func("vision.multibox_prior")
def multibox_prior(inputs: tuple[Operand], attrs: Any) -> Shape:
    """For data ``[B, C, H, W]``: boxes ``[1, H * W * anchors, 4]``; the anchors are one for each size, and one for each ratio
    after the first."""
    (data,) = inputs
    need_rank(data, 4, "the data", 0)
    anchors = len(attrs.sizes) + len(attrs.ratios) - 1
    return dim(1), data.shape[2] * data.shape[3] * anchors, dim(4)


@register_shape_func("vision.rpn_boxes")
def rpn_boxes(inputs: tuple[Operand, ...], attrs: Any) -> Shape:
    """For scores ``[B, 2 * anchors, H, W]``, offsets ``[B, 4 * anchors, H, W]`` and pictures ``[B, 3]``: rows
    ``[B, H * W * anchors, 6]``."""
    scores, offsets, images = inputs
    need_rank(scores, 4, "cls_prob", 0)
    need_rank(offsets, 4, "bbox_pred", 1)
    need_rank(images, 2, "im_info", 2)
    anchors = len(attrs.scales) * len(attrs.ratios)
    batch, channels, *space = scores.shape
    given = f"{len(attrs.scales)} scales and {len(attrs.ratios)} ratios"
    check(eq(channels, 2 * anchors), f"cls_prob has {{}} channels, {given} make {2 * anchors}", channels, input=0, axis=1)
    taken = offsets.shape[1]
    check(eq(taken, 4 * anchors), f"bbox_pred has {{}} channels, {given} make {4 * anchors}", taken, input=1, axis=1)
    for axis, (mine, size) in enumerate(zip(space, offsets.shape[2:], strict=True), 2):
        same_size(mine, size, f"axis {axis} of cls_prob has size {{}}, that of bbox_pred {{}}", 1, axis)
    batch = same_size(batch, offsets.shape[0], "cls_prob has {} pictures, bbox_pred {}", 1, 0)
    batch = same_size(batch, images.shape[0], "cls_prob has {} pictures, im_info {}", 2, 0)
    same_size(images.shape[1], dim(3), "a row of im_info has {} numbers, not {}: height, width, scale", 2, 1)
    boxes = product([*space, anchors])
    check(lt(0, boxes), "cls_prob has no position, so there is no box to propose", input=0)
    return batch, boxes, dim(6)
