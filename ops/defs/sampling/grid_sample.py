"""Affine grids of coordinates, and sampling of images at the coordinates of a grid."""

from __future__ import annotations

from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import data_layouts
from ...core.compute import Literal as Number
from ...core.compute import Scalar, Value, apply
from ...core.dtype_rules import FLOATS, like_inputs, require
from ...core.op import Op, OpPattern, TypeRelError
from ..arithmetic.elementwise import floor
from .interpolation import (
    Tap,
    accumulation_dtype,
    as_index,
    as_number,
    choose,
    clamp,
    cubic_weights,
    divide,
    is_inside,
    position,
    stored,
)

Padding = Literal["zeros", "border", "reflection"]


@frozen
class AffineGridAttrs:
    """``target_shape``: shape of the grid, two or three sizes; ``align_corners``: whether -1 and 1 are the centres of the first
    and the last element; otherwise their outer edges."""

    target_shape: tuple[int, ...]
    align_corners: bool = True


@frozen
class GridSampleAttrs:
    """``method``: the nearest element, linear interpolation, or cubic interpolation (only over two axes); ``layout``: channels
    first, two or three spatial axes; ``padding_mode``: values outside the data: zeros, the nearest element, or the data
    reflected; ``align_corners``: as in AffineGridAttrs."""

    method: Literal["nearest", "bilinear", "bicubic"] = "bilinear"
    layout: str = data_layouts(2)[0]
    padding_mode: Padding = "zeros"
    align_corners: bool = True


# ---- affine grids ----------------------------------------------------------------------------------------------------


def _coordinate(index: Scalar, size: Scalar, align_corners: bool) -> Scalar:
    """The coordinate of element ``index`` of ``size`` elements in [-1, 1]; 0 for the only element of an axis."""
    i, n = position(index), position(size)
    if not align_corners:
        return divide(i * position(2) + position(1), n) - position(1)
    several = apply("greater", n, position(1), dtype="bool")
    return choose(several, divide(i * position(2), choose(several, n - position(1), position(1))) - position(1), position(0))


def _affine_grid(inputs: tuple[Value], axes: tuple[Scalar, ...], attrs: AffineGridAttrs, output: Value) -> Scalar:
    (matrices,) = inputs
    batch, row, *at = axes
    rank = len(at)
    number = accumulation_dtype(matrices.dtype)
    total = as_number(matrices(batch, row, rank), number)
    for k in range(rank):  # x is the last axis
        axis = rank - 1 - k
        coordinate = as_number(_coordinate(at[axis], output.size(2 + axis), attrs.align_corners), number)
        total = as_number(matrices(batch, row, k), number) * coordinate + total
    return stored(total, output.dtype)


Op(
    name="image.affine_grid",
    doc="The coordinates x, y (and z) of a regular grid over [-1, 1], transformed by an affine matrix per batch: "
    "`image.affine_grid([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], target_shape=[1, 2]) = [[[[-1, 1]], [[0, 0]]]]`.",
    inputs=("data",),
    attrs=AffineGridAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=like_inputs("image.affine_grid", ["data"], FLOATS),
    compute=_affine_grid,
)

# ---- samples ---------------------------------------------------------------------------------------------------------


@frozen
class SampledAxis:
    """A spatial axis of the data and its padding mode."""

    size: Scalar
    padding: Padding
    align_corners: bool

    @property
    def last(self) -> Scalar:
        return position(self.size) - position(1)

    def source(self, x: Scalar, mirrors: bool) -> Scalar:
        """The position of the coordinate ``x`` in elements; clipped far outside the data; NaN becomes a position just outside.

        The coordinate's own dtype rounds the steps up to the position, as in torch and ONNX: a position computed in a wider one
        may lie on the other side of a half, and have another nearest element.
        ``mirrors``: whether reflection padding is applied to the position; otherwise it is applied later, to each tap.
        """
        n, one, half = as_number(self.size, x.dtype), Number(1.0, x.dtype), Number(0.5, x.dtype)
        above = x + one
        at = position(above * half * (n - one) if self.align_corners else (above * n - one) * half)
        if self.padding != "reflection":
            return clamp(at, position(-4), n + position(4))
        return self.reflected(at) if mirrors else clamp(at, position(-_FARTHEST), position(_FARTHEST))

    def reflected(self, at: Scalar) -> Scalar:
        """``at`` reflected into the data, at the centres or the outer edges of its first and last elements."""
        low = position(0) if self.align_corners else position(-0.5)
        span = self.last if self.align_corners else position(self.size)
        period = choose(apply("greater", span, position(0), dtype="bool"), span * position(2), position(1))
        away = at - low
        rest = away - floor(divide(away, period)) * period
        mirrored = choose(apply("greater", rest, span, dtype="bool"), period - rest, rest)
        return clamp(mirrored + low, position(0), self.last)

    def tap(self, at: Scalar, weight: Scalar | None = None) -> tuple[Tap, Scalar | None]:
        """The tap at an integer position, and the condition that it contributes (None: always)."""
        if self.padding == "reflection":
            return Tap(as_index(self.reflected(at), self.size), weight), None
        counts = is_inside(at, position(0), self.last) if self.padding == "zeros" else None
        return Tap(as_index(at, self.size), weight), counts

    def taps(self, at: Scalar, method: str) -> list[tuple[Tap, Scalar | None]]:
        """The taps for position ``at``, each with the condition that it contributes (None: always)."""
        if method == "nearest":
            return [self.tap(apply("round", at))]  # halves to the even element, as Relay
        below = floor(at)
        part = at - below
        if method == "bilinear":
            return [self.tap(below, position(1) - part), self.tap(below + position(1), part)]
        return [self.tap(below + position(k - 1), w) for k, w in enumerate(cubic_weights(part, _ALPHA))]


#: Keys' parameter of bicubic sampling, as in torch and ONNX.
_ALPHA = -0.75
#: Clipping bound of positions: integers are exact up to here.
_FARTHEST = 2.0**40


def _grid_sample(inputs: tuple[Value, Value], axes: tuple[Scalar, ...], attrs: GridSampleAttrs, output: Value) -> Scalar:
    data, grid = inputs
    rank = data.rank - 2
    number = accumulation_dtype(data.dtype, output.dtype)
    taps = []
    for k in range(rank):
        axis = SampledAxis(data.size(2 + k), attrs.padding_mode, attrs.align_corners)
        x = as_number(grid(axes[0], rank - 1 - k, *axes[2:]), accumulation_dtype(grid.dtype))
        # with the cubic method each tap is reflected separately
        taps.append(axis.taps(axis.source(x, attrs.method != "bicubic"), attrs.method))
    return stored(sum_of_taps(data, list(axes[:2]), taps, None, number), output.dtype)


def sum_of_taps(data: Value, at: list[Scalar], taps: list[Any], counts: Scalar | None, number: str) -> Scalar:
    """The sum over the taps of the remaining axes; excluded taps contribute 0."""
    if not taps:
        element = as_number(data(*at), number)
        return element if counts is None else choose(counts, element, Number(0.0, number))
    total: Scalar | None = None
    for tap, own in taps[0]:
        both = own if counts is None else counts if own is None else apply("and", counts, own)
        part = sum_of_taps(data, [*at, tap.index], taps[1:], both, number)
        if tap.weight is not None:
            part = as_number(tap.weight, number) * part
        total = part if total is None else total + part
    assert total is not None, "a sample has taps"
    return total


def _sample_rule(dtypes: tuple[Any, ...], attrs: GridSampleAttrs) -> str:
    name = "image.grid_sample"
    require(name, dtypes[0], FLOATS, 0, "data")
    require(name, dtypes[1], FLOATS, 1, "grid")
    if attrs.method == "bicubic" and len(attrs.layout) != 4:
        raise TypeRelError(f"{name}: method='bicubic' goes with two spatial axes, not with layout {attrs.layout!r}")
    return str(dtypes[0])


Op(
    name="image.grid_sample",
    doc="The data sampled at the coordinates x, y (and z) of a grid; the data spans [-1, 1] along each axis: "
    "`image.grid_sample([[[[1.0, 2.0]]]], [[[[-1.0, 0.0]], [[0.0, 0.0]]]]) = [[[[1, 1.5]]]]`.  NaN is outside.",
    inputs=("data", "grid"),
    attrs=GridSampleAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_sample_rule,
    compute=_grid_sample,
)
