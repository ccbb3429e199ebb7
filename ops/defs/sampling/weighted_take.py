"""Weighted sums of elements of an axis: the step along one axis of resizing and other linear filters."""

from __future__ import annotations

from typing import Any

from ....shape_funcs.symbolic.dim import const
from ...composition.legalize import indices
from ...core.compute import Guard, Scalar, Value, apply, cast, index
from ...core.dtype_rules import FLOATS, INTEGERS, NUMBERS, require
from ...core.op import Op, OpPattern
from ...native.status import INDEX_OUT_OF_RANGE
from ..movement.transform import AxisAttrs


def _element(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: AxisAttrs, output: Value) -> Scalar:
    data, at, weights = inputs
    axis, taps = attrs.axis % data.rank, const(at.shape[1])
    assert taps is not None, "the shape function takes no other"
    total, last = cast(index(0), output.dtype), data.size(axis) - 1
    for k in range(taps):
        limited = apply("minimum", apply("maximum", cast(at(axes[axis], k), "int64"), index(0)), last)
        element = cast(data(*axes[:axis], limited, *axes[axis + 1 :]), output.dtype)
        product = element * weights(axes[axis], k)
        total = total + product if k else product
    if all(const(d) not in (None, 0) for d in data.shape):
        return total
    # an empty axis has no valid index
    return Guard(apply("greater", data.size(axis), index(0), dtype="bool"), INDEX_OUT_OF_RANGE, total)


def _dtype(dtypes: tuple[Any, ...], attrs: Any) -> str:
    require("weighted_take", dtypes[0], NUMBERS, 0, "data")
    require("weighted_take", dtypes[1], INTEGERS, 1, "indices")
    require("weighted_take", dtypes[2], FLOATS, 2, "weights")
    return str(dtypes[2])


Op(
    name="weighted_take",
    doc="Element i along `axis` is the sum over k of the elements at `indices[i, k]`, each times `weights[i, k]`: "
    "`weighted_take([10.0, 20.0], [[0, 1], [1, 1]], [[0.5, 0.5], [1.0, 0.0]], axis=0) = [15, 20]`.  The dtype is that of the "
    "weights; an index out of range is clipped.",
    inputs=("data", "indices", "weights"),
    attrs=AxisAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_dtype,
    compute=_element,
    legalization=indices(1),
)
