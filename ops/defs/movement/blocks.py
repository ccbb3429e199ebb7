"""Operators that move spatial blocks of images to channels or to the batch, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.movement.blocks import IMAGES
from ...core.compute import Scalar, Select, Value, apply, index
from ...core.dtype_rules import like_first
from ...core.op import Op, OpPattern
from ...core.scalar_attrs import element, require_element
from .indexing import inside

Axes = tuple[Scalar, ...]


@frozen
class DepthToSpaceAttrs:
    """``block_size``: side length of a block; ``layout``: NCHW or NHWC; ``mode``: the outer part of the channel index, the
    position in the block (``DCR``) or the channel of the result (``CDR``)."""

    block_size: int
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    mode: Literal["DCR", "CDR"] = "DCR"


@frozen
class SpaceToDepthAttrs:
    """``block_size``: side length of a block; ``layout``: NCHW or NHWC."""

    block_size: int
    layout: Literal["NCHW", "NHWC"] = "NCHW"


@frozen
class YoloReorgAttrs:
    """``stride``: side length of a block."""

    stride: int


@frozen
class SpaceToBatchAttrs:
    """``block_shape``: shape of a block, for the axes after the batch; ``paddings``: the number of elements ``pad_value`` added
    before and after each of these axes first."""

    block_shape: tuple[int, ...]
    paddings: tuple[tuple[int, int], ...]
    pad_value: float = 0.0


@frozen
class BatchToSpaceAttrs:
    """``block_shape``: shape of a block, for the axes after the batch; ``crops``: the number of elements removed at the begin and
    the end of each of these axes."""

    block_shape: tuple[int, ...]
    crops: tuple[tuple[int, int], ...]


def _div(value: Scalar, by: int) -> Scalar:
    return value if by == 1 else apply("floordiv", value, index(by))


def _rest(value: Scalar, by: int) -> Scalar:
    return index(0) if by == 1 else apply("floormod", value, index(by))


def _depth_to_space(inputs: tuple[Value, ...], axes: Axes, attrs: DepthToSpaceAttrs, output: Value) -> Scalar:
    (data,) = inputs
    block, (channels, rows, columns) = attrs.block_size, IMAGES[attrs.layout]
    at = list(axes)
    place = _rest(axes[rows], block) * block + _rest(axes[columns], block)
    at[rows], at[columns] = _div(axes[rows], block), _div(axes[columns], block)
    if attrs.mode == "DCR":
        at[channels] = place * output.size(channels) + axes[channels]
    else:
        at[channels] = axes[channels] * (block * block) + place
    return data(*at)


def _space_to_depth(inputs: tuple[Value, ...], axes: Axes, attrs: SpaceToDepthAttrs, output: Value) -> Scalar:
    (data,) = inputs
    block, (channels, rows, columns) = attrs.block_size, IMAGES[attrs.layout]
    at = list(axes)
    place = apply("floordiv", axes[channels], data.size(channels))
    at[channels] = apply("floormod", axes[channels], data.size(channels))
    at[rows] = axes[rows] * block + _div(place, block)
    at[columns] = axes[columns] * block + _rest(place, block)
    return data(*at)


def _yolo_reorg(inputs: tuple[Value, ...], axes: Axes, attrs: YoloReorgAttrs, output: Value) -> Scalar:
    # the blocks are those of the data in the shape [C / stride**2, H * stride, W * stride], and so is the result's memory
    (data,) = inputs
    stride, (channels, rows, columns) = attrs.stride, (data.size(axis) for axis in (1, 2, 3))
    number = (axes[1] * output.size(2) + axes[2]) * output.size(3) + axes[3]
    row = apply("floordiv", number, columns)
    channel = apply("floordiv", row, rows)
    depth = _div(channels, stride * stride)
    block, plane = apply("floordiv", channel, depth), apply("floormod", channel, depth)
    y = apply("floormod", row, rows) * stride + _div(block, stride)
    x = apply("floormod", number, columns) * stride + _rest(block, stride)
    source = (plane * (rows * stride) + y) * (columns * stride) + x
    line = apply("floordiv", source, columns)
    return data(axes[0], apply("floordiv", line, rows), apply("floormod", line, rows), apply("floormod", source, columns))


def _digits(number: Scalar, sizes: Sequence[int]) -> list[Scalar]:
    """The mixed-radix digits of ``number``; the last size is the radix of the least significant digit."""
    return [_rest(_div(number, math.prod(sizes[k + 1 :])), size) for k, size in enumerate(sizes)]


def _space_to_batch(inputs: tuple[Value, ...], axes: Axes, attrs: SpaceToBatchAttrs, output: Value) -> Scalar:
    (data,) = inputs
    n = len(attrs.block_shape)
    place = _digits(apply("floordiv", axes[0], data.size(0)), attrs.block_shape)
    at = [apply("floormod", axes[0], data.size(0)), *axes[1:]]
    for k in range(n):
        at[1 + k] = axes[1 + k] * attrs.block_shape[k] + place[k] - attrs.paddings[k][0]
    found = data(*at)
    for k in range(n):
        if any(attrs.paddings[k]):
            found = Select(inside(at[1 + k], data.size(1 + k)), found, element(attrs.pad_value, output.dtype))
    return found


def _batch_to_space(inputs: tuple[Value, ...], axes: Axes, attrs: BatchToSpaceAttrs, output: Value) -> Scalar:
    (data,) = inputs
    at, number = list(axes), index(0)
    for k, block in enumerate(attrs.block_shape):
        place = axes[1 + k] + attrs.crops[k][0]
        number = number * block + _rest(place, block)
        at[1 + k] = _div(place, block)
    at[0] = number * output.size(0) + axes[0]
    return data(*at)


def _space_to_batch_rule(inputs: tuple[Any, ...], attrs: SpaceToBatchAttrs) -> str:
    require_element("nn.space_to_batch_nd", "pad_value", attrs.pad_value, inputs[0])
    return str(inputs[0])


def _injective(name: str, doc: str, attrs: type, compute: Any, dtype: Any = None) -> None:
    rule = dtype or like_first(name, ("data",))
    Op(name=name, doc=doc, inputs=("data",), attrs=attrs, pattern=OpPattern.INJECTIVE, dtype=rule, compute=compute)


_injective(
    "nn.depth_to_space",
    "Channels moved to spatial blocks of a larger image: "
    "`nn.depth_to_space([[[[1]], [[2]], [[3]], [[4]]]], block_size=2) = [[[[1, 2], [3, 4]]]]`.",
    DepthToSpaceAttrs,
    _depth_to_space,
)
_injective(
    "nn.space_to_depth",
    "Spatial blocks of an image moved to channels: "
    "`nn.space_to_depth([[[[1, 2], [3, 4]]]], block_size=2) = [[[[1]], [[2]], [[3]], [[4]]]]`.",
    SpaceToDepthAttrs,
    _space_to_depth,
)
_injective(
    "vision.yolo_reorg",
    "Spatial blocks moved to channels as by Darknet's reorg layer, which cuts the memory of `stride ** 2` channels, not the "
    "picture: `vision.yolo_reorg([[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]], [[12, 13], [14, 15]]]], stride=2)` "
    "has the channels `[0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15]`.",
    YoloReorgAttrs,
    _yolo_reorg,
)
_injective(
    "nn.space_to_batch_nd",
    "Positions within blocks moved to the batch: "
    "`nn.space_to_batch_nd([[1, 2, 3, 4]], block_shape=[2], paddings=[[0, 0]]) = [[1, 3], [2, 4]]`.",
    SpaceToBatchAttrs,
    _space_to_batch,
    _space_to_batch_rule,
)
_injective(
    "nn.batch_to_space_nd",
    "The batch moved to positions within blocks: "
    "`nn.batch_to_space_nd([[1, 3], [2, 4]], block_shape=[2], crops=[[0, 1]]) = [[1, 2, 3]]`.",
    BatchToSpaceAttrs,
    _batch_to_space,
)
