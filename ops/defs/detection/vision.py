"""Operators on boxes proposed by a detector."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...composition.legalize import indices
from ...core.dtype_rules import FLOATS, INTEGERS, require
from ...core.implementation import Kernel, Scratch
from ...core.op import Op, OpPattern
from ...core.parameters import Parameter, Parameters
from ...kernels.sort.radix import COUNTERS
from ...kernels.vision import cpu as bodies
from ...kernels.vision.cuda import get_valid_counts
from ...kernels.vision.nms_cuda import non_max_suppression


@frozen
class GetValidCountsAttrs:
    """``id_index``, ``score_index``: positions of class (-1: none) and score within a box."""

    id_index: int = 0
    score_index: int = 1


@frozen
class NonMaxSuppressionAttrs:
    """``force_suppress``: whether boxes of different classes suppress each other; ``top_k``: the number of best boxes considered,
    -1 for all; ``coord_start``, ``score_index``, ``id_index`` (-1: one class): positions of corners, score and class within a
    box; ``return_indices``: whether the result is the indices of the kept boxes and their number, instead of the boxes;
    ``invalid_to_bottom``: whether the kept boxes then come first."""

    force_suppress: bool = False
    top_k: int = -1
    coord_start: int = 2
    score_index: int = 1
    id_index: int = 0
    return_indices: bool = True
    invalid_to_bottom: bool = False


def _valid_counts_rule(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, ...]:
    require("vision.get_valid_counts", dtypes[0], FLOATS, 0, "data")
    require("vision.get_valid_counts", dtypes[1], FLOATS, 1, "score_threshold")
    return "int32", dtypes[0], "int32"


_NMS_INPUTS = ("data", "valid_count", "indices", "max_output_size", "iou_threshold")


def _suppression_rule(dtypes: tuple[Any, ...], attrs: Any) -> str | tuple[str, ...]:
    allowed = (FLOATS, ("int32",), ("int32",), INTEGERS, FLOATS)
    for position, name in enumerate(_NMS_INPUTS):
        require("vision.non_max_suppression", dtypes[position], allowed[position], position, name)
    return ("int32", "int32") if attrs.return_indices else dtypes[0]


def _suppression_attrs(attrs: Any) -> dict[str, Any]:
    names = ["force_suppress", "top_k", "coord_start", "score_index", "id_index"]
    if not attrs.return_indices:
        names.append("invalid_to_bottom")
    return {name: getattr(attrs, name) for name in names}


Op(
    name="vision.get_valid_counts",
    doc="The boxes of each image with a class and a score above a threshold, moved to the front: their number, the boxes, and "
    "their original indices; -1 fills the rest.",
    inputs=("data", "score_threshold"),
    python=Parameters.of("data", Parameter("score_threshold", dtype="float32"), "id_index", "score_index"),
    attrs=GetValidCountsAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_valid_counts_rule,
    kernels=(Kernel("get_valid_counts", bodies.get_valid_counts, views=("", "flat", ""), cuda=get_valid_counts, refuses=True),),
)

Op(
    name="vision.non_max_suppression",
    doc="The boxes among the first `valid_count` of each image, best score first, that overlap no better box of their class by "
    "`iou_threshold` or more: at most `max_output_size` (-1: all), as their `indices`, and their number; -1 fills the rest.  "
    "An `iou_threshold` of 0 or less keeps every valid box at its position.",
    inputs=_NMS_INPUTS,
    python=Parameters.of(
        *_NMS_INPUTS[:3],
        Parameter("max_output_size", -1, dtype="int32"),
        Parameter("iou_threshold", 0.5, dtype="float32"),
        "force_suppress",
        "top_k",
        "coord_start",
        "score_index",
        "id_index",
        "return_indices",
        "invalid_to_bottom",
    ),
    attrs=NonMaxSuppressionAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_suppression_rule,
    legalization=indices(3),
    kernels=(
        Kernel(
            "non_max_suppression",
            bodies.suppressed_indices,
            attrs=_suppression_attrs,
            views=("", "", "", "flat", "flat", ""),
            scratch=(
                *(Scratch(axis=1), Scratch("int64", axis=1)) * 2,
                Scratch("int64", length=COUNTERS),
                Scratch(axis=1, rows=bodies.KEPT_ROWS),
            ),
            choose=lambda attrs, dtypes: bodies.suppressed_indices if attrs.return_indices else bodies.suppressed_boxes,
            cuda=non_max_suppression,
            refuses=True,
        ),
    ),
)
