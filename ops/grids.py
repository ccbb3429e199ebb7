"""Grids of places in a picture: affine ones, and the elements at the places of any grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..shape_funcs.conv import data_layouts
from .compute import Literal as Number
from .compute import Scalar, Value, apply
from .dtype_rules import FLOATS, like_inputs, require
from .elementwise import floor
from .interpolation import (
    Tap,
    as_index,
    as_number,
    choose,
    cubic_weights,
    divide,
    is_inside,
    limited,
    place,
    rounded,
    stored,
    summed_in,
)
from .op import Op, OpPattern, TypeRelError

Padding = Literal["zeros", "border", "reflection"]


@dataclass(frozen=True)
class AffineGridAttrs:
    """``target_shape``: of the grid, two or three sizes; ``align_corners``: -1 and 1 are the middles of the first and the last
    element, else their outer edges."""

    target_shape: tuple[int, ...]
    align_corners: bool = True


@dataclass(frozen=True)
class GridSampleAttrs:
    """``method``: from the nearest element, between 2 along each axis, or between 4 (only over two axes); ``layout``: channels
    before two or three spatial axes; ``padding_mode``: what is outside: zeros, the nearest element, or the data reflected;
    ``align_corners``: as in AffineGridAttrs."""

    method: Literal["nearest", "bilinear", "bicubic"] = "bilinear"
    layout: str = data_layouts(2)[0]
    padding_mode: Padding = "zeros"
    align_corners: bool = True


# ---- affine grids ----------------------------------------------------------------------------------------------------


def _coordinate(index: Scalar, size: Scalar, align_corners: bool) -> Scalar:
    """Where element ``index`` of ``size`` lies between -1 and 1; the only one of an axis is in the middle."""
    i, n = place(index), place(size)
    if not align_corners:
        return divide(i * place(2) + place(1), n) - place(1)
    several = apply("greater", n, place(1), dtype="bool")
    return choose(several, divide(i * place(2), choose(several, n - place(1), place(1))) - place(1), place(0))


def _affine_grid(inputs: tuple[Value], axes: tuple[Scalar, ...], attrs: AffineGridAttrs, output: Value) -> Scalar:
    (matrices,) = inputs
    batch, row, *at = axes
    rank = len(at)
    number = summed_in(matrices.dtype)
    total = as_number(matrices(batch, row, rank), number)
    for k in range(rank):  # x is the last axis
        axis = rank - 1 - k
        coordinate = as_number(_coordinate(at[axis], output.size(2 + axis), attrs.align_corners), number)
        total = as_number(matrices(batch, row, k), number) * coordinate + total
    return stored(total, output.dtype)


Op(
    name="image.affine_grid",
    doc="The places x, y (and z) that a matrix per batch gives to each element of a grid whose own places go from -1 to 1: "
    "`image.affine_grid([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]], target_shape=[1, 2]) = [[[[-1, 1]], [[0, 0]]]]`.",
    inputs=("data",),
    attrs=AffineGridAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=like_inputs("image.affine_grid", ["data"], FLOATS),
    compute=_affine_grid,
)

# ---- samples ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Axis:
    """One spatial axis of the data and what lies outside of it."""

    size: Scalar
    padding: Padding
    align_corners: bool

    @property
    def last(self) -> Scalar:
        return place(self.size) - place(1)

    def source(self, x: Scalar, mirrors: bool) -> Scalar:
        """The place of the coordinate ``x``: 0 is the first element.  Far outside, and where it is NaN, just outside.

        ``mirrors``: where the data is reflected the place is; else what is found from there will be.
        """
        n = place(self.size)
        at = (x + place(1)) * place(0.5)
        at = at * (n - place(1)) if self.align_corners else at * n - place(0.5)
        if self.padding != "reflection":
            return limited(at, place(-4), n + place(4))
        return self.reflected(at) if mirrors else limited(at, place(-_FARTHEST), place(_FARTHEST))

    def reflected(self, at: Scalar) -> Scalar:
        """``at`` mirrored into the data, at its first and last elements or at their outer edges."""
        low = place(0) if self.align_corners else place(-0.5)
        span = self.last if self.align_corners else place(self.size)
        period = choose(apply("greater", span, place(0), dtype="bool"), span * place(2), place(1))
        away = at - low
        rest = away - floor(divide(away, period)) * period
        mirrored = choose(apply("greater", rest, span, dtype="bool"), period - rest, rest)
        return limited(mirrored + low, place(0), self.last)

    def tap(self, at: Scalar, weight: Scalar | None = None) -> tuple[Tap, Scalar | None]:
        """The element at a whole number, and whether it counts (None: always)."""
        if self.padding == "reflection":
            return Tap(as_index(self.reflected(at), self.size), weight), None
        counts = is_inside(at, place(0), self.last) if self.padding == "zeros" else None
        return Tap(as_index(at, self.size), weight), counts

    def taps(self, at: Scalar, method: str) -> list[tuple[Tap, Scalar | None]]:
        """The elements that make the one at ``at``."""
        if method == "nearest":
            return [self.tap(rounded(at, "round"))]
        below = floor(at)
        part = at - below
        if method == "bilinear":
            return [self.tap(below, place(1) - part), self.tap(below + place(1), part)]
        return [self.tap(below + place(k - 1), w) for k, w in enumerate(cubic_weights(part, _ALPHA))]


#: Keys' parameter of bicubic sampling, as in torch and ONNX.
_ALPHA = -0.75
#: No place is farther away: up to here whole numbers are exact.
_FARTHEST = 2.0**40


def _grid_sample(inputs: tuple[Value, Value], axes: tuple[Scalar, ...], attrs: GridSampleAttrs, output: Value) -> Scalar:
    data, grid = inputs
    rank = data.rank - 2
    number = summed_in(data.dtype, output.dtype)
    taps = []
    for k in range(rank):
        axis = _Axis(data.size(2 + k), attrs.padding_mode, attrs.align_corners)
        x = place(grid(axes[0], rank - 1 - k, *axes[2:]))
        # of the cubic method each of its elements is mirrored by itself
        taps.append(axis.taps(axis.source(x, attrs.method != "bicubic"), attrs.method))
    return stored(_sum(data, list(axes[:2]), taps, None, number), output.dtype)


def _sum(data: Value, at: list[Scalar], taps: list[Any], counts: Scalar | None, number: str) -> Scalar:
    """The sum over the taps of the axes that are left; what does not count is 0."""
    if not taps:
        element = as_number(data(*at), number)
        return element if counts is None else choose(counts, element, Number(0.0, number))
    total: Any = None
    for tap, own in taps[0]:
        both = own if counts is None else counts if own is None else apply("and", counts, own)
        part = _sum(data, [*at, tap.index], taps[1:], both, number)
        if tap.weight is not None:
            part = as_number(tap.weight, number) * part
        total = part if total is None else total + part
    return total  # type: ignore[no-any-return]


def _sample_rule(dtypes: tuple[Any, ...], attrs: GridSampleAttrs) -> str:
    name = "image.grid_sample"
    require(name, dtypes[0], FLOATS, 0, "data")
    require(name, dtypes[1], FLOATS, 1, "grid")
    if attrs.method == "bicubic" and len(attrs.layout) != 4:
        raise TypeRelError(f"{name}: method='bicubic' goes with two spatial axes, not with layout {attrs.layout!r}")
    return str(dtypes[0])


Op(
    name="image.grid_sample",
    doc="The data at the places x, y (and z) of a grid, where it goes from -1 to 1 along each axis: "
    "`image.grid_sample([[[[1.0, 2.0]]]], [[[[-1.0, 0.0]], [[0.0, 0.0]]]]) = [[[[1, 1.5]]]]`.  NaN lies outside.",
    inputs=("data", "grid"),
    attrs=GridSampleAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=_sample_rule,
    compute=_grid_sample,
)
