"""Shapes of operators that move spatial blocks of images to channels or to the batch, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...symbolic.argument_checks import as_size, dimensions, need_rank
from ...symbolic.dim import Shape
from ...symbolic.dim_operations import eq
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func

#: Axes of channels, rows and columns by layout.
IMAGES = {"NCHW": (1, 2, 3), "NHWC": (3, 1, 2)}


def _block(attrs: Any) -> int:
    if attrs.block_size < 1:
        raise ShapeError(f"block_size is {attrs.block_size}; it must be at least 1")
    return int(attrs.block_size)


@register_shape_func("nn.depth_to_space")
def depth_to_space(inputs: tuple[Operand], attrs: Any) -> Shape:
    """Rows and columns times ``block_size``; channels divided by ``block_size ** 2``."""
    (data,) = inputs
    need_rank(data, 4, "the data", 0)
    block, (channels, rows, columns) = _block(attrs), IMAGES[attrs.layout]
    out, size = list(data.shape), data.shape[channels]
    check(
        eq(size % (block * block), 0),
        f"cannot make blocks of {block} * {block} of {{}} channels",
        size,
        input=0,
        axis=channels,
    )
    out[channels] = size // (block * block)
    out[rows], out[columns] = out[rows] * block, out[columns] * block
    return tuple(out)


@register_shape_func("nn.space_to_depth")
def space_to_depth(inputs: tuple[Operand], attrs: Any) -> Shape:
    """Channels times ``block_size ** 2``; rows and columns divided by ``block_size``."""
    (data,) = inputs
    need_rank(data, 4, "the data", 0)
    block, (channels, rows, columns) = _block(attrs), IMAGES[attrs.layout]
    out = list(data.shape)
    for axis in (rows, columns):
        size = out[axis]
        check(eq(size % block, 0), f"axis {axis} has size {{}}, which is not a multiple of {block}", size, input=0, axis=axis)
        out[axis] = size // block
    out[channels] = out[channels] * (block * block)
    return tuple(out)


@register_shape_func("vision.yolo_reorg")
def yolo_reorg(inputs: tuple[Operand], attrs: Any) -> Shape:
    """Channels times ``stride ** 2``; rows and columns divided by ``stride``."""
    (data,) = inputs
    need_rank(data, 4, "the data", 0)
    stride = attrs.stride
    if stride < 1:
        raise ShapeError(f"stride is {stride}; it must be at least 1")
    batch, channels, rows, columns = data.shape
    for axis, size, parts in ((1, channels, stride * stride), (2, rows, stride), (3, columns, stride)):
        check(eq(size % parts, 0), f"axis {axis} has size {{}}, which is not a multiple of {parts}", size, input=0, axis=axis)
    return batch, channels * (stride * stride), rows // stride, columns // stride


@register_shape_func("nn.space_to_batch_nd")
def space_to_batch_nd(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The padded axes after the batch divided by their block sizes; the batch times the product of the block sizes."""
    (data,) = inputs
    block = _blocks(data, attrs.block_shape, attrs.paddings, "paddings")
    out = list(data.shape)
    out[0] = out[0] * math.prod(block)
    for axis, (parts, (before, after)) in enumerate(zip(block, attrs.paddings, strict=True), 1):
        size = before + out[axis] + after
        message = f"axis {axis} has size {{}} with its paddings, which is not a multiple of {parts}"
        check(eq(size % parts, 0), message, size, input=0, axis=axis)
        out[axis] = size // parts
    return tuple(out)


@register_shape_func("nn.batch_to_space_nd")
def batch_to_space_nd(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The axes after the batch times their block sizes, cropped; the batch divided by the product of the block sizes."""
    (data,) = inputs
    block = _blocks(data, attrs.block_shape, attrs.crops, "crops")
    out, count = list(data.shape), math.prod(block)
    check(eq(out[0] % count, 0), f"the batch has size {{}}, which is not a multiple of {count}", out[0], input=0, axis=0)
    out[0] = out[0] // count
    for axis, (parts, (before, after)) in enumerate(zip(block, attrs.crops, strict=True), 1):
        out[axis] = as_size(out[axis] * parts - (before + after), f"what crops leave of axis {axis}", 0)
    return tuple(out)


def _blocks(data: Operand, block: Sequence[int], pairs: Sequence[Sequence[int]], what: str) -> tuple[int, ...]:
    if min(block, default=1) < 1:
        raise ShapeError(f"block_shape {tuple(block)} must be at least 1")
    if len(pairs) != len(block):
        raise ShapeError(f"block_shape has {len(block)} numbers, {what} has {len(pairs)} pairs")
    for pair in pairs:
        if min(pair) < 0:
            raise ShapeError(f"{what} has {list(pair)}; no number may be negative")
    if data.rank < len(block) + 1:
        raise ShapeError(f"block_shape is for a batch and {dimensions(len(block))}, the data has {data.rank}", input=0)
    return tuple(block)
