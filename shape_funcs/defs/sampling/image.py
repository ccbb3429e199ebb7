"""Shapes of operators on images: resizing, grid sampling, dilation.  Only run-time target sizes are read as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...symbolic.argument_checks import as_size, need_rank, same_size, vector
from ...symbolic.dim import Dim, Shape, dim
from ...symbolic.dim_operations import any_, eq, lt
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func
from ..convolution.conv import SPATIAL, data_layouts, in_layout, layout_in, per_axis, shape_in_layout, sides, window_positions

#: The resizing mode that reads a region of interest.
CROP_MODE = "tf_crop_and_resize"


def dilation_layouts() -> tuple[str, str]:
    """The layouts of a dilation's kernel: channels first, channels last."""
    return "IHW", "HWI"


# ---- resizing --------------------------------------------------------------------------------------------------------


def resized(data: Operand, sizes: Shape, layout: str) -> Shape:
    """The shape of ``data`` with the spatial ``sizes``; an empty axis must stay empty."""
    rank = len(sizes)
    need_rank(data, rank + 2, "the data", 0)
    layout = layout_in(layout, data_layouts(rank), "layout")
    batch, channels, spatial = in_layout(data.shape, layout)
    for letter, have, want in zip(SPATIAL[rank], spatial, sizes, strict=True):
        check_source_not_empty(have, want, letter)
    return shape_in_layout(batch, channels, sizes, layout)


def check_source_not_empty(have: Dim, want: Dim, letter: str) -> None:
    """Check that an empty axis stays empty."""
    check(any_(lt(0, have), eq(want, 0)), f"along {letter} the data has no element to make {{}} of", want, input=0)


def _check_scales_and_roi(attrs: Any, rank: int) -> None:
    """Raise ShapeError unless ``scales`` and ``roi`` have the number of elements that ``rank`` spatial axes need."""
    if attrs.scales and len(attrs.scales) != rank:
        raise ShapeError(f"scales must have {rank} number{'s' if rank > 1 else ''}, not {len(attrs.scales)}")
    for scale in attrs.scales:
        if not 0 < scale < float("inf"):
            raise ShapeError(f"a scale must be positive and finite, not {scale}")


def _resize(rank: int) -> None:
    @register_shape_func(f"image.resize{rank}d")
    def resize(inputs: tuple[Operand], attrs: Any) -> Shape:
        """``attrs.size`` along the spatial axes."""
        _check_scales_and_roi(attrs, rank)
        if attrs.coordinate_transformation_mode == CROP_MODE and len(attrs.roi or ()) != 2 * rank:
            raise ShapeError(f"roi must have {2 * rank} numbers, not {len(attrs.roi or ())}")
        return resized(inputs[0], tuple(map(dim, per_axis(attrs.size, rank, "size", 0))), attrs.layout)


for _rank in SPATIAL:
    _resize(_rank)


@register_shape_func("dyn.image.resize2d", data_dependent=[False, True, False])
def dyn_resize2d(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """The values of ``size`` along the spatial axes; the region affects only the elements."""
    data, size, roi = inputs
    _check_scales_and_roi(attrs, 2)
    need_rank(roi, 1, "roi", 2)
    if attrs.coordinate_transformation_mode == CROP_MODE:
        same_size(dim(4), roi.shape[0], "roi must have {} numbers, not {}", 2, 0)
    return resized(data, run_time_sizes(vector(size, "size", 1), 2, "size", 1), attrs.layout)


def run_time_sizes(values: Sequence[Dim], count: int, what: str, input: int) -> Shape:
    """``values`` as ``count`` run-time sizes.  Raises ShapeError for any other number of values."""
    if len(values) != count:
        raise ShapeError(f"{what} must have {count} numbers, not {len(values)}", input=input)
    return tuple(as_size(v, f"a number of {what}", input) for v in values)


# ---- grids -----------------------------------------------------------------------------------------------------------


@register_shape_func("image.affine_grid")
def affine_grid(inputs: tuple[Operand], attrs: Any) -> Shape:
    """For matrices ``[B, k, k + 1]``, k 2 or 3: ``[B, k, *attrs.target_shape]``."""
    (matrices,) = inputs
    target = attrs.target_shape
    rank = len(target)
    if rank not in (2, 3):
        raise ShapeError(f"target_shape must have 2 or 3 numbers, not {rank}")
    need_rank(matrices, 3, "the matrices", 0)
    same_size(dim(rank), matrices.shape[1], "a matrix must have {} rows, not {}", 0, 1)
    same_size(dim(rank + 1), matrices.shape[2], "a matrix must have {} columns, not {}", 0, 2)
    return (matrices.shape[0], dim(rank), *map(dim, per_axis(target, rank, "target_shape", 0)))


@register_shape_func("image.grid_sample")
def grid_sample(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """For data ``[B, C, *sizes]`` and a grid ``[B, k, *places]`` of the same rank: ``[B, C, *places]``."""
    data, grid = inputs
    rank = len(attrs.layout) - 2
    valid = [data_layouts(2)[0], data_layouts(3)[0]]
    layout_in(attrs.layout, valid, "layout")
    need_rank(data, rank + 2, "the data", 0)
    need_rank(grid, rank + 2, "the grid", 1)
    batch = same_size(data.shape[0], grid.shape[0], "the data has {} batches, the grid {}", 1, 0)
    same_size(dim(rank), grid.shape[1], "a place of the grid must have {} numbers, not {}", 1, 1)
    for letter, have in zip(SPATIAL[rank], data.shape[2:], strict=True):
        check(lt(0, have), f"along {letter} the data has no element", input=0)
    return (batch, data.shape[1], *grid.shape[2:])


# ---- dilation --------------------------------------------------------------------------------------------------------


@register_shape_func("image.dilation2d")
def dilation2d(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The number of window positions along both spatial axes; the channels of the data."""
    data, weight = inputs
    need_rank(data, 4, "the data", 0)
    need_rank(weight, 3, "the weight", 1)
    layout = layout_in(attrs.data_layout, data_layouts(2), "data_layout")
    kernel_layout = layout_in(attrs.kernel_layout, dilation_layouts(), "kernel_layout")
    batch, channels, spatial = in_layout(data.shape, layout)
    own = weight.shape[kernel_layout.index("I")]
    channels = same_size(channels, own, "the data has {} channels, the weight {}", 1)
    window = tuple(weight.shape[kernel_layout.index(letter)] for letter in SPATIAL[2])
    strides, dilations = per_axis(attrs.strides, 2, "strides"), per_axis(attrs.dilations, 2, "dilations")
    before, after = sides(attrs.padding, 2)
    positions = (
        window_positions(spatial[k], before[k] + after[k], window[k], dilations[k], strides[k], SPATIAL[2][k]) for k in range(2)
    )
    return shape_in_layout(batch, channels, tuple(positions), layout)
