"""Operators that put elements elsewhere or give a tensor another shape, without looking at any value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .compute import Scalar, Select, Value, apply, index
from .dtype_rules import INDICES, known_dtype, like_fields, like_first
from .op import Op, OpPattern, TypeRelError

Axes = tuple[Scalar, ...]
#: A tuple of more tensors is a mistake.
MOST_PARTS = 2**16

# ---- moving elements -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TransposeAttrs:
    """``axes``: which axis of the data each axis of the result is; None reverses them."""

    axes: tuple[int, ...] | None = None


@dataclass(frozen=True)
class AxisAttrs:
    """``axis``: counted from the end if negative."""

    axis: int = 0


@dataclass(frozen=True)
class SplitAttrs:
    """``indices_or_sections``: how many equal parts, or the positions at which a new part begins."""

    indices_or_sections: int | tuple[int, ...]
    axis: int = 0


@dataclass(frozen=True)
class SliceAttrs:
    """As in numpy's ``data[begin:end:strides]``, for the axes ``axes`` (None: the first ones).

    With ``slice_mode="size"``, ``end`` holds sizes (-1: all that is left) and strides are 1.  One stride stands for all.
    """

    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...] = (1,)
    axes: tuple[int, ...] | None = None
    slice_mode: Literal["end", "size"] = "end"


@dataclass(frozen=True)
class TileAttrs:
    """``reps``: how many copies along each of the last axes."""

    reps: tuple[int, ...]


@dataclass(frozen=True)
class RepeatAttrs:
    """``repeats``: how often each element comes, along ``axis``."""

    repeats: int
    axis: int = 0


def _transpose(inputs: tuple[Value, ...], axes: Axes, attrs: TransposeAttrs, output: Value) -> Scalar:
    order = tuple(reversed(range(output.rank))) if attrs.axes is None else tuple(a % output.rank for a in attrs.axes)
    return inputs[0](*(axes[order.index(a)] for a in range(output.rank)))


def replaced(axes: Axes, axis: int, by: Scalar) -> Axes:
    """``axes`` with one index replaced."""
    return (*axes[:axis], by, *axes[axis + 1 :])


def _concatenate(inputs: tuple[Any, ...], axes: Axes, attrs: AxisAttrs, output: Value) -> Scalar:
    (fields,) = inputs
    axis = attrs.axis % output.rank
    # from the last field to the first: the element is in the last field unless it is before it
    starts = [index(0)]
    for field in fields[:-1]:
        starts.append(starts[-1] + field.size(axis))
    parts = [field(*replaced(axes, axis, axes[axis] - start)) for field, start in zip(fields, starts, strict=True)]
    return _chosen(parts, starts, axes[axis])


def _stack(inputs: tuple[Any, ...], axes: Axes, attrs: AxisAttrs, output: Value) -> Scalar:
    (fields,) = inputs
    axis = attrs.axis % output.rank
    inner = (*axes[:axis], *axes[axis + 1 :])
    return _chosen([field(*inner) for field in fields], [index(k) for k in range(len(fields))], axes[axis])


def _chosen(parts: list[Scalar], starts: list[Scalar], at: Scalar) -> Scalar:
    """The part that ``at`` falls into: part k holds ``starts[k]`` up to the start of the next.

    A balanced tree: as a chain, a hundred parts would nest deeper than Python's parser allows.
    """
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Select(at < starts[middle], _chosen(parts[:middle], starts[:middle], at), _chosen(parts[middle:], starts[middle:], at))


def _split(inputs: tuple[Value, ...], axes: Axes, attrs: SplitAttrs, output: tuple[Value, ...]) -> tuple[Scalar, ...]:
    (data,) = inputs
    axis, start, elements = attrs.axis % data.rank, index(0), []
    for part in output:
        elements.append(data(*replaced(axes, axis, axes[axis] + start)))
        start = start + part.size(axis)
    return tuple(elements)


def _split_dtype(inputs: tuple[Any, ...], attrs: SplitAttrs) -> tuple[str, ...]:
    at = attrs.indices_or_sections
    parts = at if isinstance(at, int) else len(at) + 1
    if parts > MOST_PARTS:
        raise TypeRelError(f"split: {parts} parts are too many; at most {MOST_PARTS} are possible")
    return (inputs[0],) * parts


def _slice(inputs: tuple[Value, ...], axes: Axes, attrs: SliceAttrs, output: Value) -> Scalar:
    (data,) = inputs
    at = list(axes)
    n = len(attrs.begin)
    strides = (1,) * n if attrs.slice_mode == "size" else attrs.strides * n if len(attrs.strides) == 1 else attrs.strides
    sliced = range(n) if attrs.axes is None else attrs.axes
    for k, axis in enumerate(sliced):
        axis %= data.rank
        stride = strides[k] if k < len(strides) else 1
        at[axis] = _first(attrs.begin[k], stride, data.size(axis)) + axes[axis] * stride
    return data(*at)


def _first(begin: int, stride: int, size: Scalar) -> Scalar:
    """The first index of a slice that is not empty."""
    start = index(begin) if begin >= 0 else size + begin
    if stride > 0:
        return start if begin >= 0 else apply("maximum", start, index(0))
    return apply("minimum", start, size - 1) if begin >= 0 else start


def tiled(inputs: tuple[Value, ...], axes: Axes, attrs: Any, output: Value) -> Scalar:
    """The first input, repeated as often as the output is longer."""
    data = inputs[0]
    own = axes[output.rank - data.rank :]
    pairs = zip(own, data.shape, output.shape[output.rank - data.rank :], strict=True)
    return data(*(i if d is out else apply("floormod", i, data.size(k)) for k, (i, d, out) in enumerate(pairs)))


def _repeat(inputs: tuple[Value, ...], axes: Axes, attrs: RepeatAttrs, output: Value) -> Scalar:
    axis = attrs.axis % output.rank
    return inputs[0](*replaced(axes, axis, apply("floordiv", axes[axis], index(attrs.repeats))))


def _injective(name: str, doc: str, compute: Any, attrs: type, inputs: tuple[str, ...] = ("data",), dtype: Any = None) -> Op:
    return Op(
        name=name,
        doc=doc,
        inputs=inputs,
        attrs=attrs,
        pattern=OpPattern.INJECTIVE,
        dtype=dtype or (like_fields(name) if inputs[0].endswith("*") else like_first(name, inputs)),
        compute=compute,
    )


TRANSPOSE = _injective(
    "transpose", "Axes in another order: `transpose([[1, 2, 3]], axes=[1, 0]) = [[1], [2], [3]]`.", _transpose, TransposeAttrs
)
CONCATENATE = _injective(
    "concatenate",
    "Tensors one after the other along `axis`: `concatenate(([1, 2], [3]), axis=0) = [1, 2, 3]`.",
    _concatenate,
    AxisAttrs,
    ("data*",),
)
_injective(
    "stack", "Tensors of one shape along a new axis: `stack(([1, 2], [3, 4]), axis=0) = [[1, 2], [3, 4]]`.", _stack, AxisAttrs,
    ("data*",),
)  # fmt: skip
_injective(
    "split",
    "A tuple of parts along `axis`: `split([1, 2, 3, 4], indices_or_sections=2) = ([1, 2], [3, 4])`.",
    _split,
    SplitAttrs,
    dtype=_split_dtype,
)
STRIDED_SLICE = _injective(
    "strided_slice",
    "Part of a tensor, as numpy slices: `strided_slice([0, 1, 2, 3], begin=[1], end=[4], strides=[2]) = [1, 3]`.",
    _slice,
    SliceAttrs,
)
TILE = _injective("tile", "The whole tensor several times: `tile([1, 2], reps=[2]) = [1, 2, 1, 2]`.", tiled, TileAttrs)
REPEAT = _injective(
    "repeat", "Each element several times: `repeat([1, 2], repeats=2, axis=0) = [1, 1, 2, 2]`.", _repeat, RepeatAttrs
)

# ---- the same elements under another shape -----------------------------------------------------------------------------


@dataclass(frozen=True)
class ReshapeAttrs:
    """``newshape``: sizes, or 0 (keep), -1 (what is left), -2 (keep all others), -3 (join two), -4 (split one in two).

    With ``allowzero`` a 0 is the size 0.
    """

    newshape: tuple[int, ...]
    allowzero: bool = False


@dataclass(frozen=True)
class ReshapeLikeAttrs:
    """Which axes of the data (``lhs_begin`` up to ``lhs_end``) are replaced by which of ``like`` (``rhs_begin`` up to
    ``rhs_end``).  Negative ones count from the end, None is behind the last axis."""

    lhs_begin: int = 0
    lhs_end: int | None = None
    rhs_begin: int = 0
    rhs_end: int | None = None


@dataclass(frozen=True)
class SqueezeAttrs:
    """``axis``: the axes of size 1 to remove; None for all that are known to have size 1."""

    axis: int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.axis, int):
            object.__setattr__(self, "axis", (self.axis,))


@dataclass(frozen=True)
class ExpandDimsAttrs:
    """``num_newaxis`` axes of size 1 are put before ``axis``."""

    axis: int
    num_newaxis: int = 1


@dataclass(frozen=True)
class ShapeOfAttrs:
    """``dtype``: of the vector."""

    dtype: str = "int64"


def view(name: str, doc: str, attrs: type | None, inputs: tuple[str, ...] = ("data",), **more: Any) -> Op:
    """Declare an operator whose result is the first input's bytes under another shape."""
    given = {} if attrs is None else {"attrs": attrs}
    return Op(
        name=name, doc=doc, inputs=inputs, pattern=OpPattern.RESHAPE, **given, **{"dtype": like_first(name, inputs), **more}
    )


RESHAPE = view(
    "reshape", "The elements in another shape: `reshape([1, 2, 3, 4], newshape=[2, -1]) = [[1, 2], [3, 4]]`.", ReshapeAttrs
)
view(
    "reshape_like",
    "The same elements in the shape of `like`, or a part of it: `reshape_like([1, 2], [[0, 0]]) = [[1, 2]]`.",
    ReshapeLikeAttrs,
    ("data", "like"),
)
view("squeeze", "Axes of size 1 removed: `squeeze([[1, 2]], axis=[0]) = [1, 2]`.", SqueezeAttrs)
view("expand_dims", "Axes of size 1 put in: `expand_dims([1, 2], axis=0) = [[1, 2]]`.", ExpandDimsAttrs)
view("nn.batch_flatten", "All axes but the first as one: `nn.batch_flatten([[[1, 2], [3, 4]]]) = [[1, 2, 3, 4]]`.", None)

Op(
    name="shape_of",
    doc="The shape as a vector on the host: `shape_of([[1, 2, 3]]) = [1, 3]`.  Touches no element.",
    inputs=("data",),
    attrs=ShapeOfAttrs,
    pattern=OpPattern.MACHINE,
    dtype=lambda inputs, attrs: known_dtype("shape_of", attrs.dtype, INDICES),
)
