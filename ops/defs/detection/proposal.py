"""Region proposals: the best boxes of a region proposal network."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, cast, composite, known, number, results, widened
from ...core.compute import Cast, Literal, Scalar, Select, Value, apply, index
from ...core.dtype_rules import FLOATS, require, require_same
from ...core.op import Op, OpPattern, TypeRelError, get
from ...core.tensor_types import computed_in, numpy_dtype
from ..arithmetic.creation import ArangeAttrs
from ..axes.reduce import SUM, ReduceAttrs
from ..axes.sort import CumulativeAttrs
from ..movement.indexing import GatherNdAttrs
from ..movement.transform import (
    CONCATENATE,
    STRIDED_SLICE,
    AxisAttrs,
    ExpandDimsAttrs,
    ReshapeAttrs,
    SliceAttrs,
    SqueezeAttrs,
    select_part,
)
from .multibox import MOST_ANCHORS, column, finite, positive

Numbers = tuple[float, ...]
_INPUTS = ("cls_prob", "bbox_pred", "im_info")


@frozen
class RpnBoxesAttrs:
    """``scales``, ``ratios``: side length, in units of ``feature_stride``, and height by width of the anchors;
    ``feature_stride``: elements of the picture per position; ``rpn_min_size``: least side length of a box, in units of the
    picture's scale; ``iou_loss``: whether the predictions are offsets of the corners, not of the centre and the logarithms of
    the sizes."""

    scales: Numbers
    ratios: Numbers
    feature_stride: int
    rpn_min_size: int
    iou_loss: bool


@frozen
class ProposalAttrs:
    """``scales``, ``ratios``: side length, in units of ``feature_stride``, and height by width of the anchors;
    ``feature_stride``: elements of the picture per position; ``threshold``: the overlap above which a box suppresses a worse one;
    ``rpn_pre_nms_top_n``: number of best boxes considered, 0 or less for all; ``rpn_post_nms_top_n``: number of boxes of a
    picture in the result; ``rpn_min_size``: least side length of a box, in units of the picture's scale; ``iou_loss``: whether
    the predictions are offsets of the corners, not of the centre and the logarithms of the sizes."""

    scales: Numbers
    ratios: Numbers
    feature_stride: int
    threshold: float
    rpn_pre_nms_top_n: int
    rpn_post_nms_top_n: int
    rpn_min_size: int
    iou_loss: bool


def _boxes_rule(name: str, dtypes: tuple[Any, ...], attrs: Any) -> str:
    dtype = require_same(name, dtypes, range(3), _INPUTS)
    require(name, dtype, FLOATS, 0, _INPUTS[0])
    positive(name, "scales", attrs.scales)
    positive(name, "ratios", attrs.ratios)
    if len(attrs.scales) * len(attrs.ratios) > MOST_ANCHORS:
        raise TypeRelError(f"{name}: scales and ratios make more than {MOST_ANCHORS} boxes of one position")
    if not 1 <= attrs.feature_stride <= 2**31:
        raise TypeRelError(f"{name}: feature_stride is {attrs.feature_stride}; it must be at least 1, and at most {2**31}")
    return dtype


# ---- the boxes of every position -----------------------------------------------------------------------------------------


def anchors(attrs: Any) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of the anchors of the first position, ratios before scales; both ends are inside.

    The sides are rounded to whole units before they are scaled, halves up.
    """
    out = []
    for ratio in attrs.ratios:
        width = math.floor(math.sqrt(math.floor(attrs.feature_stride**2 / ratio)) + 0.5)
        height = math.floor(width * ratio + 0.5)
        for scale in attrs.scales:
            middle = (attrs.feature_stride - 1.0) / 2
            x, y = (width * scale - 1.0) / 2, (height * scale - 1.0) / 2
            out.append((middle - x, middle - y, middle + x, middle + y))
    return out


def _rpn_boxes(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: RpnBoxesAttrs, output: Value) -> Scalar:
    scores, offsets, images = inputs
    dtype = computed_in(output.dtype)
    batch, number_of, field = axes
    own = anchors(attrs)
    place, anchor = (apply(f, number_of, index(len(own))) for f in ("floordiv", "floormod"))
    column_at, row_at = (apply(f, place, scores.size(3)) for f in ("floormod", "floordiv"))

    def real(value: float) -> Literal:
        return Literal(float(value), dtype)

    def wide(value: Scalar) -> Scalar:
        return value if value.dtype == dtype else Cast(value, dtype)

    def of_anchor(values: list[float]) -> Scalar:
        parts: list[Scalar] = [real(value) for value in values]
        return select_part(parts, [index(k) for k in range(len(parts))], anchor)

    def predicted(k: int) -> Scalar:
        return wide(offsets(batch, anchor * 4 + k, row_at, column_at))

    def info(k: int) -> Scalar:
        return wide(images(batch, index(k)))

    def sides(axis: int) -> tuple[Scalar, Scalar]:
        """The ends of the box along x (0) or y (1), cut off at the picture's edges."""
        start = wide((column_at if axis == 0 else row_at) * attrs.feature_stride)
        low = start + of_anchor([a[axis] for a in own])
        if attrs.iou_loss:
            ends = low + predicted(axis), start + of_anchor([a[2 + axis] for a in own]) + predicted(2 + axis)
        else:
            size = of_anchor([a[2 + axis] - a[axis] + 1.0 for a in own])
            middle = predicted(axis) * size + (low + (size - real(1)) * real(0.5))
            half = (apply("exp", predicted(2 + axis)) * size - real(1)) * real(0.5)
            ends = middle - half, middle + half
        last = info(1 - axis) - real(1)
        first, second = (apply("maximum", apply("minimum", end, last), real(0)) for end in ends)
        return first, second

    (x0, x1), (y0, y1) = sides(0), sides(1)
    least = info(2) * real(attrs.rpn_min_size)
    small = apply("or", x1 - x0 + real(1) < least, y1 - y0 + real(1) < least)
    more = Select(small, least * real(0.5), real(0))
    # a position beyond the picture, in a batch of pictures of several sizes
    beyond = [
        wide(at) >= apply("trunc", apply("divide", info(k), real(attrs.feature_stride)))
        for k, at in ((0, row_at), (1, column_at))
    ]
    score = wide(scores(batch, anchor + len(own), row_at, column_at))
    score = Select(apply("or", small, apply("or", *beyond)), real(-1), score)
    fields = [wide(batch), x0 - more, y0 - more, x1 + more, y1 + more, score]
    found = select_part(fields, [index(k) for k in range(len(fields))], field)
    return found if dtype == output.dtype else Cast(found, output.dtype)


Op(
    name="vision.rpn_boxes",
    doc="The boxes of a region proposal network before suppression, for every position and anchor: rows picture, left, top, "
    "right, bottom, score, both ends inside; the score of a box that is too small or outside is -1: "
    "`vision.rpn_boxes([[[[0.5]], [[0.75]]]], [[[[0.0]], [[0.0]], [[0.0]], [[0.0]]]], [[4.0, 4.0, 1.0]], scales=[1.0], "
    "ratios=[1.0], feature_stride=4, rpn_min_size=1, iou_loss=False) = [[[0.0, 0.0, 0.0, 3.0, 3.0, 0.75]]]`.",
    inputs=_INPUTS,
    attrs=RpnBoxesAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=lambda dtypes, attrs: _boxes_rule("vision.rpn_boxes", dtypes, attrs),
    compute=_rpn_boxes,
)


# ---- the best of them ----------------------------------------------------------------------------------------------------


def _proposal_rule(dtypes: tuple[Any, ...], attrs: ProposalAttrs) -> str:
    name = "vision.proposal"
    dtype = _boxes_rule(name, dtypes, attrs)
    finite(name, "threshold", (attrs.threshold,))
    if attrs.threshold < 0:
        raise TypeRelError(f"{name}: threshold is {attrs.threshold}; an overlap is at least 0")
    return dtype


def _chosen(data: Term, at: Term) -> Term:
    """The rows ``at`` of each picture."""
    rows: Term = call(get("gather_nd"), data, call(get("expand_dims"), at, attrs=ExpandDimsAttrs(0)), attrs=GatherNdAttrs(1))
    return rows


def _proposal(inputs: tuple[Term, ...], attrs: ProposalAttrs) -> Term:
    count = attrs.rpn_post_nms_top_n
    if count < 0:
        raise ShapeError(f"rpn_post_nms_top_n is {count}; it must be at least 0")
    own = RpnBoxesAttrs(attrs.scales, attrs.ratios, attrs.feature_stride, attrs.rpn_min_size, attrs.iou_loss)
    boxes = call(get("vision.rpn_boxes"), *widened(*inputs), attrs=own)
    left, top, right, bottom, score = (column(boxes, k) for k in range(1, 6))
    # suppression takes a box's end as outside, and suppresses from its threshold on
    ends = call(CONCATENATE, (left, top, right + 1, bottom + 1, score), attrs=AxisAttrs(2))
    above = float(np.nextafter(numpy_dtype(boxes.dtype).type(attrs.threshold), np.inf))
    ones = call(get("ones_like"), cast(call(get("squeeze"), score, attrs=SqueezeAttrs((2,))), "int32"))
    suppression = get("vision.non_max_suppression")
    kept, number_of_kept = results(
        call(
            suppression, ends, call(SUM, ones, attrs=ReduceAttrs(1)), call(get("cumsum"), ones, attrs=CumulativeAttrs(1)) - 1,
            number(count, "int32"), number(above, boxes.dtype),
            attrs=suppression.attrs(top_k=max(attrs.rpn_pre_nms_top_n, -1), coord_start=0, score_index=4, id_index=-1),
        )
    )  # fmt: skip
    # the kept boxes are repeated until there are enough
    positions = call(get("arange"), known(0), known(count), known(1), attrs=ArangeAttrs("int64"))
    at = call(get("floor_mod"), call(get("expand_dims"), positions, attrs=ExpandDimsAttrs(0)), cast(number_of_kept, "int64"))
    rows = _chosen(boxes, call(get("gather"), kept, at, attrs=AxisAttrs(1)))
    rows = call(STRIDED_SLICE, rows, attrs=SliceAttrs((0,), (5,), axes=(2,)))
    return cast(call(get("reshape"), rows, attrs=ReshapeAttrs((-3, 0))), inputs[0].dtype)


composite(
    name="vision.proposal",
    doc="The best boxes of `vision.rpn_boxes`, without those that overlap a better one: for each picture "
    "`rpn_post_nms_top_n` rows picture, left, top, right, bottom, the kept boxes over again where there are fewer: "
    "`vision.proposal([[[[0.5]], [[0.75]]]], [[[[0.0]], [[0.0]], [[0.0]], [[0.0]]]], [[4.0, 4.0, 1.0]], scales=[1.0], "
    "ratios=[1.0], feature_stride=4, threshold=0.5, rpn_pre_nms_top_n=9, rpn_post_nms_top_n=2, rpn_min_size=1, iou_loss=False) "
    "= [[0.0, 0.0, 0.0, 3.0, 3.0], [0.0, 0.0, 0.0, 3.0, 3.0]]`.",
    inputs=_INPUTS,
    attrs=ProposalAttrs,
    dtype=_proposal_rule,
    expand=_proposal,
)
