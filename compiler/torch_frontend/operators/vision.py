"""Operators of torchvision."""

from __future__ import annotations

from typing import Any

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ...onnx_frontend.operators.searches import non_max_suppression
from ...onnx_frontend.operators.spatial import sampling
from ..operator_table import declare
from ..torch_node import TorchNode, with_attributes


@declare("nms", namespace="torchvision")
def nms(node: TorchNode, boxes: Expr, scores: Expr, overlap: float) -> Any:
    """The number of boxes is known at run time."""
    all_boxes = const(2**31 - 1, "int64")
    found = node.bind(
        non_max_suppression(
            with_attributes(node),
            relay.expand_dims(boxes, 0),
            relay.expand_dims(scores, 0, 2),
            all_boxes,
            const(overlap, "float32"),
            None,
        )
    )
    return node.cast(node.bind(relay.squeeze(relay.strided_slice(found, [2], [3], [1], [1]), [1])), "int64")


@declare("roi_align", namespace="torchvision")
def roi_align(node: TorchNode, x: Expr, rois: Expr, scale: float, height: int, width: int, samples: int, aligned: bool) -> Any:
    given = {"spatial_scale": scale, "output_height": height, "output_width": width, "sampling_ratio": max(samples, 0)}
    kind = "half_pixel" if aligned else "output_half_pixel"
    view = with_attributes(node, **given, coordinate_transformation_mode=kind)
    view.version = 16
    images = node.bind(relay.squeeze(relay.strided_slice(rois, [0], [1], [1], [1]), [1]))
    return sampling.roi_align(view, x, node.bind(relay.strided_slice(rois, [1], [5], [1], [1])), node.cast(images, "int64"))
