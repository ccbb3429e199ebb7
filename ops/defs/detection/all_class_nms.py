"""Non-maximum suppression per class."""

from __future__ import annotations

import math
from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, dim
from ...composition.legalize import indices
from ...core.dtype_rules import FLOATS, INTEGERS, require, require_same
from ...core.implementation import Kernel, Length, OpCall, Scratch
from ...core.op import Op, OpPattern, TypeRelError
from ...core.parameters import Parameter, Parameters
from ...kernels.all_class_nms import cpu as bodies
from ...kernels.all_class_nms import cuda as cuda
from ...kernels.sort.radix import COUNTERS
from ...kernels.vision.cpu import KEPT_ROWS


@frozen
class AllClassNonMaxSuppressionAttrs:
    """``output_format``: ``onnx``: rows (image, class, box) of all kept boxes, and their number; ``tensorflow``: per image rows
    (class, box) of the kept boxes, best first, their scores, and their number."""

    output_format: Literal["onnx", "tensorflow"] = "onnx"


@frozen
class RegularNonMaxSuppressionAttrs:
    """``max_detections_per_class``: the maximum number of boxes of each class, -1 for all; ``max_detections``: the number of
    boxes of the result; ``num_classes``: the number of classes, whose scores are the last of each box (the preceding scores
    belong to the background); ``score_threshold``: the minimum score; ``iou_threshold``: the maximum overlap."""

    max_detections_per_class: int
    max_detections: int
    num_classes: int
    iou_threshold: float
    score_threshold: float


_INPUTS = ("boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold")


def _scratches(of_all_classes: Length) -> tuple[Scratch, ...]:
    """The scratch buffers of the bodies: for the boxes of a class, and for the ``of_all_classes`` boxes of an image."""
    return (
        *(Scratch(axis=1), Scratch("int64", axis=1)) * 2,
        Scratch("int64", length=COUNTERS),
        Scratch(axis=1, rows=KEPT_ROWS),
        *(Scratch("float64", length=of_all_classes), Scratch("int64", length=of_all_classes)) * 2,
    )


def _boxes_by_class(call: OpCall) -> Dim:
    _, classes, boxes = call.inputs[1].shape
    return dim(0) if call.attrs.output_format == "onnx" else classes * boxes


def _boxes_by_regular_class(call: OpCall) -> Dim:
    return call.inputs[1].shape[1] * int(call.attrs.num_classes)


def _all_class_rule(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, ...]:
    name = "vision.all_class_non_max_suppression"
    dtype = require_same(name, dtypes, (0, 1), _INPUTS)
    require(name, dtype, FLOATS, 0, "boxes")
    for position, allowed in ((2, INTEGERS), (3, FLOATS), (4, FLOATS)):
        require(name, dtypes[position], allowed, position, _INPUTS[position])
    return ("int64", "int64") if attrs.output_format == "onnx" else ("int64", dtype, "int64")


def _regular_rule(dtypes: tuple[Any, ...], attrs: RegularNonMaxSuppressionAttrs) -> tuple[str, ...]:
    name = "vision.regular_non_max_suppression"
    dtype = require_same(name, dtypes, (0, 1), _INPUTS)
    require(name, dtype, FLOATS, 0, "boxes")
    for what in ("iou_threshold", "score_threshold"):
        if math.isnan(getattr(attrs, what)):
            raise TypeRelError(f"{name}: {what} must be a number, not nan")
    return dtype, "int32", dtype, "int32"


def _regular(attrs: RegularNonMaxSuppressionAttrs) -> dict[str, Any]:
    return {
        "classes": attrs.num_classes,
        "most": attrs.max_detections_per_class,
        "overlap": float(attrs.iou_threshold),
        "score": float(attrs.score_threshold),
        "at_least": True,
    }


Op(
    name="vision.all_class_non_max_suppression",
    doc="The boxes of each image and class with a score above `score_threshold` that overlap no better box by more than "
    "`iou_threshold`, at most `max_output_boxes_per_class` (-1: all).  A box is given by two corners.  In tensorflow format, 0 "
    "fills the rest.",
    inputs=_INPUTS,
    python=Parameters.of(
        "boxes",
        "scores",
        Parameter("max_output_boxes_per_class", -1, dtype="int32"),
        Parameter("iou_threshold", -1.0, dtype="float32"),
        Parameter("score_threshold", -1.0, dtype="float32"),
        "output_format",
    ),
    attrs=AllClassNonMaxSuppressionAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_all_class_rule,
    legalization=indices(2),
    kernels=(
        Kernel(
            "all_class_non_max_suppression",
            bodies.suppress_classes,
            attrs=lambda attrs: {},
            views=("", "dims", "flat", "flat", "flat", "", "", "flat"),
            scratch=_scratches(_boxes_by_class),
            choose=lambda attrs, dtypes: (
                bodies.suppress_classes if attrs.output_format == "onnx" else bodies.suppress_classes_of_images
            ),
            cuda=cuda.all_class_non_max_suppression,
        ),
    ),
)

Op(
    name="vision.regular_non_max_suppression",
    doc="As `vision.all_class_non_max_suppression`, for scores `[images, boxes, classes]`: the best boxes of each image over all "
    "classes, their classes and scores, and their number; 0 fills the rest.",
    inputs=_INPUTS[:2],
    attrs=RegularNonMaxSuppressionAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_regular_rule,
    kernels=(
        Kernel(
            "regular_non_max_suppression",
            bodies.suppress_regularly,
            attrs=_regular,
            views=("", "dims", "", "", "", "flat"),
            scratch=_scratches(_boxes_by_regular_class),
            cuda=cuda.regular_non_max_suppression,
        ),
    ),
)
