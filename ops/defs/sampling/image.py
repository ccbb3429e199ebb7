"""Resizing of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import SPATIAL, data_layouts
from ....shape_funcs.defs.sampling.image import CROP_MODE
from ...composition.legalize import indices
from ...core.compute import Scalar, Value, apply
from ...core.dtype_rules import FLOATS, NUMBERS, one_of, require
from ...core.op import DTypeRule, Op, OpPattern, TypeRelError
from ...core.parameters import Parameter, Parameters
from ...core.scalar_attrs import element, require_element
from ...core.tensor_types import DTYPES, is_float
from ..convolution.conv import Numbers
from ..movement.dynamic import ints
from .interpolation import (
    Tap,
    accumulation_dtype,
    as_index,
    between,
    choose,
    cubic_taps,
    divide,
    is_inside,
    linear_taps,
    nearest,
    position,
    rounded,
    stored,
)

Method = Literal["nearest_neighbor", "linear", "cubic"]
#: Transformation of coordinates from the result to the data.
Mode = Literal[
    "half_pixel",
    "half_pixel_symmetric",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
]
Rounding = Literal["", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@frozen(kw_only=True)
class ResizingAttrs:
    """Common attributes of resizing.

    ``method``: the nearest element, linear or cubic interpolation; ``coordinate_transformation_mode``: as ONNX's;
    ``rounding_method``: rounding to the nearest element; ``round``: halves away from 0; "": ``round`` with ``align_corners``,
    else ``floor``; ``cubic_alpha``: Keys' parameter; ``cubic_exclude``: 1 for weight 0 outside the data (NaN if all four taps are
    outside);
    ``extrapolation_value``: the value outside the data for ``tf_crop_and_resize``; ``scales``: result size per data size along
    each axis, empty for the quotients of the sizes; ``out_dtype``: None for the data's.
    """

    method: Method = "linear"
    coordinate_transformation_mode: Mode = "half_pixel"
    rounding_method: Rounding = ""
    cubic_alpha: float = -0.5
    cubic_exclude: Literal[0, 1] = 0
    extrapolation_value: float = 0.0
    scales: tuple[float, ...] = ()
    out_dtype: str | None = None


@frozen
class Resize1dAttrs(ResizingAttrs):
    """``size``: size of the result along each spatial axis; ``roi``: region of ``tf_crop_and_resize``, the begins of all axes,
    then the ends, 0 is the first and 1 the last element; ``layout``: one letter per axis; others: see ResizingAttrs."""

    size: Numbers
    roi: tuple[float, ...] | None = None
    layout: str = data_layouts(1)[0]


@frozen
class Resize2dAttrs(Resize1dAttrs):
    """As Resize1dAttrs, over two axes."""

    layout: str = data_layouts(2)[0]


@frozen
class Resize3dAttrs(Resize1dAttrs):
    """As Resize1dAttrs, over three axes."""

    layout: str = data_layouts(3)[0]


@frozen
class DynResize2dAttrs(ResizingAttrs):
    """``layout``: one letter per axis; others: see ResizingAttrs."""

    layout: str = data_layouts(2)[0]


@frozen
class _Axis:
    """A spatial axis: its sizes in data and result, the optional scale, begin and end of the region."""

    size: Scalar
    out_size: Scalar
    scale: float | None
    region: tuple[Scalar, Scalar] | None

    def source(self, index: Scalar, mode: str) -> Scalar:
        """The position in the data of element ``index`` of the result."""
        i, n, m = position(index), position(self.size), position(self.out_size)
        middle = i + position(0.5)
        if mode == "align_corners":
            length = m if self.scale is None else n * position(self.scale)
            # at least 1: the only element of a result is at position 0
            steps = choose(apply("greater", m, position(1), dtype="bool"), length - position(1), position(1))
            return divide(i * (n - position(1)), steps)
        if mode == "asymmetric":
            return self._unscaled(i)
        if mode == "tf_half_pixel_for_nn":
            return self._unscaled(middle)
        if mode == CROP_MODE:
            return self._in_region(i, n, m)
        found = self._unscaled(middle) - position(0.5)
        if mode == "pytorch_half_pixel":
            return choose(apply("greater", m, position(1), dtype="bool"), found, position(0))
        if mode == "half_pixel_symmetric" and self.scale is not None:
            return n * position(0.5) * (position(1) - divide(m, n * position(self.scale))) + found
        return found

    def _unscaled(self, x: Scalar) -> Scalar:
        # multiplication first: the product is exact
        return divide(x * position(self.size), position(self.out_size)) if self.scale is None else divide(x, position(self.scale))

    def _in_region(self, i: Scalar, n: Scalar, m: Scalar) -> Scalar:
        assert self.region is not None
        begin, end = self.region
        last, several = n - position(1), apply("greater", m, position(1), dtype="bool")
        # multiplication first, in the standard's order: the last position is not outside the data by a rounding
        moved = divide(i * (end - begin) * last, choose(several, m - position(1), position(1)))
        return choose(several, begin * last + moved, position(0.5) * (begin + end) * last)


def resized_element(
    data: Value, axes: tuple[Scalar, ...], attrs: ResizingAttrs, layout: str, output: Value, roi: Sequence[Scalar] = ()
) -> Scalar:
    """An element of a resized image; ``roi``: the numbers of the region, if there is a region."""
    rank = data.rank - 2
    first = 2 if layout == data_layouts(rank)[0] else 1
    positions = {}
    for k, axis in enumerate(range(first, first + rank)):
        scale = attrs.scales[k] if attrs.scales else None
        along = _Axis(data.size(axis), output.size(axis), scale, (roi[k], roi[rank + k]) if roi else None)
        positions[axis] = along.source(axes[axis], attrs.coordinate_transformation_mode)
    value = _interpolated(data, axes, positions, attrs, output.dtype)
    if attrs.coordinate_transformation_mode != CROP_MODE:
        return value
    inside: Any = None
    for axis, x in positions.items():
        own = is_inside(x, position(0), position(data.size(axis)) - position(1))
        inside = own if inside is None else apply("and", inside, own)
    return choose(inside, value, element(attrs.extrapolation_value, output.dtype))


def _interpolated(data: Value, axes: tuple[Scalar, ...], positions: dict[int, Scalar], attrs: Any, dtype: str) -> Scalar:
    if attrs.method == "nearest_neighbor":
        how = attrs.rounding_method or ("round" if attrs.coordinate_transformation_mode == "align_corners" else "floor")
        found = {axis: as_index(rounded(x, how), data.size(axis)) for axis, x in positions.items()}
        return stored(nearest(data, axes, found), dtype)

    def taps(axis: int, x: Scalar) -> tuple[Tap, ...]:
        if attrs.method == "linear":
            return linear_taps(x, data.size(axis))
        return cubic_taps(x, data.size(axis), attrs.cubic_alpha, bool(attrs.cubic_exclude))

    return stored(
        between(data, axes, {a: taps(a, x) for a, x in positions.items()}, accumulation_dtype(data.dtype, dtype)), dtype
    )


# ---- dtypes ----------------------------------------------------------------------------------------------------------


def resized_dtype(name: str, dtype: str, method: str, out_dtype: str | None) -> str:
    """The dtype of resizing data of ``dtype`` by ``method``.  Raises TypeRelError.

    The nearest method takes all dtypes, interpolation all numbers.  Cubic interpolation requires a float result: its values may
    exceed the range of an integer dtype.
    """
    result = out_dtype or dtype
    if method == "nearest_neighbor":
        one_of(name, "out_dtype", result, DTYPES)
        return result
    require(name, dtype, NUMBERS, 0, "data")
    if method != "linear":
        require(name, result, FLOATS, 0, "data")
    one_of(name, "out_dtype", result, NUMBERS if not is_float(dtype) else FLOATS)
    return result


def _finite(name: str, attrs: Any) -> None:
    numbers = {"cubic_alpha": (attrs.cubic_alpha,), "extrapolation_value": (attrs.extrapolation_value,)}
    for what, values in (numbers | {"roi": getattr(attrs, "roi", None) or ()}).items():
        for value in values:
            if not math.isfinite(value):
                raise TypeRelError(f"{name}: {what} must be finite, not {value}")


def _rule(name: str) -> DTypeRule:
    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        _finite(name, attrs)
        if len(dtypes) > 1:
            require(name, dtypes[1], NUMBERS, 1, "size")
            require(name, dtypes[2], FLOATS, 2, "roi")
        result = resized_dtype(name, dtypes[0], attrs.method, attrs.out_dtype)
        require_element(name, "extrapolation_value", attrs.extrapolation_value, result)
        return result

    return rule


# ---- the operators ---------------------------------------------------------------------------------------------------


def _python(roi: str | Parameter) -> Parameters:
    return Parameters.of(
        "data", "size", roi, "layout", "method", "coordinate_transformation_mode", "rounding_method", "cubic_alpha",
        "cubic_exclude", "extrapolation_value", "out_dtype", "scales",
    )  # fmt: skip


def _resize(rank: int, attrs: type) -> Op:
    def compute(inputs: tuple[Value], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
        crops = attrs.coordinate_transformation_mode == CROP_MODE
        return resized_element(inputs[0], axes, attrs, attrs.layout, output, [position(x) for x in attrs.roi] if crops else [])

    return Op(
        name=f"image.resize{rank}d",
        doc=f"The data resized to `size` along {rank} spatial {'axis' if rank == 1 else 'axes'}, by the nearest elements or by "
        f"interpolation: `image.resize{rank}d({_example(rank)[0]}, size={_example(rank)[2]}) = {_example(rank)[1]}`.",
        inputs=("data",),
        python=_python("roi"),
        attrs=attrs,
        pattern=OpPattern.INJECTIVE,
        dtype=_rule(f"image.resize{rank}d"),
        compute=compute,
    )


def _example(rank: int) -> tuple[Any, Any, list[int]]:
    """An example with two elements along the last axis and one along the others: data, result, size."""
    return (
        np.array([1.0, 2.0]).reshape(*(1,) * (rank + 1), 2).tolist(),
        np.array([1.0, 1.25, 1.75, 2.0]).reshape(*(1,) * (rank + 1), 4).tolist(),
        [1] * (rank - 1) + [4],
    )


for _rank, _attrs in zip(SPATIAL, (Resize1dAttrs, Resize2dAttrs, Resize3dAttrs), strict=True):
    _resize(_rank, _attrs)


def _dyn_resize(inputs: tuple[Value, Value, Value], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
    data, _, roi = inputs
    crops = attrs.coordinate_transformation_mode == CROP_MODE
    return resized_element(data, axes, attrs, attrs.layout, output, [position(roi(k)) for k in range(4)] if crops else [])


def _static(attrs: DynResize2dAttrs, constants: Sequence[Any]) -> tuple[str, Resize2dAttrs] | None:
    """``Op.static``: a constant size becomes an attribute; the region must be constant, too, if the mode reads it."""
    _, size, roi = constants
    crops = attrs.coordinate_transformation_mode == CROP_MODE
    if size is None or (crops and roi is None):
        return None
    region = tuple(float(x) for x in np.asarray(roi).reshape(-1)) if crops else None
    return "image.resize2d", Resize2dAttrs(size=ints(size), roi=region, **vars(attrs))


Op(
    name="dyn.image.resize2d",
    doc="`image.resize2d` with a size and a region known at run time: "
    '`dyn.image.resize2d([[[[1.0, 2.0]]]], [1, 4], [0.0, 0.0, 1.0, 1.0], method="nearest_neighbor", '
    'coordinate_transformation_mode="asymmetric") = [[[[1, 1, 2, 2]]]]`.',
    inputs=("data", "size", "roi"),
    python=_python(Parameter("roi", (0.0, 0.0, 0.0, 0.0), dtype="float32")),
    attrs=DynResize2dAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_rule("dyn.image.resize2d"),
    compute=_dyn_resize,
    legalization=indices(1),
    static=_static,
)
