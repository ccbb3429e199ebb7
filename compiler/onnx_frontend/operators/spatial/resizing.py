"""Resize: each axis by itself, as weighted sums of neighbouring elements.

Positions and weights of an axis are computed in float64 from its sizes, which may be known at run time: once, in kernels of their
own (``annotation.stop_fusion``), not again for each element.  Nor are elements of the data, or sums along an axis before,
computed again for each sum that takes them.
"""

from __future__ import annotations

import numpy as np

from .....declarations.frozen_dataclass import frozen
from .....ops.core.tensor_types import computed_in, is_float
from ....builder.build import const
from ....builder.compositions import stop_fusion
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..elementwise import number
from ..vectors import as_int64, extent, numbers, sizes_or_expr


def _f64(value: float) -> Expr:
    return number(value, "float64")


def _float(x: Expr) -> Expr:
    return relay.cast(x, "float64")


@frozen
class _Axis:
    """An axis to resize: its number, its size before and after as int64, the scale and the region as float64 scalars."""

    axis: int
    have: Expr
    size: Expr
    scale: Expr
    region: tuple[Expr, Expr] | None


@frozen
class _Mode:
    """The attributes of a resize: interpolation, coordinates, rounding, and what is outside."""

    method: str
    coordinates: str
    rounding: str
    cubic: float
    excludes: bool
    antialias: bool


# ---- positions -----------------------------------------------------------------------------------------------------------


def _positions(a: _Axis, mode: _Mode) -> Expr:
    """The position in the data of each element of the result."""
    at = _float(relay.arange(const(0, "int64"), a.size, const(1, "int64"), dtype="int64"))
    one, half = _f64(1), _f64(0.5)
    have, whole = _float(a.have), relay.multiply(a.scale, _float(a.have))
    several = relay.not_equal(whole, one)
    between = relay.where(several, relay.subtract(whole, one), one)
    last = relay.subtract(have, one)
    centres = relay.subtract(relay.divide(relay.add(at, half), a.scale), half)
    match mode.coordinates:
        case "asymmetric":
            return relay.divide(at, a.scale)
        case "align_corners":
            return relay.where(several, relay.divide(relay.multiply(at, last), between), _f64(0))
        case "pytorch_half_pixel":
            return relay.where(several, centres, _f64(-0.5))
        case "half_pixel_symmetric":
            lost = relay.subtract(one, relay.divide(_float(a.size), whole))
            return relay.add(relay.multiply(relay.multiply(have, half), lost), centres)
        case "tf_crop_and_resize":
            assert a.region is not None
            begin, end = a.region
            covered = relay.multiply(relay.subtract(end, begin), last)
            inside = relay.where(several, relay.divide(relay.multiply(at, covered), between), relay.multiply(half, covered))
            return relay.add(inside, relay.multiply(begin, last))
    return centres


def _nearest(position: Expr, rounding: str) -> Expr:
    half = _f64(0.5)
    match rounding:
        case "floor":
            found = relay.floor(position)
        case "ceil":
            found = relay.ceil(position)
        case "round_prefer_ceil":
            found = relay.floor(relay.add(position, half))
        case _:
            found = relay.ceil(relay.subtract(position, half))
    return relay.cast(found, "int64")


# ---- weights -------------------------------------------------------------------------------------------------------------


def _weight(distance: Expr, mode: _Mode) -> Expr:
    """The weight of an element at a distance from the position."""
    d, one, zero = relay.abs(distance), _f64(1), _f64(0)
    if mode.method == "linear":
        return relay.maximum(relay.subtract(one, d), zero)
    a = mode.cubic
    near = _polynomial(d, (a + 2, -(a + 3), 0, 1))
    far = _polynomial(d, (a, -5 * a, 8 * a, -4 * a))
    return relay.where(relay.less_equal(d, one), near, relay.where(relay.less(d, _f64(2)), far, zero))


def _polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    total = _f64(coefficients[0])
    for c in coefficients[1:]:
        total = relay.add(relay.multiply(total, x), _f64(c))
    return total


def _taps(node: Node, position: Expr, a: _Axis, mode: _Mode) -> tuple[Expr, Expr]:
    """The elements that each position takes, as indices, and their weights: both ``[positions, taps]``.

    The number of taps depends on the scale with ``antialias``, else it is known.
    """
    one, zero = const(1, "int64"), const(0, "int64")
    reach = 1 if mode.method == "linear" else 2
    shrink = relay.minimum(a.scale, _f64(1)) if mode.antialias else _f64(1)
    before = relay.cast(relay.ceil(relay.divide(_f64(reach), shrink)), "int64")
    steps = _constant(node, relay.arange(relay.subtract(one, before), relay.add(before, one), one, dtype="int64"))
    # the element before the position; the taps are this one, those before and those after
    base = relay.cast(relay.subtract(relay.ceil(position), _f64(1)), "int64")
    at = relay.add(relay.expand_dims(base, 1), relay.expand_dims(steps, 0))
    distance = relay.subtract(_float(at), relay.expand_dims(position, 1))
    weights = _weight(relay.multiply(distance, shrink) if mode.antialias else distance, mode)
    last = relay.subtract(a.have, one)
    if mode.excludes:
        inside = relay.logical_and(relay.greater_equal(at, zero), relay.less_equal(at, last))
        weights = relay.where(inside, weights, _f64(0))
    if mode.excludes or mode.antialias:
        weights = relay.divide(weights, relay.sum(weights, axis=[1], keepdims=True))
    return _limited(node, at, last), weights


def _limited(node: Node, at: Expr, last: Expr) -> Expr:
    return relay.minimum(relay.maximum(at, const(0, "int64")), last)


#: The coordinates at which a whole scale maps each run of ``scale`` elements to the data in the same way.
_PERIODIC = ("asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
#: The largest scale that is written as a repetition; the import computes as many positions.
_MOST_REPEATS = 1024


# ---- data ----------------------------------------------------------------------------------------------------------------


def _repeats(node: Node, scale: Expr, mode: _Mode) -> int | None:
    """The number of times that the resize repeats each element of an axis; None for any other resize."""
    known = node.constant(scale)
    if mode.method != "nearest" or mode.coordinates not in _PERIODIC or known is None:
        return None
    factor = float(known)
    if not (factor.is_integer() and 2 <= factor <= _MOST_REPEATS):
        return None
    # the elements of a larger axis are taken as the element of an axis of size 1, before the limits of the axis
    one = _Axis(0, const(1, "int64"), const(int(factor), "int64"), _f64(factor), None)
    taken = node.constant(_nearest(_positions(one, mode), mode.rounding))
    return int(factor) if taken is not None and not np.any(taken) else None


def _resized(node: Node, x: Expr, a: _Axis, mode: _Mode, dtype: str) -> Expr:
    """The data resized along one axis; sums are computed in ``dtype``."""
    factor = _repeats(node, a.scale, mode)
    if factor is not None:
        return relay.repeat(x, factor, axis=a.axis)
    position = node.bind(_positions(a, mode))
    if mode.method == "nearest":
        last = relay.subtract(a.have, const(1, "int64"))
        return relay.take(x, _alone(node, _limited(node, _nearest(position, mode.rounding), last)), axis=a.axis)
    at, weights = _taps(node, position, a, mode)
    at, weights = _alone(node, at), _alone(node, relay.cast(weights, dtype))
    if node.size(at, 1) is not None:
        return stop_fusion(relay.weighted_take(x, at, weights, axis=a.axis))
    shape = relay.concatenate([relay.shape_of(weights, dtype="int64"), numbers([1] * (node.rank(x) - 1 - a.axis))], 0)
    weights = relay.reshape(weights, sizes_or_expr(node, node.bind(shape)), allowzero=True)
    x = x if node.dtype(x) == dtype else relay.cast(x, dtype)
    return relay.sum(relay.multiply(relay.take(x, at, axis=a.axis), weights), axis=[a.axis + 1])


def _alone(node: Node, x: Expr) -> Expr:
    """The value as a constant if the sizes are known at import, else the result of a kernel of its own."""
    known = node.constant(x)
    return node.bind(stop_fusion(x)) if known is None else const(np.array(known))


def _constant(node: Node, x: Expr) -> Expr:
    """The value as a constant if the sizes are known at import."""
    known = node.constant(x)
    return x if known is None else const(np.array(known))


def _in_order(node: Node, axes: list[_Axis]) -> list[_Axis]:
    """The axes in the order of the least time: sums along the last axis, which takes elements one by one, are the fewest."""
    shrinks = any(scale is not None and float(scale) < 1 for scale in (node.constant(a.scale) for a in axes))
    return axes if shrinks else axes[::-1]


def _extrapolated(node: Node, x: Expr, result: Expr, axes: list[_Axis], mode: _Mode) -> Expr:
    """The result with a value where its position is outside of the data."""
    rank, outside = node.rank(x), None
    for a in axes:
        position, last = _positions(a, mode), relay.subtract(_float(a.have), _f64(1))
        here = relay.logical_or(relay.less(position, _f64(0)), relay.greater(position, last))
        here = relay.reshape(here, [-1 if k == a.axis else 1 for k in range(rank)])
        outside = here if outside is None else relay.logical_or(outside, here)
    value = number(node.attr("extrapolation_value", 0.0), node.dtype(result))
    return result if outside is None else relay.where(outside, value, result)


def resized(node: Node, x: Expr, axes: list[_Axis], mode: _Mode) -> Expr:
    """The data resized along these axes, computed in float32 or float64; integers are rounded to the nearest, halves to even."""
    dtype = node.dtype(x)
    interpolates = mode.method != "nearest"
    compute = (computed_in(dtype) if is_float(dtype) else "float32") if interpolates else dtype
    result = node.bind(stop_fusion(x)) if interpolates and axes else x
    for a in _in_order(node, axes):
        result = node.bind(_resized(node, result, a, mode, compute))
    if compute != dtype and axes:
        result = relay.cast(result if is_float(dtype) else relay.rint(result), dtype)
    return _extrapolated(node, x, result, axes, mode) if mode.coordinates == "tf_crop_and_resize" else result


# ---- operators -----------------------------------------------------------------------------------------------------------


def _mode(node: Node, coordinates: str) -> _Mode:
    methods = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}
    method = node.choice("mode", methods, "nearest")
    return _Mode(
        method, coordinates, node.attr("nearest_mode", "round_prefer_floor"), node.attr("cubic_coeff_a", -0.75),
        bool(node.attr("exclude_outside", 0)), bool(node.attr("antialias", 0)) and method != "nearest",
    )  # fmt: skip


def _item(vector: Expr, k: int) -> Expr:
    return relay.take(vector, const(k, "int64"), axis=0)


def _check_count(node: Node, given: Expr, axes: list[int], what: str) -> None:
    """Raise ModelError for another number of scales or sizes than of axes."""
    count = node.size(given, 0)
    if count not in (None, len(axes)):
        raise node.error(f"there are {count} {what} for {len(axes)} axes")


def _by_scales(node: Node, x: Expr, scales: Expr, axes: list[int], mode: _Mode, roi: Expr | None = None) -> Expr:
    _check_count(node, scales, axes, "scales")
    known, found = node.constant(scales), []
    for k, axis in enumerate(axes):
        if known is not None and known.reshape(-1)[k] == 1 and mode.coordinates != "tf_crop_and_resize":
            continue
        scale, have = _float(_item(scales, k)), extent(x, axis)
        region = _region(roi, k, len(axes))
        covered = relay.multiply(_float(have), scale)
        if mode.coordinates == "tf_crop_and_resize" and region is not None:
            covered = relay.multiply(covered, relay.subtract(region[1], region[0]))
        size = relay.cast(relay.floor(covered), "int64")
        found.append(_Axis(axis, node.bind(have), node.bind(size), node.bind(scale), region))
    return resized(node, x, found, mode)


def _region(roi: Expr | None, k: int, count: int) -> tuple[Expr, Expr] | None:
    return None if roi is None else (_float(_item(roi, k)), _float(_item(roi, count + k)))


def _by_sizes(node: Node, x: Expr, sizes: Expr, axes: list[int], mode: _Mode, roi: Expr | None) -> Expr:
    _check_count(node, sizes, axes, "sizes")
    policy, found = node.attr("keep_aspect_ratio_policy", "stretch"), []
    have = [node.bind(extent(x, a)) for a in axes]
    wanted = [node.bind(_item(as_int64(node, sizes), k)) for k in range(len(axes))]
    scales = [node.bind(relay.divide(_float(n), _float(m))) for n, m in zip(wanted, have, strict=True)]
    if policy != "stretch":
        common = scales[0]
        for scale in scales[1:]:
            common = (relay.minimum if policy == "not_larger" else relay.maximum)(common, scale)
        scales = [node.bind(common)] * len(axes)
        exact = [relay.multiply(common, _float(n)) for n in have]
        wanted = [node.bind(relay.cast(relay.floor(relay.add(n, _f64(0.5))), "int64")) for n in exact]
    for k, axis in enumerate(axes):
        known = [node.constant(n) for n in (wanted[k], have[k])]
        is_same = all(n is not None for n in known) and known[0] == known[1]
        if not is_same or mode.coordinates == "tf_crop_and_resize":
            found.append(_Axis(axis, have[k], wanted[k], scales[k], _region(roi, k, len(axes))))
    return resized(node, x, found, mode)


@onnx_operator("Upsample", since=7)
def upsample_by_attribute(node: Node, x: Expr) -> Expr:
    scales = const(np.array(node.required("scales"), np.float32))
    return _by_scales(node, x, scales, list(range(node.rank(x))), _upsampling(node))


@onnx_operator("Upsample", since=9)
def upsample(node: Node, x: Expr, scales: Expr) -> Expr:
    return _by_scales(node, x, scales, list(range(node.rank(x))), _upsampling(node))


@onnx_operator("Resize", since=10)
def resize_by_scales(node: Node, x: Expr, scales: Expr) -> Expr:
    return _by_scales(node, x, scales, list(range(node.rank(x))), _upsampling(node))


def _upsampling(node: Node) -> _Mode:
    return _Mode(_mode(node, "asymmetric").method, "asymmetric", "floor", -0.75, False, False)


@onnx_operator("Resize", since=11)
def resize(node: Node, x: Expr, roi: Expr | None, scales: Expr | None, sizes: Expr | None) -> Expr:
    """In all modes; sizes and scales are known at import or at run time."""
    mode, rank = _mode(node, node.attr("coordinate_transformation_mode", "half_pixel")), node.rank(x)
    axes = node.axes(node.attr("axes", range(rank)), rank)
    if mode.coordinates == "tf_crop_and_resize" and (roi is None or node.sizes(roi) == (0,)):
        raise node.error("roi is missing")
    roi = roi if mode.coordinates == "tf_crop_and_resize" else None
    if sizes is not None and node.sizes(sizes) != (0,):
        return _by_sizes(node, x, sizes, axes, mode, roi)
    if scales is None or node.sizes(scales) == (0,):
        raise node.error("it has neither scales nor sizes")
    return _by_scales(node, x, scales, axes, mode, roi)
