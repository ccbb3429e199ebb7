"""Operators that gather elements by the values of an index tensor.

Indices never access memory outside the data: they are clipped, wrapped, or stop the kernel with INDEX_OUT_OF_RANGE.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import const
from ...composition.legalize import converted, index_dtype, indices
from ...core.compute import Guard, Scalar, Select, Value, apply, cast, index
from ...core.dtype_rules import INTEGERS, known_dtype, like_first, require
from ...core.op import NoAttrs, Op, OpPattern
from ...core.parameters import Default, Parameter, Parameters
from ...native.status import INDEX_OUT_OF_RANGE
from ..arithmetic.broadcast import broadcast
from .transform import AxisAttrs

Axes = tuple[Scalar, ...]


@frozen
class TakeAttrs:
    """Attributes of ``take``.

    ``axis``: the indexed axis, None for the flattened data; ``batch_dims``: number of leading axes shared by data and indices;
    ``mode``: an index out of range is clipped (``clip``), taken modulo the size (``wrap``) or an error (``fast``).
    """

    axis: int | None = None
    batch_dims: int = 0
    mode: Literal["clip", "wrap", "fast"] = "clip"


@frozen
class GatherNdAttrs:
    """``batch_dims``: number of leading axes shared by data and index tuples; ``index_rank``: length of an index tuple, needed
    only if axis 0 of the indices is symbolic."""

    batch_dims: int = 0
    index_rank: int | None = None


@frozen
class OneHotAttrs:
    """``depth``: size of the new axis; ``axis``: its position; ``dtype``: dtype of the result."""

    depth: int
    axis: int = -1
    dtype: str = "float32"


def as_index(value: Scalar) -> Scalar:
    """An integer element as an index expression."""
    return cast(value, "int64")


def inside(at: Scalar, size: Scalar) -> Scalar:
    """The condition that ``at`` is a valid index of an axis of ``size`` elements."""
    return apply("and", at >= 0, at < size)


def _take(inputs: tuple[Value, ...], axes: Axes, attrs: TakeAttrs, output: Value) -> Scalar:
    data, indices = inputs
    if attrs.axis is None:
        return _limited(attrs.mode, indices(*axes), _count(data), lambda at: data(*_unravel(at, data)), data)
    axis = attrs.axis % data.rank
    batch = _batch_dims(attrs, indices)
    end = axis + indices.rank - batch
    at = indices(*axes[:batch], *axes[axis:end])
    return _limited(attrs.mode, at, data.size(axis), lambda at: data(*axes[:axis], at, *axes[end:]), data)


def _take_index(dtype: str, dtypes: tuple[Any, ...], attrs: TakeAttrs) -> str:
    # the remainder of a uint64 is not that of the largest int64
    return dtype if dtype == "uint64" and attrs.mode == "wrap" else index_dtype(dtype, dtypes, attrs)


def _limited(mode: str, at: Scalar, size: Scalar, element: Any, data: Value) -> Scalar:
    """``element(at)``; an integer ``at`` out of range of ``size`` is handled according to ``mode``."""
    if mode == "wrap":
        whole = at if at.dtype == "uint64" else as_index(at)
        limited = as_index(apply("floormod", whole, cast(size, whole.dtype)))
    elif mode == "fast":
        at = as_index(at)
        return Guard(inside(at, size), INDEX_OUT_OF_RANGE, element(at))
    else:
        limited = apply("minimum", apply("maximum", as_index(at), index(0)), size - 1)
    # an empty axis has no valid index
    if all(const(d) not in (None, 0) for d in data.shape):
        loaded: Scalar = element(limited)
        return loaded
    return Guard(apply("greater", size, index(0), dtype="bool"), INDEX_OUT_OF_RANGE, element(limited))


def _count(data: Value) -> Scalar:
    out = index(1)
    for axis in range(data.rank):
        out = out * data.size(axis)
    return out


def _unravel(at: Scalar, data: Value) -> list[Scalar]:
    """The index tuple of element number ``at`` of the flattened ``data``."""
    out: list[Scalar] = []
    for axis in reversed(range(1, data.rank)):
        out.insert(0, apply("floormod", at, data.size(axis)))
        at = apply("floordiv", at, data.size(axis))
    return [at, *out] if data.rank else []


def _gather(inputs: tuple[Value, ...], axes: Axes, attrs: AxisAttrs, output: Value) -> Scalar:
    data, indices = inputs
    axis = attrs.axis % data.rank
    at = as_index(indices(*axes))
    valid = inside(at, data.size(axis))
    return Guard(valid, INDEX_OUT_OF_RANGE, data(*axes[:axis], at, *axes[axis + 1 :]))


def _batch_dims(attrs: Any, indices: Value) -> int:
    """The number of shared axes; a negative ``attrs.batch_dims`` is relative to the rank of the indices."""
    return int(attrs.batch_dims + indices.rank if attrs.batch_dims < 0 else attrs.batch_dims)


def _gather_nd(inputs: tuple[Value, ...], axes: Axes, attrs: GatherNdAttrs, output: Value) -> Scalar:
    data, indices = inputs
    n = const(indices.shape[0]) if attrs.index_rank is None else attrs.index_rank
    batch = _batch_dims(attrs, indices)
    assert n is not None, "the shape function takes no other"
    tuples, rest = axes[: indices.rank - 1], axes[indices.rank - 1 :]
    at = [as_index(indices(k, *tuples)) for k in range(n)]
    element = data(*axes[:batch], *at, *rest)
    for k in reversed(range(n)):
        element = Guard(inside(at[k], data.size(batch + k)), INDEX_OUT_OF_RANGE, element)
    return element


def _adv_index(inputs: tuple[Any, ...], axes: Axes, attrs: Any, output: Value) -> Scalar:
    data, *indices = inputs[0]
    n = output.rank - (data.rank - len(indices))  # the rank of the broadcast indices
    common = replace(output, shape=output.shape[:n])
    given = [as_index(broadcast(x, axes[:n], common)) for x in indices]
    at = [_from_the_end(i, data.size(k)) for k, i in enumerate(given)]
    element: Scalar = data(*at, *axes[n:])
    for k in reversed(range(len(at))):
        element = Guard(inside(at[k], data.size(k)), INDEX_OUT_OF_RANGE, element)
    return element


def _from_the_end(at: Scalar, size: Scalar) -> Scalar:
    """``at`` as a nonnegative index: a negative index counts from the end."""
    return apply("where", at < 0, at + size, at, dtype="int64")


def _adv_index_rule(inputs: tuple[Any, ...], attrs: Any) -> str:
    for n, dtype in enumerate(inputs[0][1:], 1):
        require("adv_index", dtype, INTEGERS, 0, f"field {n} (indices)")
    return str(inputs[0][0]) if inputs[0] else "float32"  # the shape function rejects an empty tuple


def _unravel_index(inputs: tuple[Value, ...], axes: Axes, attrs: Any, output: Value) -> Scalar:
    indices, shape = inputs
    n = const(shape.shape[0])
    assert n is not None, "the shape function takes no other"
    sizes = [as_index(shape(k)) for k in range(n)]
    at = whole = as_index(indices(*axes[1:]))
    coordinates: list[Scalar] = []
    for size in reversed(sizes[1:]):
        coordinates.insert(0, apply("floormod", at, size))
        at = apply("floordiv", at, size)
    coordinates.insert(0, at)
    chosen = coordinates[-1]
    for k in reversed(range(n - 1)):
        chosen = Select(axes[0] < k + 1, coordinates[k], chosen)
    # the remaining quotient must be an index of the first axis; then all coordinates are in range
    found = Guard(inside(at, sizes[0]), INDEX_OUT_OF_RANGE, chosen)
    found = Guard(whole >= 0, INDEX_OUT_OF_RANGE, found)
    for size in sizes:
        found = Guard(apply("greater", size, index(0), dtype="bool"), INDEX_OUT_OF_RANGE, found)
    return cast(found, output.dtype)


def _unravel_rule(inputs: tuple[Any, ...], attrs: Any) -> str:
    require("unravel_index", inputs[0], INTEGERS, 0, "indices")
    require("unravel_index", inputs[1], INTEGERS, 1, "shape")
    return str(inputs[0])


def one_hot(inputs: tuple[Value, ...], axes: Axes, attrs: Any, output: Value) -> Scalar:
    """``on`` if the index equals the position along the new axis, else ``off``; further inputs are ignored."""
    indices, on, off = inputs[:3]
    axis = attrs.axis % output.rank
    hit = apply("equal", as_index(indices(*axes[:axis], *axes[axis + 1 :])), axes[axis], dtype="bool")
    return apply("where", hit, *(cast(x(), output.dtype) for x in (on, off)), dtype=output.dtype)


def one_hot_dtype(name: str, inputs: tuple[Any, ...], dtype: str) -> str:
    """The dtype rule of ``one_hot``: indices, on, off.  Raises TypeRelError."""
    require(name, inputs[0], INTEGERS, 0, "indices")
    return known_dtype(name, dtype)


ONE_HOT_PYTHON = Parameters.of(
    "indices", Parameter("on_value", dtype="dtype"), Parameter("off_value", dtype="dtype"), "depth", "axis", "dtype"
)


def _injective(
    name: str, doc: str, inputs: tuple[str, ...], attrs: type | None, compute: Any, legal: Any, dtype: Any = None,
    python: Parameters | None = None,
) -> Op:  # fmt: skip
    rule = dtype or like_first(name, inputs, {1: INTEGERS})
    given: dict[str, Any] = {"attrs": attrs or NoAttrs, "pattern": OpPattern.INJECTIVE, "compute": compute}
    return Op(name=name, doc=doc, inputs=inputs, python=python, dtype=rule, legalization=legal, **given)


_injective(
    "take",
    "The elements (of an axis) at the indices: `take([10, 20, 30], [2, 0], axis=0) = [30, 10]`.",
    ("data", "indices"),
    TakeAttrs,
    _take,
    converted({1: _take_index}),
)
_injective(
    "gather",
    "Elements selected by index along `axis`: `gather([[1, 2], [3, 4]], [[1], [0]], axis=1) = [[2], [3]]`.",
    ("data", "indices"),
    AxisAttrs,
    _gather,
    indices(1),
    python=Parameters.of("data", Parameter("axis", Default.REQUIRED), "indices"),
)
_injective(
    "gather_nd",
    "The elements (or slices) at index tuples along axis 0: `gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]]) = [2, 3]`.",
    ("data", "indices"),
    GatherNdAttrs,
    _gather_nd,
    indices(1),
)
_injective(
    "one_hot",
    'A new axis with `on_value` at the index: `one_hot([1], 1, 0, depth=3, dtype="int32") = [[0, 1, 0]]`; an index out of '
    "range is nowhere.",
    ("indices", "on_value", "off_value"),
    OneHotAttrs,
    one_hot,
    indices(0),
    lambda inputs, attrs: one_hot_dtype("one_hot", inputs, attrs.dtype),
    ONE_HOT_PYTHON,
)
_injective(
    "adv_index",
    "The elements at index tensors, which broadcast, as numpy indexes: "
    "`adv_index(([[1, 2], [3, 4]], [0, 1], [1, -1])) = [2, 4]`.",
    ("inputs*",),
    None,
    _adv_index,
    indices(0),
    _adv_index_rule,
)
_injective(
    "unravel_index",
    "The coordinates of each index into a tensor of a shape: `unravel_index([1, 5], [2, 3]) = [[0, 1], [1, 2]]`.",
    ("indices", "shape"),
    None,
    _unravel_index,
    None,  # the coordinates have the dtype of the indices
    _unravel_rule,
)
