"""Sums to the shape that a broadcast began with: the gradient of a broadcast."""

from __future__ import annotations

from collections.abc import Sequence

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.axes.collapse import KEEP, SPLIT, fates
from ....shape_funcs.defs.axes.collapse import SUM as SUMMED
from ....shape_funcs.symbolic.argument_checks import vector
from ....shape_funcs.symbolic.dim import IntLike
from ...composition.composite import Term, call, composite
from ...composition.legalize import indices
from ...core.dtype_rules import NUMBERS, like_first
from ...core.op import NoAttrs, Op, get
from ..movement.transform import ExpandDimsAttrs, view
from .reduce import SUM, ReduceAttrs


@frozen
class CollapseAxesAttrs:
    """``axes``: the axes that are split in two.

    They decide the rank, which must not depend on sizes that a later pass finds.
    """

    axes: tuple[int, ...] = ()


view(
    "collapse_axes_like",
    "The data, with those axes split in two of which only the run knows whether `collapse_sum_like` sums them: the summed "
    "elements, and those that stay: `collapse_axes_like([[1, 2]], [[0]], axes=[1]) = [[[1], [2]]]`.",
    CollapseAxesAttrs,
    ("data", "collapse_type"),
)
view(
    "collapse_axes_to",
    "The data, with those axes split in two of which only the run knows whether `collapse_sum_to` sums them: the summed "
    "elements, and those that stay: `collapse_axes_to([[1, 2]], [1, 1], axes=[1]) = [[[1], [2]]]`.",
    CollapseAxesAttrs,
    ("data", "shape"),
    dtype=like_first("collapse_axes_to", ("data", "shape"), {1: NUMBERS}),
    legalization=indices(1),
)


def _summed(split: Op, data: Term, other: Term, target: Sequence[IntLike]) -> Term:
    plan = fates(data.shape, target)
    leading = len(plan) - len(target)
    known = (fate == SUMMED or data.shape[axis] is target[axis - leading] for axis, fate in enumerate(plan))
    if not all(known):
        axes = tuple(axis for axis, fate in enumerate(plan) if fate == SPLIT)
        data = call(split, data, other, attrs=CollapseAxesAttrs(axes))
    folded, ones, at, kept = [], [], 0, 0
    for axis, fate in enumerate(plan):
        if fate != KEEP:
            folded.append(at)
        if fate == SUMMED and axis >= leading:
            ones.append(kept)
        at += 2 if fate == SPLIT else 1
        kept += axis >= leading
    result: Term = call(SUM, data, attrs=ReduceAttrs(tuple(folded))) if folded else data
    for axis in ones:
        result = call(get("expand_dims"), result, attrs=ExpandDimsAttrs(axis))
    return result


def _like(inputs: tuple[Term, Term], attrs: NoAttrs) -> Term:
    data, other = inputs
    return _summed(get("collapse_axes_like"), data, other, other.shape)


def _to(inputs: tuple[Term, Term], attrs: NoAttrs) -> Term:
    data, shape = inputs
    return _summed(get("collapse_axes_to"), data, shape, vector(shape.operand, "shape", 1))


composite(
    name="collapse_sum_like",
    doc="The data summed to the shape of another tensor, from which a broadcast makes the data's: "
    "`collapse_sum_like([[1, 2], [3, 4]], [[0], [0]]) = [[3], [7]]`; reads no element of `collapse_type`.",
    inputs=("data", "collapse_type"),
    dtype=like_first("collapse_sum_like", ("data", "collapse_type"), {0: NUMBERS}),
    expand=_like,
)
composite(
    name="collapse_sum_to",
    doc="The data summed to a shape, from which a broadcast makes the data's: "
    "`collapse_sum_to([[1, 2], [3, 4]], [1, 2]) = [[4, 6]]`.",
    inputs=("data", "shape"),
    data_dependent=(False, True),
    dtype=like_first("collapse_sum_to", ("data", "shape"), {0: NUMBERS, 1: NUMBERS}),
    expand=_to,
)
