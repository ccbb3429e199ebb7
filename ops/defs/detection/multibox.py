"""Single-shot detection: boxes around every position of a picture, and the boxes that a network makes of them."""

from __future__ import annotations

import math
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.argument_checks import need_rank, same_size
from ....shape_funcs.symbolic.dim import dim
from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ...composition.composite import Term, call, cast, composite, equal_sizes, number, widened
from ...core.compute import Cast, Literal, Scalar, Select, Value, apply, index
from ...core.dtype_rules import FLOATS, require, require_same
from ...core.op import Op, OpPattern, TypeRelError, get
from ...core.tensor_types import computed_in
from ..arithmetic.broadcast import MAXIMUM, MINIMUM, WHERE
from ..arithmetic.elementwise import EXP
from ..axes.reduce import MAX, SUM, ArgReduceAttrs, ReduceAttrs
from ..movement.indexing import GatherNdAttrs
from ..movement.transform import CONCATENATE, STRIDED_SLICE, AxisAttrs, ExpandDimsAttrs, ReshapeAttrs, SliceAttrs, select_part

#: The most anchors of one position; more are rejected as a mistake.
MOST_ANCHORS = 1024


@frozen
class MultiboxPriorAttrs:
    """``sizes``: side lengths of the boxes as a part of the picture's; ``ratios``: width by height, of further boxes of the
    first size, except the first ratio; ``steps``: distance of two rows and of two columns, 0 or less for one by their number;
    ``offsets``: position of a centre in its row and its column; ``clip``: whether boxes are cut off at the picture's edges."""

    sizes: tuple[float, ...] = (1.0,)
    ratios: tuple[float, ...] = (1.0,)
    steps: tuple[float, float] = (-1.0, -1.0)
    offsets: tuple[float, float] = (0.5, 0.5)
    clip: bool = False


@frozen
class MultiboxTransformLocAttrs:
    """``clip``: whether boxes are cut off at the picture's edges; ``threshold``: the least score of a box; ``variances``: factors
    of the predictions, two of the centre and two of the size; ``keep_background``: whether class 0, the background, counts as a
    class, and all boxes are kept."""

    clip: bool = True
    threshold: float = 0.01
    variances: tuple[float, float, float, float] = (0.1, 0.1, 0.2, 0.2)
    keep_background: bool = False


def positive(name: str, attribute: str, numbers: tuple[float, ...]) -> None:
    """Raise TypeRelError unless there is a number, and all are above 0 and finite."""
    if not numbers or not all(math.isfinite(n) and n > 0 for n in numbers):
        raise TypeRelError(f"{name}: {attribute} must be numbers above 0, not {numbers}")


def finite(name: str, attribute: str, numbers: tuple[float, ...]) -> None:
    """Raise TypeRelError unless all numbers are finite."""
    if not all(math.isfinite(n) for n in numbers):
        raise TypeRelError(f"{name}: {attribute} must be finite, not {numbers}")


# ---- boxes around every position -----------------------------------------------------------------------------------------


def _prior_rule(dtypes: tuple[Any, ...], attrs: MultiboxPriorAttrs) -> str:
    name = "vision.multibox_prior"
    require(name, dtypes[0], FLOATS, 0, "data")
    positive(name, "sizes", attrs.sizes)
    positive(name, "ratios", attrs.ratios)
    finite(name, "steps", attrs.steps)
    finite(name, "offsets", attrs.offsets)
    if len(attrs.sizes) + len(attrs.ratios) > MOST_ANCHORS:
        raise TypeRelError(f"{name}: sizes and ratios make more than {MOST_ANCHORS} boxes of one position")
    return str(dtypes[0])


def _prior(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: MultiboxPriorAttrs, output: Value) -> Scalar:
    (data,) = inputs
    dtype = computed_in(output.dtype)
    first, root = attrs.sizes[0], [math.sqrt(ratio) for ratio in attrs.ratios[1:]]
    halves = [
        [*(size / 2 for size in attrs.sizes), *(first * r / 2 for r in root)],
        [*(size / 2 for size in attrs.sizes), *(first / r / 2 for r in root)],
    ]
    each = len(halves[0])
    anchor, place = apply("floormod", axes[1], index(each)), apply("floordiv", axes[1], index(each))
    rows, columns = data.size(2), data.size(3)

    def one_side(at: Scalar, size: Scalar, axis: int) -> Scalar:
        step = attrs.steps[axis]
        between = Literal(float(step), dtype) if step > 0 else apply("divide", Literal(1.0, dtype), Cast(size, dtype))
        centre = (Cast(at, dtype) + Literal(float(attrs.offsets[axis]), dtype)) * between
        parts: list[Scalar] = [Literal(half, dtype) for half in halves[1 - axis]]
        half = select_part(parts, [index(k) for k in range(each)], anchor)
        if axis == 1:
            half = apply("divide", half * Cast(rows, dtype), Cast(columns, dtype))
        return Select(axes[2] < 2, centre - half, centre + half)

    horizontal = apply("equal", apply("floormod", axes[2], index(2)), index(0), dtype="bool")
    x = one_side(apply("floormod", place, columns), columns, 1)
    found: Scalar = Select(horizontal, x, one_side(apply("floordiv", place, columns), rows, 0))
    if attrs.clip:
        found = apply("minimum", apply("maximum", found, Literal(0.0, dtype)), Literal(1.0, dtype))
    return found if dtype == output.dtype else Cast(found, output.dtype)


Op(
    name="vision.multibox_prior",
    doc="Boxes left, top, right, bottom around every position of a picture, as parts of its width and height; only the shape of "
    "the data counts: `vision.multibox_prior([[[[0.0, 0.0]]]], sizes=[0.5]) = "
    "[[[0.125, 0.25, 0.375, 0.75], [0.625, 0.25, 0.875, 0.75]]]`.",
    inputs=("data",),
    attrs=MultiboxPriorAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_prior_rule,
    compute=_prior,
)


# ---- the boxes that a network makes of them ------------------------------------------------------------------------------

_INPUTS = ("cls_prob", "loc_pred", "anchor")


def _transform_rule(dtypes: tuple[Any, ...], attrs: MultiboxTransformLocAttrs) -> tuple[str, str]:
    name = "vision.multibox_transform_loc"
    dtype = require_same(name, dtypes, range(3), _INPUTS)
    require(name, dtype, FLOATS, 0, _INPUTS[0])
    finite(name, "variances", attrs.variances)
    return dtype, "int32"


def column(data: Term, at: int) -> Term:
    """The elements ``at`` of the last axis, which stays with size 1."""
    found: Term = call(STRIDED_SLICE, data, attrs=SliceAttrs((at,), (at + 1,), axes=(data.rank - 1,)))
    return found


def _moved(offsets: Term, anchor: Term, attrs: MultiboxTransformLocAttrs) -> Term:
    """The anchors ``[1, N, 4]`` moved and stretched by the predictions ``[B, N, 4]``."""
    sides: list[list[Term]] = []
    for axis in range(2):
        low, high = column(anchor, axis), column(anchor, 2 + axis)
        centre = column(offsets, axis) * attrs.variances[axis] * (high - low) + (low + high) / 2
        half = call(EXP, column(offsets, 2 + axis) * attrs.variances[2 + axis]) * (high - low) / 2
        sides.append([centre - half, centre + half])
    boxes: Term = call(CONCATENATE, (sides[0][0], sides[1][0], sides[0][1], sides[1][1]), attrs=AxisAttrs(2))
    if attrs.clip:
        boxes = call(MINIMUM, call(MAXIMUM, boxes, number(0, boxes.dtype)), number(1, boxes.dtype))
    return boxes


def _checked(inputs: tuple[Term, Term, Term]) -> tuple[Term, Term, Term]:
    """Scores ``[B, classes, N]``, predictions ``[B, N, 4]`` and anchors ``[1, N, 4]``."""
    scores, offsets, anchor = inputs
    for position, rank in enumerate((3, 2, 3)):
        need_rank(inputs[position].operand, rank, _INPUTS[position], position)
    name = "vision.multibox_transform_loc"
    offsets = equal_sizes(offsets, 0, scores, 0, f"{name}: loc_pred has {{}} pictures, cls_prob {{}}", 1)
    offsets = call(get("reshape"), offsets, attrs=ReshapeAttrs((0, -1, 4)))
    offsets = equal_sizes(offsets, 1, scores, 2, f"{name}: loc_pred is for {{}} boxes, cls_prob for {{}}", 1)
    anchor = equal_sizes(anchor, 1, scores, 2, f"{name}: anchor has {{}} boxes, cls_prob {{}}", 2)
    first, _, last = anchor.shape
    same_size(dim(1), first, "anchor has the boxes of {} picture, not of {}", 2, 0)
    same_size(dim(4), last, "a box must have {} numbers, not {}", 2, 2)
    return scores, offsets, call(get("reshape"), anchor, attrs=ReshapeAttrs((1, 0, 4)))


def _without_background(scores: Term) -> Term:
    """The scores with -1, less than any probability, as those of class 0."""
    others = call(STRIDED_SLICE, scores, attrs=SliceAttrs((1,), (INT64_MAX,), axes=(1,)))
    first = call(STRIDED_SLICE, scores, attrs=SliceAttrs((0,), (1,), axes=(1,)))
    none = call(get("zeros_like"), first) - 1
    joined: Term = call(CONCATENATE, (none, others), attrs=AxisAttrs(1))
    return joined


def _transform_loc(inputs: tuple[Term, Term, Term], attrs: MultiboxTransformLocAttrs) -> tuple[Term, Term]:
    scores, offsets, anchor = widened(*_checked(inputs))
    scores = scores if attrs.keep_background else _without_background(scores)
    kind, score = call(get("argmax"), scores, attrs=ArgReduceAttrs(1)), call(MAX, scores, attrs=ReduceAttrs(1))
    low = call(get("less"), score, number(attrs.threshold, score.dtype))
    kind = call(WHERE, low, number(0, "int32"), kind)
    valid = call(get("ones_like"), kind)
    if not attrs.keep_background:
        valid, kind = call(MINIMUM, kind, number(1, "int32")), kind - 1
    last = ExpandDimsAttrs(2)
    parts = (call(get("expand_dims"), part, attrs=last) for part in (cast(kind, score.dtype), score))
    rows = call(CONCATENATE, (*parts, _moved(offsets, anchor, attrs)), attrs=AxisAttrs(2))
    if not attrs.keep_background:
        order = call(get("argsort"), valid, attrs=get("argsort").attrs(axis=1, is_ascend=False, dtype="int32"))
        at = call(get("expand_dims"), order, attrs=ExpandDimsAttrs(0))
        rows = call(get("gather_nd"), rows, at, attrs=GatherNdAttrs(batch_dims=1))
        kept = call(get("expand_dims"), call(get("gather"), valid, order, attrs=AxisAttrs(1)), attrs=last)
        rows = call(WHERE, call(get("greater"), kept, number(0, "int32")), rows, number(-1, rows.dtype))
    return cast(rows, inputs[0].dtype), call(SUM, valid, attrs=ReduceAttrs(1))


composite(
    name="vision.multibox_transform_loc",
    doc="The anchors of each picture with their best class and its score, moved by the predictions: rows class (from 0, without "
    "the background), score, left, top, right, bottom; rows of the background or below the threshold are removed, -1 fills the "
    "rest; and the number of rows: `vision.multibox_transform_loc([[[0.1, 0.9], [0.9, 0.1]]], [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, "
    "0.0, 0.0]], [[[0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 1.0, 1.0]]], threshold=0.5) = ([[[0.0, 0.9, 0.0, 0.0, 0.5, 0.5], "
    "[-1.0, -1.0, -1.0, -1.0, -1.0, -1.0]]], [1])`.",
    inputs=_INPUTS,
    attrs=MultiboxTransformLocAttrs,
    dtype=_transform_rule,
    expand=_transform_loc,
)
