"""Shapes of operators along an axis (softmax, sort, cumulative sums, top k) and of searches."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import axis_in, need_rank, same_size, scalar
from ...symbolic.dim import Dim, Shape, dim, product, result_size
from ...symbolic.dim_operations import le, lt, where
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func


@register_shape_func("nn.softmax")
@register_shape_func("nn.log_softmax")
@register_shape_func("sort")
@register_shape_func("argsort")
def along_axis(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The shape of the data; ``attrs.axis`` must be in range."""
    (data,) = inputs
    axis_in(attrs.axis, data.rank)
    return data.shape


@register_shape_func("cumsum")
@register_shape_func("cumprod")
def cumulative(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The shape of the data; flattened if ``attrs.axis`` is None."""
    (data,) = inputs
    if attrs.axis is None:
        return (product(data.shape),)
    axis_in(attrs.axis, data.rank)
    return data.shape


@register_shape_func("topk")
def topk(inputs: tuple[Operand], attrs: Any) -> list[Shape]:
    """The shape with ``attrs.k`` elements along ``attrs.axis`` (k less than 1: all), for values, indices or both."""
    return _topk(inputs[0], dim(attrs.k), attrs)


@register_shape_func("dyn.topk", data_dependent=[False, True])
def dyn_topk(inputs: tuple[Operand, Operand], attrs: Any) -> list[Shape]:
    """The shape with ``k`` elements along ``attrs.axis`` (k less than 1: all), for values, indices or both."""
    return _topk(inputs[0], scalar(inputs[1], "k", 1), attrs)


def _topk(data: Operand, k: Dim, attrs: Any) -> list[Shape]:
    axis = axis_in(attrs.axis, data.rank)
    size = data.shape[axis]
    check(le(k, size), f"k is {{}}, but axis {axis} has only {{}} elements", k, size)
    if attrs.ret_type not in ("both", "values", "indices"):
        raise ShapeError(f"ret_type must be 'both', 'values' or 'indices', not {attrs.ret_type!r}")
    out = (*data.shape[:axis], where(lt(k, 1), size, k), *data.shape[axis + 1 :])
    return [out] * (2 if attrs.ret_type == "both" else 1)


@register_shape_func("argwhere", upper_bound=True)
def argwhere(inputs: tuple[Operand], attrs: Any) -> Shape:
    """``[at most the number of elements, rank]``: the coordinates of the nonzero elements, whose number the kernel reports."""
    (data,) = inputs
    return (result_size(product(data.shape)), dim(data.rank))


@register_shape_func("unique", upper_bound=True)
def unique(inputs: tuple[Operand], attrs: Any) -> list[Shape]:
    """Distinct elements, index of each first occurrence, index of each element's distinct value, their number[, counts]."""
    (data,) = inputs
    need_rank(data, 1, "the data", 0)
    found = result_size(data.shape[0])
    return [(found,), (found,), data.shape, (dim(1),), *([(found,)] if attrs.return_counts else [])]


@register_shape_func("searchsorted")
def searchsorted(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape of the values.  The sorted sequence is a vector, or has the same leading axes as the values."""
    sequence, values = inputs
    need_rank(sequence, 1, "the sorted sequence", 0, at_least=True)
    if sequence.rank > 1:
        need_rank(values, sequence.rank, "the values", 1)
        for axis, (a, b) in enumerate(zip(sequence.shape[:-1], values.shape[:-1], strict=True)):
            same_size(a, b, f"axis {axis} is {{}} in the sorted sequence and {{}} in the values", 1, axis)
    return values.shape
