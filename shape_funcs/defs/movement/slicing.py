"""Shapes of slices: numpy's rule, over symbolic sizes and limits."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import axes_in, dimensions, vector
from ...symbolic.dim import Dim, Shape, const, dim, shape
from ...symbolic.dim_operations import eq, lt, max_, min_, not_, where
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func

_LARGEST = 2**63 - 1
_HUGE = 2**62  # differences of larger limits could overflow


@register_shape_func("strided_slice")
def strided_slice(inputs: tuple[Operand], attrs: Any) -> Shape:
    """``data[begin:end:strides]`` along ``attrs.axes`` (None: the first axes).

    Limits out of range are clipped as in numpy.  With ``slice_mode="size"``, ``end`` holds sizes (-1: to the end) and the
    strides are 1.
    """
    (data,) = inputs
    begin, end = shape(attrs.begin), shape(attrs.end)
    strides = shape(attrs.strides or ())
    if len(strides) == 1:
        strides = strides * len(begin)
    strides = strides + (dim(1),) * (len(begin) - len(strides))
    axes = tuple(range(len(begin))) if attrs.axes is None else axes_in(attrs.axes, data.rank, "axes")
    return _slice(data, begin, end, strides, axes, attrs.slice_mode)


@register_shape_func("dyn.strided_slice", data_dependent=[False, True, True, True])
def dyn_strided_slice(inputs: tuple[Operand, ...], attrs: Any) -> Shape:
    """``data[begin:end:strides]`` along the first axes, with run-time limits and strides."""
    data, *rest = inputs
    begin, end, strides = (
        vector(x, what, i) for i, (what, x) in enumerate(zip(("begin", "end", "strides"), rest, strict=True), 1)
    )
    return _slice(data, begin, end, strides, tuple(range(len(begin))), attrs.slice_mode)


def _slice(data: Operand, begin: Shape, end: Shape, strides: Shape, axes: tuple[int, ...], mode: str) -> Shape:
    if mode not in ("end", "size"):
        raise ShapeError(f"slice_mode must be 'end' or 'size', not {mode!r}")
    lengths = {"begin": len(begin), "end": len(end), "strides": len(strides), "axes": len(axes)}
    if len(set(lengths.values())) != 1:
        raise ShapeError("begin, end, strides and axes differ in length: " + ", ".join(f"{k} {n}" for k, n in lengths.items()))
    if len(axes) > data.rank:
        raise ShapeError(f"begin has {len(begin)} entries, the data only {dimensions(data.rank)}")
    out = list(data.shape)
    for axis, b, e, s in zip(axes, begin, end, strides, strict=True):
        if mode == "size":
            out[axis] = _sized_length(out[axis], b, e)
            continue
        check(not_(eq(s, 0)), f"the stride of axis {axis} is 0", axis=axis)
        out[axis] = slice_length(out[axis], b, e, s)
    return tuple(out)


def slice_length(n: Dim, begin: Dim, end: Dim, stride: Dim) -> Dim:
    """The number of elements of ``[begin:end:stride]`` along an axis of size ``n``.  No intermediate value overflows."""
    known_begin, known_end, step = const(begin), const(end), const(stride)
    if step == 1 and _clip(end, n) is n and known_begin is not None and -_HUGE < known_begin < 0:
        return min_(n, -begin)  # the last -begin elements
    if step is not None and step > 0 and known_begin is not None and 0 <= known_begin < _HUGE:
        # the maximum with 0 replaces the clipping of these limits
        last = n + end if known_end is not None and -_HUGE < known_end < 0 else _clip(end, n)
        return max_(0, -((begin - last) // stride))
    backwards = lt(stride, 0)
    low, high = -backwards, n - backwards
    first = min_(max_(_clip(begin, n), low), high)
    last = min_(max_(_clip(end, n), low), high)
    # ceiling division: floor division of the negative
    return max_(0, -((first - last) // stride))


def _clip(limit: Dim, n: Dim) -> Dim:
    """``limit`` clipped to -1 (before the first element) through ``n``; a negative limit counts from the end."""
    known = const(limit)
    if known is not None and known >= _LARGEST:
        return n
    if known is not None and known < 0:
        return max_(n + known, -1)
    # clipped before n is added: the limit may be the smallest int64
    inside = min_(max_(limit, -n - 1), n)
    return where(lt(inside, 0), inside + n, inside)


def _sized_length(n: Dim, begin: Dim, size: Dim) -> Dim:
    """The number of elements of a slice from ``begin`` on with at most ``size`` elements; a negative ``size``: to the end."""
    first = min_(max_(_clip(begin, n), 0), n)
    return where(lt(size, 0), n - first, min_(size, n - first))
