"""Convolutions as matrix products whose weight is cut into tiles.

The matrix of a weight ``[height, width, inputs, outputs]`` has ``height * width * inputs`` rows and ``outputs`` columns.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.convolution.conv import per_axis
from ....shape_funcs.symbolic.argument_checks import need_rank
from ....shape_funcs.symbolic.dim import const
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, composite
from ...core.compute import Scalar, Select, Value, apply, index
from ...core.dtype_rules import like_first
from ...core.op import Op, OpPattern, get
from ..arithmetic.elementwise import zero
from ..convolution.conv import Conv2dAttrs, product_rule
from ..movement.blocked_layouts import plain, relaid
from ..movement.transform import ReshapeAttrs, SliceAttrs, TransposeAttrs

_DATA, _KERNEL = "NHWC", "OHWI"


@frozen
class GemmTilesAttrs:
    """``tile_rows``: output channels of a tile; ``tile_cols``: rows of the matrix of a tile."""

    tile_rows: int
    tile_cols: int


def _tiled(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: GemmTilesAttrs, output: Value) -> Scalar:
    (weights,) = inputs
    column = axes[0] * index(attrs.tile_rows) + axes[2]
    row = axes[1] * index(attrs.tile_cols) + axes[3]
    width, channels = weights.size(1), weights.size(2)
    pixel = apply("floordiv", row, channels)
    at = apply("floordiv", pixel, width), apply("floormod", pixel, width), apply("floormod", row, channels), column
    inside = apply("and", row < weights.size(0) * width * channels, column < weights.size(3))
    return Select(inside, weights(*at), zero(output.dtype))


Op(
    name="nn.contrib_conv2d_gemm_weight_transform",
    doc="The matrix of a convolution's weight `[height, width, inputs, outputs]` in tiles, each transposed, with zeros at the "
    "end: `[outputs / tile_rows, rows / tile_cols, tile_rows, tile_cols]`, quotients rounded up: "
    "`nn.contrib_conv2d_gemm_weight_transform([[[[1, 2, 3]]]], tile_rows=2, tile_cols=1) = [[[[1], [2]]], [[[3], [0]]]]`.",
    inputs=("weights",),
    attrs=GemmTilesAttrs,
    pattern=OpPattern.INJECTIVE,
    dtype=like_first("nn.contrib_conv2d_gemm_weight_transform", ("weights",)),
    compute=_tiled,
)


def _weight(tiles: Term, attrs: Conv2dAttrs, inputs: int) -> Term:
    """The weight ``[outputs, height, width, inputs]``.  Raises ShapeError."""
    if attrs.kernel_size is None or attrs.channels is None:
        raise ShapeError("kernel_size and channels must be given: tiles do not show them")
    window = per_axis(attrs.kernel_size, 2, "kernel_size")
    needed = (attrs.channels, math.prod(window) * inputs)
    need_rank(tiles.operand, 4, "the weight", 1)
    matrix = call(get("transpose"), tiles, attrs=TransposeAttrs((0, 2, 1, 3)))
    matrix = call(get("reshape"), matrix, attrs=ReshapeAttrs((-3, -3)))
    for size, least, what in zip(matrix.shape, needed, ("output channels", "rows in its matrix"), strict=True):
        known = const(size)
        if known is not None and known < least:
            raise ShapeError(f"the weight has {known} {what}, the convolution needs {least}", input=1)
    matrix = call(get("strided_slice"), matrix, attrs=SliceAttrs((0, 0), needed))
    weight: Term = call(get("reshape"), matrix, attrs=ReshapeAttrs((attrs.channels, *window, inputs), allowzero=True))
    return weight


def _of_tiles(inputs: tuple[Term, Term], attrs: Conv2dAttrs) -> Term:
    for layout, what in ((attrs.data_layout, "data_layout"), (attrs.kernel_layout, "kernel_layout")):
        plain(layout, what)
    if attrs.groups != 1:
        raise ShapeError(f"groups must be 1, not {attrs.groups}")
    data = relaid(inputs[0], attrs.data_layout, _DATA)
    channels = const(data.shape[-1])
    if channels is None:
        raise ShapeError("the number of the data's channels must be known at compile time", input=0)
    own = replace(attrs, data_layout=_DATA, kernel_layout=_KERNEL, out_layout="")
    result = call(get("nn.conv2d"), data, _weight(inputs[1], attrs, channels), attrs=own)
    return relaid(result, _DATA, attrs.out_layout or attrs.data_layout)


composite(
    name="nn.contrib_conv2d_gemm_without_weight_transform",
    doc="`nn.conv2d` with a weight in tiles, as `nn.contrib_conv2d_gemm_weight_transform` makes them; `kernel_size` and "
    "`channels` are those of the weight before.",
    inputs=("data", "weight"),
    attrs=Conv2dAttrs,
    dtype=product_rule("nn.contrib_conv2d_gemm_without_weight_transform"),
    expand=_of_tiles,
)
