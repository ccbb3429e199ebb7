"""Non-maximum suppression of each class by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from ..shape_funcs.dims import Dim, dim
from .dtype_rules import FLOATS, INDICES, require, require_same
from .implementation import Kernel, Length, OpCall, Scratch
from .kernels import class_suppression as bodies
from .kernels.cuda import class_suppression as cuda
from .kernels.radix import COUNTERS
from .kernels.vision import KEPT_ROWS
from .op import Op, OpPattern, TypeRelError


@dataclass(frozen=True)
class AllClassNonMaxSuppressionAttrs:
    """``output_format``: ``onnx``: image, class and box of all that are kept, and how many; ``tensorflow``: of each image class
    and box of those that are kept, best first, their scores, and how many."""

    output_format: Literal["onnx", "tensorflow"] = "onnx"


@dataclass(frozen=True)
class RegularNonMaxSuppressionAttrs:
    """``max_detections_per_class``: so many of each class, -1 for all; ``max_detections``: in the result; ``num_classes``: whose
    scores are the last ones of each box (those before them are of the background); a score must not be below ``score_threshold``,
    an overlap not above ``iou_threshold``."""

    max_detections_per_class: int
    max_detections: int
    num_classes: int
    iou_threshold: float
    score_threshold: float


_INPUTS = ("boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold")


def _room(of_all_classes: Length) -> tuple[Scratch, ...]:
    """What the bodies work in: for the boxes of a class, and those of all classes of an image, of which there are so many."""
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
    return call.inputs[1].shape[1] * call.attrs.num_classes


def _all_class_rule(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, ...]:
    name = "vision.all_class_non_max_suppression"
    dtype = require_same(name, dtypes, (0, 1), _INPUTS)
    require(name, dtype, FLOATS, 0, "boxes")
    for position, allowed in ((2, INDICES), (3, FLOATS), (4, FLOATS)):
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
        "per_class": attrs.max_detections_per_class,
        "iou_threshold": float(attrs.iou_threshold),
        "score_threshold": float(attrs.score_threshold),
    }


Op(
    name="vision.all_class_non_max_suppression",
    doc="Of the boxes of each image, two corners each, for each class those that score above `score_threshold` and overlap no "
    "better one by more than `iou_threshold`: `max_output_boxes_per_class` at most (-1: all).  In tensorflow's format -1 fills "
    "the rest.",
    inputs=_INPUTS,
    attrs=AllClassNonMaxSuppressionAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_all_class_rule,
    kernels=(
        Kernel(
            "all_class_non_max_suppression",
            bodies.suppress_classes,
            attrs=lambda attrs: {},
            views=("", "dims", "flat", "flat", "flat", "", "", "flat"),
            scratch=_room(_boxes_by_class),
            choose=lambda attrs, dtypes: (
                bodies.suppress_classes if attrs.output_format == "onnx" else bodies.suppress_classes_of_images
            ),
            cuda=cuda.all_class_non_max_suppression,
        ),
    ),
)

Op(
    name="vision.regular_non_max_suppression",
    doc="As `vision.all_class_non_max_suppression`, of scores `[images, boxes, classes]`: the best boxes of each image over all "
    "classes, their classes and scores, and how many there are; 0 fills the rest.",
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
            scratch=_room(_boxes_by_regular_class),
            cuda=cuda.regular_non_max_suppression,
        ),
    ),
)
