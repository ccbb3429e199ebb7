"""Shapes of upsampling: each spatial size times a factor, rounded to the nearest integer."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from ...symbolic.argument_checks import as_size, need_rank, scalar
from ...symbolic.dim import Dim, Shape, const, dim
from ...symbolic.dim_operations import all_, lt, scaled
from ...symbolic.registry import Operand, check, register_shape_func
from ..convolution.conv import data_layouts, in_layout, layout_in
from .image import resized


def float_bits(value: float) -> int:
    """The bit pattern of a float64 as an int64: the representation of floats in dims."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


_INFINITY = float_bits(math.inf)


def times(size: Dim, factor: Dim) -> Dim:
    """``size`` times a float64 bit pattern, rounded to the nearest integer, halves up."""
    exact = scaled(size, factor)
    doubled = scaled(size * 2, factor)
    return exact if const(factor) is not None and doubled is exact * 2 else (doubled + 1) // 2


def _scaled(data: Operand, factors: Sequence[Dim], are_floats: Sequence[bool], layout: str) -> Shape:
    rank = len(factors)
    need_rank(data, rank + 2, "the data", 0)
    spatial = in_layout(data.shape, layout_in(layout, data_layouts(rank), "layout"))[2]
    sizes = (times(n, f) if is_float else n * f for n, f, is_float in zip(spatial, factors, are_floats, strict=True))
    return resized(data, tuple(as_size(size, "a size of the result") for size in sizes), layout)


def _upsampling(name: str, scales: tuple[str, ...]) -> None:
    rank = len(scales)

    @register_shape_func(name)
    def upsampling(inputs: tuple[Operand], attrs: Any) -> Shape:
        """The spatial sizes times the factors in ``attrs``."""
        factors = [dim(float_bits(getattr(attrs, what))) for what in scales]
        return _scaled(inputs[0], factors, [True] * rank, attrs.layout)

    @register_shape_func(f"dyn.{name}", data_dependent=[False, *[True] * rank])
    def dyn_upsampling(inputs: tuple[Operand, ...], attrs: Any) -> Shape:
        """The spatial sizes times run-time factors, integers or floats."""
        data, *given = inputs
        factors = [scalar(x, what, k) for k, (x, what) in enumerate(zip(given, scales, strict=True), 1)]
        are_floats = ["float" in x.dtype for x in given]
        for k, (factor, is_float, what) in enumerate(zip(factors, are_floats, scales, strict=True), 1):
            # bit patterns of nonnegative floats are ordered as the floats; NaN is above infinity
            possible = all_(lt(0, factor), lt(factor, _INFINITY)) if is_float else lt(0, factor)
            check(possible, f"{what} must be positive and finite", input=k)
        return _scaled(data, factors, are_floats, attrs.layout)


_upsampling("nn.upsampling", ("scale_h", "scale_w"))
_upsampling("nn.upsampling3d", ("scale_d", "scale_h", "scale_w"))
