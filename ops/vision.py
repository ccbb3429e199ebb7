"""Operators on the boxes that a detector proposes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .dtype_rules import FLOATS, INDICES, require
from .implementation import Kernel, Scratch
from .kernels import vision as bodies
from .kernels.cuda.suppression import non_max_suppression
from .kernels.cuda.vision import get_valid_counts
from .kernels.radix import COUNTERS
from .op import Op, OpPattern


@dataclass(frozen=True)
class GetValidCountsAttrs:
    """Where in a box its class (-1: it has none) and its score are."""

    id_index: int = 0
    score_index: int = 1


@dataclass(frozen=True)
class NonMaxSuppressionAttrs:
    """``force_suppress``: whatever the class; ``top_k``: only so many of the best boxes, -1 for all; ``coord_start``,
    ``score_index``, ``id_index`` (-1: one class): where in a box its corners, score and class are; ``return_indices``: the
    result is which boxes are kept, and how many, else the boxes; ``invalid_to_bottom``: then the kept ones come first."""

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
    allowed = (FLOATS, ("int32",), ("int32",), INDICES, FLOATS)
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
    doc="The boxes of each image that score above a threshold and have a class, moved to the front: how many there are, the "
    "boxes, and where each was; -1 fills the rest.",
    inputs=("data", "score_threshold"),
    attrs=GetValidCountsAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_valid_counts_rule,
    kernels=(Kernel("get_valid_counts", bodies.get_valid_counts, views=("", "flat", ""), cuda=get_valid_counts, refuses=True),),
)

Op(
    name="vision.non_max_suppression",
    doc="Of the first `valid_count` boxes of each image, best score first, those that overlap no better one of their class by "
    "`iou_threshold` or more: `max_output_size` at most (-1: all), given as their `indices`, and how many; -1 fills the rest.  "
    "An `iou_threshold` of 0 or less keeps every valid box, in its place.",
    inputs=_NMS_INPUTS,
    attrs=NonMaxSuppressionAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_suppression_rule,
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
