"""Upsampling: resizing by static or run-time factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import data_layouts
from ...composition.legalize import converted, whole_dtype
from ...core.compute import Scalar, Value
from ...core.dtype_rules import NUMBERS, require
from ...core.op import DTypeRule, Op, OpPattern, TypeRelError
from ...core.parameters import Parameter, Parameters
from .image import Method, Mode, ResizingAttrs, resized_dtype, resized_element

_METHODS: dict[str, Method] = {
    "nearest_neighbor": "nearest_neighbor",
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
}


@frozen(kw_only=True)
class DynUpsamplingAttrs:
    """``layout``: one letter per axis; ``method``: the nearest element, linear or cubic interpolation; ``align_corners``: whether
    both the first and the last elements of data and result coincide; otherwise only the first."""

    layout: str = data_layouts(2)[0]
    method: Literal["nearest_neighbor", "bilinear", "bicubic"] = "nearest_neighbor"
    align_corners: bool = False


@frozen
class UpsamplingAttrs(DynUpsamplingAttrs):
    """``scale_h``, ``scale_w``: result size per data size; others: see DynUpsamplingAttrs."""

    scale_h: float = 1.0
    scale_w: float = 1.0


@frozen(kw_only=True)
class DynUpsampling3dAttrs:
    """``layout``: one letter per axis; ``method``: the nearest element or linear interpolation;
    ``coordinate_transformation_mode``: as in ``image.resize3d``."""

    layout: str = data_layouts(3)[0]
    method: Literal["nearest_neighbor", "trilinear"] = "nearest_neighbor"
    coordinate_transformation_mode: Literal["half_pixel", "align_corners", "asymmetric"] = "asymmetric"


@frozen
class Upsampling3dAttrs(DynUpsampling3dAttrs):
    """``scale_d``, ``scale_h``, ``scale_w``: result size per data size; others: see DynUpsampling3dAttrs."""

    scale_d: float = 1.0
    scale_h: float = 1.0
    scale_w: float = 1.0


def _mode(attrs: Any) -> Mode:
    if hasattr(attrs, "align_corners"):
        return "align_corners" if attrs.align_corners else "asymmetric"
    mode: Mode = attrs.coordinate_transformation_mode
    return mode


def _compute(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
    how = ResizingAttrs(method=_METHODS[attrs.method], coordinate_transformation_mode=_mode(attrs))
    return resized_element(inputs[0], axes, how, attrs.layout, output)


def _rule(name: str, scales: Sequence[str]) -> DTypeRule:
    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        for position, (dtype, what) in enumerate(zip(dtypes[1:], scales, strict=False), 1):
            require(name, dtype, NUMBERS, position, what)
        for what in scales if len(dtypes) == 1 else ():
            if not (math.isfinite(getattr(attrs, what)) and getattr(attrs, what) > 0):
                raise TypeRelError(f"{name}: {what} must be positive and finite, not {getattr(attrs, what)}")
        return resized_dtype(name, dtypes[0], _METHODS[attrs.method], None)

    return rule


def _python(scales: tuple[str, ...], dtype: str = "") -> Parameters:
    listed = [Parameter(what, 1.0, dtype) for what in scales]
    if len(scales) == 2:
        return Parameters.of("data", *listed, "layout", "method", "align_corners")
    mode = Parameter("coordinate_transformation_mode", "half_pixel")
    return Parameters.of("data", *listed, "layout", "method", mode)


def _upsampling(name: str, doc: str, attrs: type, dyn_attrs: type, scales: tuple[str, ...], example: str) -> None:
    def static(given: Any, constants: Sequence[Any]) -> tuple[str, Any] | None:
        known = constants[1:]
        if any(v is None for v in known):
            return None
        numbers = {what: float(np.asarray(v).reshape(-1)[0]) for what, v in zip(scales, known, strict=True)}
        return name, attrs(**numbers, **vars(given))

    data, result = example.split(" = ")
    shared: dict[str, Any] = {"pattern": OpPattern.INJECTIVE, "compute": _compute}
    ones = ["1.0"] * (len(scales) - 1) + ["2.0"]
    given = ", ".join(f"{what}={one}" for what, one in zip(scales, ones, strict=True))
    Op(
        name=name, doc=f"{doc}: `{name}({data}, {given}) = {result}`.", inputs=("data",), attrs=attrs,
        dtype=_rule(name, scales), python=_python(scales), **shared,
    )  # fmt: skip
    dyn = f"dyn.{name}"
    Op(
        name=dyn, doc=f"`{name}` by factors known at run time: `{dyn}({data}, {', '.join(ones)}) = {result}`.",
        inputs=("data", *scales), attrs=dyn_attrs, dtype=_rule(dyn, scales), python=_python(scales, "float32"), static=static,
        legalization=converted(dict.fromkeys(range(1, len(scales) + 1), whole_dtype)), **shared,
    )  # fmt: skip


_upsampling(
    "nn.upsampling",
    "The data larger by a factor along rows and columns, sizes rounded to the nearest",
    UpsamplingAttrs, DynUpsamplingAttrs, ("scale_h", "scale_w"), "[[[[1.0, 2.0]]]] = [[[[1, 1, 2, 2]]]]",
)  # fmt: skip
_upsampling(
    "nn.upsampling3d",
    "The data larger by a factor along each of three spatial axes, sizes rounded to the nearest",
    Upsampling3dAttrs, DynUpsampling3dAttrs, ("scale_d", "scale_h", "scale_w"), "[[[[[1.0, 2.0]]]]] = [[[[[1, 1, 2, 2]]]]]",
)  # fmt: skip
