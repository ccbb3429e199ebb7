"""Reversal, sequence masks, cropping, sliding windows and mesh grids."""

from __future__ import annotations

from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ...composition.legalize import converted, indices, whole_dtype
from ...core.compute import Scalar, Value, apply, cast, index
from ...core.dtype_rules import INTEGERS, NUMBERS, like_first, require
from ...core.op import Op, OpPattern, TypeRelError
from ...core.scalar_attrs import element, require_element
from ...core.tensor_types import is_float
from .indexing import as_index
from .transform import AxisAttrs, replaced

Axes = tuple[Scalar, ...]


@frozen
class ReverseSequenceAttrs:
    """``seq_axis``: the reversed axis; ``batch_axis``: the axis that enumerates sequences."""

    seq_axis: int = 1
    batch_axis: int = 0


@frozen
class SequenceMaskAttrs:
    """``mask_value``: the value after the end of a sequence; ``axis``, 0 or 1: the axis of positions; the other axis enumerates
    sequences."""

    mask_value: float = 0.0
    axis: int = 0


@frozen
class SliceLikeAttrs:
    """``axes``: the cropped axes; None or empty for all."""

    axes: tuple[int, ...] | None = None


@frozen
class MeshgridAttrs:
    """``indexing``: ``ij``: the first tensor varies along the first axis; ``xy``: the first two axes are swapped."""

    indexing: Literal["ij", "xy"] = "ij"


@frozen
class SlidingWindowAttrs:
    """``axis``: the first axis of the windows; ``window_shape``, ``strides``: a number for each axis from ``axis`` on."""

    axis: int
    window_shape: tuple[int, ...]
    strides: tuple[int, ...]


def _reverse(inputs: tuple[Value, ...], axes: Axes, attrs: AxisAttrs, output: Value) -> Scalar:
    axis = attrs.axis % output.rank
    return inputs[0](*replaced(axes, axis, output.size(axis) - 1 - axes[axis]))


def _reverse_sequence(inputs: tuple[Value, ...], axes: Axes, attrs: ReverseSequenceAttrs, output: Value) -> Scalar:
    data, lengths = inputs
    sequence, batch = attrs.seq_axis % data.rank, attrs.batch_axis % data.rank
    length = apply("minimum", apply("maximum", as_index(lengths(axes[batch])), index(1)), data.size(sequence))
    at = axes[sequence]
    transposed = apply("where", at < length, length - 1 - at, at, dtype="int64")
    return data(*replaced(axes, sequence, transposed))


def _sequence_mask(inputs: tuple[Value, ...], axes: Axes, attrs: SequenceMaskAttrs, output: Value) -> Scalar:
    data, lengths = inputs
    length, at = lengths(axes[1 - attrs.axis]), axes[attrs.axis]
    both = (cast(at, "float64"), cast(length, "float64")) if is_float(length.dtype) else (at, as_index(length))
    valid = both[0] < both[1]
    # each element is read, also a masked one: vectors of 16 bits cannot be read where a condition holds
    return apply("where", valid, data(*axes), element(attrs.mask_value, output.dtype), dtype=output.dtype)


def _sequence_mask_rule(inputs: tuple[Any, ...], attrs: SequenceMaskAttrs) -> str:
    require("sequence_mask", inputs[1], NUMBERS, 1, "valid_length")
    require_element("sequence_mask", "mask_value", attrs.mask_value, inputs[0])
    return str(inputs[0])


def _meshgrid(inputs: tuple[Any, ...], axes: Axes, attrs: MeshgridAttrs, output: tuple[Value, ...]) -> tuple[Scalar, ...]:
    (fields,) = inputs
    order = list(range(len(fields)))
    if attrs.indexing == "xy":
        order[:2] = order[:2][::-1]
    return tuple(x(axes[order[k]]) if x.rank else x() for k, x in enumerate(fields))


def _meshgrid_rule(inputs: tuple[Any, ...], attrs: MeshgridAttrs) -> tuple[str, ...]:
    if not inputs[0]:
        raise TypeRelError("meshgrid: the tuple is empty; it needs at least one tensor", input=0)
    return tuple(inputs[0])


def _sliding_window(inputs: tuple[Value, ...], axes: Axes, attrs: SlidingWindowAttrs, output: Value) -> Scalar:
    (data,) = inputs
    axis, n = attrs.axis % data.rank, len(attrs.strides)
    windows, within = axes[axis : axis + n], axes[axis + n :]
    starts = [w * index(s) for w, s in zip(windows, attrs.strides, strict=True)]
    return data(*axes[:axis], *(start + i for start, i in zip(starts, within, strict=True)))


def _injective(
    name: str, doc: str, inputs: tuple[str, ...], attrs: type, compute: Any, dtype: Any = None, legal: Any = None
) -> None:
    rule, pattern = dtype or like_first(name, inputs), OpPattern.INJECTIVE
    Op(name=name, doc=doc, inputs=inputs, attrs=attrs, pattern=pattern, dtype=rule, compute=compute, legalization=legal)


_injective("reverse", "An axis back to front: `reverse([1, 2, 3], axis=0) = [3, 2, 1]`.", ("data",), AxisAttrs, _reverse)
_injective(
    "reverse_sequence",
    "The first `seq_lengths[k]` elements of sequence k in reverse order: "
    "`reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3]) = [[2, 1, 3], [6, 5, 4]]`; a length below 1 is 1, one beyond the "
    "sequence its size.",
    ("data", "seq_lengths"),
    ReverseSequenceAttrs,
    _reverse_sequence,
    like_first("reverse_sequence", ("data", "seq_lengths"), {1: INTEGERS}),
    indices(1),
)
_injective(
    "sequence_mask",
    "Elements after the end of each sequence replaced by `mask_value`: "
    "`sequence_mask([[1, 2, 3], [4, 5, 6]], [1, 2], axis=1) = [[1, 0, 0], [4, 5, 0]]`.",
    ("data", "valid_length"),
    SequenceMaskAttrs,
    _sequence_mask,
    _sequence_mask_rule,
    converted({1: whole_dtype}),
)
_injective(
    "slice_like",
    "The first part of each axis, as long as that of `shape_like`: `slice_like([1, 2, 3], [0, 0]) = [1, 2]`.",
    ("data", "shape_like"),
    SliceLikeAttrs,
    lambda inputs, axes, attrs, output: inputs[0](*axes),
)
_injective(
    "meshgrid",
    "The coordinates of a grid: `meshgrid(([1, 2], [3, 4])) = ([[1, 1], [2, 2]], [[3, 4], [3, 4]])`.",
    ("data*",),
    MeshgridAttrs,
    _meshgrid,
    _meshgrid_rule,
)
_injective(
    "sliding_window",
    "Every window of a shape: `sliding_window([1, 2, 3, 4], axis=0, window_shape=[2], strides=[2]) = [[1, 2], [3, 4]]`.",
    ("data",),
    SlidingWindowAttrs,
    _sliding_window,
)
