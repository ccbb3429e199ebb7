"""Data movement and views: operators that do not depend on element values."""

from __future__ import annotations

from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ...core.compute import Scalar, Select, Value, apply, index
from ...core.dtype_rules import INDICES, known_dtype, like_fields, like_first
from ...core.op import Op, OpPattern, TypeRelError

Axes = tuple[Scalar, ...]
#: Maximum number of sections of a split.
MOST_PARTS = 2**16

# ---- data movement -------------------------------------------------------------------------------------------------


@frozen
class TransposeAttrs:
    """``axes``: for each axis of the result, the axis of the data; None or empty reverses the axes."""

    axes: tuple[int, ...] | None = None


@frozen
class AxisAttrs:
    """``axis``: an axis; a negative one counts from the end."""

    axis: int = 0


@frozen
class SplitAttrs:
    """``indices_or_sections``: the number of equal sections, or the begin of every section but the first."""

    indices_or_sections: int | tuple[int, ...]
    axis: int = 0


@frozen
class SliceAttrs:
    """As in numpy's ``data[begin:end:strides]``, along ``axes`` (None: the first axes).

    With ``slice_mode="size"``, ``end`` holds sizes (-1: to the end) and strides are 1.  A single stride holds for all axes.
    """

    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...] = (1,)
    axes: tuple[int, ...] | None = None
    slice_mode: Literal["end", "size"] = "end"


@frozen
class DynSliceAttrs:
    """``slice_mode``: with ``"size"``, ``end`` holds sizes (-1: to the end) and strides are 1."""

    slice_mode: Literal["end", "size"] = "end"


@frozen
class TileAttrs:
    """``reps``: the number of copies along each of the last axes."""

    reps: tuple[int, ...]


@frozen
class RepeatAttrs:
    """``repeats``: the number of repetitions of each element along ``axis``; ``axis`` None: of the flattened data."""

    repeats: int
    axis: int = 0


def _transpose(inputs: tuple[Value, ...], axes: Axes, attrs: TransposeAttrs, output: Value) -> Scalar:
    order = tuple(reversed(range(output.rank))) if not attrs.axes else tuple(a % output.rank for a in attrs.axes)
    return inputs[0](*(axes[order.index(a)] for a in range(output.rank)))


def replaced(axes: Axes, axis: int, by: Scalar) -> Axes:
    """``axes`` with one index replaced."""
    return (*axes[:axis], by, *axes[axis + 1 :])


def _concatenate(inputs: tuple[Any, ...], axes: Axes, attrs: AxisAttrs, output: Value) -> Scalar:
    (fields,) = inputs
    axis = attrs.axis % output.rank
    # begin of each field along the axis, and the element of each field
    starts = [index(0)]
    for field in fields[:-1]:
        starts.append(starts[-1] + field.size(axis))
    parts = [field(*replaced(axes, axis, axes[axis] - start)) for field, start in zip(fields, starts, strict=True)]
    return select_part(parts, starts, axes[axis])


def _stack(inputs: tuple[Any, ...], axes: Axes, attrs: AxisAttrs, output: Value) -> Scalar:
    (fields,) = inputs
    axis = attrs.axis % output.rank
    inner = (*axes[:axis], *axes[axis + 1 :])
    return select_part([field(*inner) for field in fields], [index(k) for k in range(len(fields))], axes[axis])


def select_part(parts: list[Scalar], starts: list[Scalar], at: Scalar) -> Scalar:
    """The element of the part that contains index ``at``; part k spans ``starts[k]`` to the start of the next part.

    The comparisons form a balanced tree: a chain of a hundred parts would nest deeper than Python's parser allows.
    """
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return Select(
        at < starts[middle], select_part(parts[:middle], starts[:middle], at), select_part(parts[middle:], starts[middle:], at)
    )


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
    """The first index of a nonempty slice."""
    start = index(begin) if begin >= 0 else size + begin
    if stride > 0:
        return start if begin >= 0 else apply("maximum", start, index(0))
    return apply("minimum", start, size - 1) if begin >= 0 else start


def tiled(inputs: tuple[Value, ...], axes: Axes, attrs: Any, output: Value) -> Scalar:
    """The ``compute`` of tiling: the first input, repeated along the axes of the output."""
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

# ---- views -------------------------------------------------------------------------------------------------------------


@frozen
class ReshapeAttrs:
    """``newshape``: sizes, or 0 (keep), -1 (infer), -2 (keep all remaining), -3 (merge two), -4 (split one in two).

    ``allowzero``: whether a 0 is the size 0.
    """

    newshape: tuple[int, ...]
    allowzero: bool = False


@frozen
class ReshapeLikeAttrs:
    """``lhs_begin``, ``lhs_end``: the replaced axes of the data; ``rhs_begin``, ``rhs_end``: the replacing axes of the other
    tensor; ends are exclusive.  Negative numbers count from the end; None is after the last axis."""

    lhs_begin: int = 0
    lhs_end: int | None = None
    rhs_begin: int = 0
    rhs_end: int | None = None


@frozen
class SqueezeAttrs:
    """``axis``: the axes of size 1 to remove; None for all that are known to have size 1."""

    axis: int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.axis, int):
            object.__setattr__(self, "axis", (self.axis,))


@frozen
class ExpandDimsAttrs:
    """``axis``: the position of the new axes; ``num_newaxis``: the number of new axes of size 1."""

    axis: int
    num_newaxis: int = 1


@frozen
class ShapeOfAttrs:
    """``dtype``: dtype of the vector; the default is Relay's."""

    dtype: str = "int32"


def view(name: str, doc: str, attrs: type | None, inputs: tuple[str, ...] = ("data",), **more: Any) -> Op:
    """Declare a RESHAPE operator: the result is a view of the first input."""
    given: dict[str, Any] = {} if attrs is None else {"attrs": attrs}
    return Op(
        name=name, doc=doc, inputs=inputs, pattern=OpPattern.RESHAPE, **given, **{"dtype": like_first(name, inputs), **more}
    )


RESHAPE = view(
    "reshape", "The elements in another shape: `reshape([1, 2, 3, 4], newshape=[2, -1]) = [[1, 2], [3, 4]]`.", ReshapeAttrs
)
view(
    "contrib_reverse_reshape",
    "As `reshape`, 0 and the other special values read from right to left: "
    "`contrib_reverse_reshape([[1, 2, 3]], newshape=[-1, 1, 0]) = [[[1, 2, 3]]]`.",
    ReshapeAttrs,
)
view(
    "reshape_like",
    "The same elements in the shape of `shape_like`, or a part of it: `reshape_like([1, 2], [[0, 0]]) = [[1, 2]]`.",
    ReshapeLikeAttrs,
    ("data", "shape_like"),
)
view("squeeze", "Axes of size 1 removed: `squeeze([[1, 2]], axis=[0]) = [1, 2]`.", SqueezeAttrs)
view("expand_dims", "Axes of size 1 put in: `expand_dims([1, 2], axis=0) = [[1, 2]]`.", ExpandDimsAttrs)
view("nn.batch_flatten", "All axes but the first as one: `nn.batch_flatten([[[1, 2], [3, 4]]]) = [[1, 2, 3, 4]]`.", None)

Op(
    name="shape_of",
    doc="The shape as a vector on the host: `shape_of([[1, 2, 3]]) = [1, 3]`.  Reads no element.",
    inputs=("data",),
    attrs=ShapeOfAttrs,
    pattern=OpPattern.MACHINE,
    dtype=lambda inputs, attrs: known_dtype("shape_of", attrs.dtype, INDICES),
)
