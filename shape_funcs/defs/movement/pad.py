"""Shapes of padding and dilation of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...symbolic.argument_checks import as_size, dimensions, need_rank
from ...symbolic.dim import Dim, Shape, dim
from ...symbolic.dim_operations import all_, any_, eq, le, lt, max_
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func

#: Mirror modes by name; the maximum padding is the size of the axis minus this number.
MIRRORS = {"reflect": 1, "REFLECT": 1, "SYMMETRIC": 0}


@register_shape_func("nn.pad")
def pad(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """Each size plus both numbers of ``attrs.pad_width``, which may be negative in the mode ``constant``; a scalar pad value."""
    need_rank(inputs[1], 0, "the pad value", 1)
    return _padded(inputs[0], _pairs(attrs.pad_width), attrs.pad_mode, None)


@register_shape_func("nn.mirror_pad")
def mirror_pad(inputs: tuple[Operand], attrs: Any) -> Shape:
    """Each size plus both numbers of ``attrs.pad_width``."""
    return _padded(inputs[0], _pairs(attrs.pad_width), attrs.mode, None)


@register_shape_func("dyn.nn.pad", data_dependent=[False, True, False])
def dyn_pad(inputs: tuple[Operand, Operand, Operand], attrs: Any) -> Shape:
    """Each size plus both numbers of its row of ``pad_width``, a matrix of two columns; the pad value is a scalar."""
    data, width, value = inputs
    need_rank(value, 0, "the pad value", 2)
    need_rank(width, 2, "pad_width", 1)
    values = width.values
    if len(values) != 2 * data.rank:
        raise ShapeError(f"pad_width has {len(values)} numbers; data with {dimensions(data.rank)} needs {2 * data.rank}", input=1)
    check(eq(width.shape[1], 2), "pad_width has {} columns, not 2", width.shape[1], input=1)
    return _padded(data, list(zip(values[::2], values[1::2], strict=True)), attrs.pad_mode, 1)


def _pairs(width: Sequence[Sequence[int]]) -> list[tuple[Dim, Dim]]:
    return [(dim(before), dim(after)) for before, after in width]


def _padded(data: Operand, width: Sequence[tuple[Dim, Dim]], mode: str, source: int | None) -> Shape:
    if len(width) != data.rank:
        raise ShapeError(f"pad_width is for {dimensions(len(width))}, the data has {data.rank}")
    out = []
    for axis, (size, pair) in enumerate(zip(data.shape, width, strict=True)):
        for width_there in pair:
            if mode == "constant":  # a negative width removes elements
                _check_removal(size, width_there, axis, source)
            else:
                as_size(width_there, f"pad_width of axis {axis}", source)
            if mode in MIRRORS:
                message = f"axis {axis} of size {{}} is too short to be mirrored {{}} far"
                check(le(width_there, max_(0, size - MIRRORS[mode])), message, size, width_there, input=0, axis=axis)
        if mode == "edge":
            # the padding repeats existing elements: an empty axis cannot be padded
            nothing = all_(le(pair[0], 0), le(pair[1], 0))
            check(any_(lt(0, size), nothing), f"axis {axis} is empty: it has no edge to repeat", input=0, axis=axis)
        out.append(pair[0] + size + pair[1])
        if mode == "constant":
            _check_removal(size, pair[0] + pair[1], axis, source)
    return tuple(out)


def _check_removal(size: Dim, width: Dim, axis: int, source: int | None) -> None:
    """No more elements are removed than an axis has."""
    message = f"axis {axis} has size {{}}, pad_width adds {{}} elements"
    check(le(0, size + width), message, size, width, input=source, axis=axis)


@register_shape_func("nn.dilate")
def dilate(inputs: tuple[Operand], attrs: Any) -> Shape:
    """``(size - 1) * stride + 1`` for each axis; an empty axis stays empty."""
    (data,) = inputs
    if len(attrs.strides) != data.rank:
        raise ShapeError(f"strides has {len(attrs.strides)} numbers, the data has {dimensions(data.rank)}")
    if min(attrs.strides, default=1) < 1:
        raise ShapeError(f"strides {tuple(attrs.strides)} must be at least 1")
    return tuple(max_(0, (size - 1) * stride + 1) for size, stride in zip(data.shape, attrs.strides, strict=True))
