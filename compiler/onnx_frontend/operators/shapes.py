"""Operators on shapes: shapes as values, and the same elements under another shape.

Where a shape is a value at run time, the operator takes its ``dyn.`` form, and the shape stays a computation of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ....ops.core.tensor_types import numpy_dtype
from ....shape_funcs.symbolic.program import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from ..tensors import dtype_name
from .run_time_axes import squeezed_at_run_time, unsqueezed_at_run_time
from .vectors import as_int64, measured, numbers, padded_in_front, sizes_or_expr


def broadcast_shapes(node: Node, x: Expr, shape: Expr) -> Any:
    """The shape to which a tensor and a shape broadcast: numbers, or an expression."""
    rank = node.rank(x)
    declared = node.declared_rank
    if None in node.sizes(shape) and declared == rank:  # the shape may be shorter than the data's
        shape = padded_in_front(node, as_int64(node, shape), rank, 1)
    shape, count = measured(node, shape, "the shape", declared)
    known, have = sizes_or_expr(node, shape), node.sizes(x)
    if isinstance(known, list):
        full = [1] * (rank - count) + known
        offset = len(full) - rank
        # a size of 1 in the shape keeps the size of the data
        if all(n != 1 or a < offset or have[a - offset] is not None for a, n in enumerate(full)):
            return [int(have[a - offset] or 0) if n == 1 and a >= offset else n for a, n in enumerate(full)]
        known = numbers(known)
    wanted = relay.concatenate([numbers([1] * (rank - count)), known], 0) if count < rank else known
    given = relay.shape_of(x, dtype="int64")
    given = relay.concatenate([numbers([1] * (count - rank)), given], 0) if rank < count else given
    return relay.where(relay.equal(wanted, numbers([1] * max(rank, count))), given, wanted)


@onnx_operator("Expand", since=8)
def expand(node: Node, x: Expr, shape: Expr) -> Expr:
    """The shape broadcasts with that of the data."""
    return relay.broadcast_to(x, broadcast_shapes(node, x, shape))


@onnx_operator("Shape", since=1)
def shape(node: Node, x: Expr) -> Expr:
    rank, whole = node.rank(x), relay.shape_of(x, dtype="int64")
    start, end, _ = slice(node.attr("start", 0), node.attr("end", rank)).indices(rank)
    if (start, end) == (0, rank):
        return whole
    return relay.strided_slice(whole, [start], [max(start, end)])


@onnx_operator("Size", since=1)
def size(node: Node, x: Expr) -> Expr:
    return relay.prod(relay.shape_of(x, dtype="int64")) if node.rank(x) else const(1, "int64")


@onnx_operator("Reshape", since=5)
def reshape(node: Node, x: Expr, shape: Expr) -> Expr:
    shape, _ = measured(node, shape, "the shape", node.declared_rank)
    return relay.reshape(x, sizes_or_expr(node, shape), allowzero=bool(node.attr("allowzero", 0)))


@onnx_operator("Flatten", since=1)
def flatten(node: Node, x: Expr) -> Expr:
    rank = node.rank(x)
    axis = node.attr("axis", 1)
    axis = axis + rank if axis < 0 else axis
    if not 0 <= axis <= rank:
        raise node.error(f"a tensor of rank {rank} has no axis {node.attr('axis', 1)}")
    if axis == 0 or rank == 0:
        return relay.reshape(x, [1, -1])
    if axis == rank:
        return relay.reshape(x, [-1, 1])
    if axis == 1 and rank > 1:
        return relay.nn.batch_flatten(x)
    given = relay.shape_of(x, dtype="int64")
    parts = [relay.prod(relay.strided_slice(given, [a], [b]), axis=0, keepdims=True) for a, b in ((0, axis), (axis, rank))]
    known = sizes_or_expr(node, node.bind(relay.concatenate(parts, 0)))
    return relay.reshape(x, known, allowzero=True)


@onnx_operator("Transpose", since=1)
def transpose(node: Node, x: Expr) -> Expr:
    rank = node.rank(x)
    perm = node.attr("perm", list(range(rank))[::-1])
    return relay.transpose(x, perm) if rank else x


@onnx_operator("Squeeze", since=1)
def squeeze(node: Node, x: Expr) -> Expr:
    return squeezed(node, x, node.attr("axes"))


@onnx_operator("Squeeze", since=13)
def squeeze_axes(node: Node, x: Expr, axes: Expr | None) -> Expr:
    known = node.constant(axes)
    return squeezed(node, x, known) if axes is None or known is not None else squeezed_at_run_time(node, x, axes)


def squeezed(node: Node, x: Expr, axes: Any) -> Expr:
    """The tensor without axes of size 1; without ``axes``, without all of them."""
    sizes = node.sizes(x)
    if axes is None:
        if None in sizes:
            raise node.error("without axes, every size must be known at import, for the rank of the result depends on them")
        axes = [a for a, n in enumerate(sizes) if n == 1]
    counted = node.axes([int(a) for a in np.reshape(axes, -1)], len(sizes))
    return relay.squeeze(x, counted) if counted else x


@onnx_operator("Unsqueeze", since=1)
def unsqueeze(node: Node, x: Expr) -> Expr:
    return unsqueezed(node, x, node.required("axes"))


@onnx_operator("Unsqueeze", since=13)
def unsqueeze_axes(node: Node, x: Expr, axes: Expr) -> Expr:
    known = node.constant(axes)
    return unsqueezed_at_run_time(node, x, axes) if known is None else unsqueezed(node, x, known)


def unsqueezed(node: Node, x: Expr, axes: Any) -> Expr:
    """The tensor with axes of size 1 at these positions of the result."""
    axes = [int(a) for a in np.reshape(axes, -1)]
    rank = node.rank(x) + len(axes)
    for axis in sorted(node.axes(axes, rank)):
        x = relay.expand_dims(x, axis)
    return x


@onnx_operator("Concat", since=4)
def concat(node: Node, *tensors: Expr) -> Expr:
    axis = node.axis(node.required("axis"), node.rank(tensors[0]))
    return relay.concatenate(list(tensors), axis) if len(tensors) > 1 else tensors[0]


@onnx_operator("Tile", since=6)
def tile(node: Node, x: Expr, repeats: Expr) -> Expr:
    if not node.rank(x):
        return x
    return relay.tile(x, sizes_or_expr(node, measured(node, repeats, "repeats", node.rank(x))[0]))


@onnx_operator("ConstantOfShape", since=9)
def constant_of_shape(node: Node, shape: Expr) -> Expr:
    value = node.attr("value", np.zeros(1, np.float32))
    shape, _ = measured(node, shape, "the shape", node.declared_rank)
    return relay.full(const(value.reshape(())), sizes_or_expr(node, shape), value.dtype.name)


@onnx_operator("Range", since=11)
def arange(node: Node, start: Expr, limit: Expr, delta: Expr) -> Expr:
    return relay.arange(start, limit, delta, dtype=node.dtype(start))


@onnx_operator("Constant", since=1)
def constant(node: Node) -> Expr:
    if node.has("value"):
        return const(node.attr("value"))
    for name, dtype in (("value_float", "float32"), ("value_floats", "float32"), ("value_int", "int64"), ("value_ints", "int64")):
        if node.has(name):
            return const(np.array(node.attr(name), numpy_dtype(dtype)))
    raise node.error("its value is of a kind that tensors here do not have")


@onnx_operator("EyeLike", since=9)
def eye_like(node: Node, x: Expr) -> Expr:
    dtype = dtype_name(node.attr("dtype"), "the result") if node.has("dtype") else node.dtype(x)
    sizes = relay.shape_of(x, dtype="int64")
    rows, columns = (relay.take(sizes, const(a, "int64"), axis=0) for a in (0, 1))
    zero, one = const(0, "int64"), const(1, "int64")
    row = relay.expand_dims(relay.arange(zero, rows, one, dtype="int64"), 1)
    column = relay.expand_dims(relay.arange(zero, columns, one, dtype="int64"), 0)
    diagonal = relay.equal(relay.add(row, const(node.attr("k", 0), "int64")), column)
    return diagonal if dtype == "bool" else relay.cast(diagonal, dtype)


# ---- parts of tensors --------------------------------------------------------------------------------------------------


@onnx_operator("Slice", since=1)
def slice_by_attributes(node: Node, x: Expr) -> Expr:
    starts, ends = node.required("starts"), node.required("ends")
    axes = node.attr("axes", list(range(len(starts))))
    return relay.strided_slice(x, starts, ends, [1] * len(starts), node.axes(axes, node.rank(x)))


@onnx_operator("Slice", since=10)
def slice_by_inputs(node: Node, x: Expr, starts: Expr, ends: Expr, axes: Expr | None, steps: Expr | None) -> Expr:
    rank = node.rank(x)
    which = None if axes is None else node.constant(axes)
    if axes is not None and which is None:
        return _sliced_at_run_time(node, x, starts, ends, axes, steps)
    if axes is None and None in node.sizes(starts):  # the first axes, whose number is known at run time
        starts, ends, steps = _for_every_axis(node, starts, ends, steps, rank)
    starts, count = measured(node, starts, "starts", None if which is None else which.size)
    ends, steps = measured(node, ends, "ends", count)[0], None if steps is None else measured(node, steps, "steps", count)[0]
    counted = node.axes(range(count) if which is None else [int(a) for a in which.reshape(-1)], rank)
    known = [node.constant(e) for e in (starts, ends, numbers([1] * count) if steps is None else steps)]
    lists = [[int(v) for v in k.reshape(-1)] for k in known if k is not None]
    if len(lists) == len(known):
        return relay.strided_slice(x, *lists, counted)
    begin, end, strides = (
        _on_all_axes(node, e, counted, rank, default) for e, default in ((starts, 0), (ends, INT64_MAX), (steps, 1))
    )
    return relay.dyn.strided_slice(x, begin, end, strides)


def _for_every_axis(node: Node, starts: Expr, ends: Expr, steps: Expr | None, rank: int) -> tuple[Expr, Expr, Expr | None]:
    """The numbers of the first axes as vectors for all axes.

    ``stack`` checks that there are as many of each.
    """
    given = [as_int64(node, e) for e in (starts, ends, steps) if e is not None]
    rows = node.bind(relay.stack(given, 0))
    # the numbers for the other axes; the reshape refuses more numbers than there are axes
    rest = const(np.array([[fill] * rank for fill in (0, INT64_MAX, 1)[: len(given)]], np.int64))
    count = relay.strided_slice(relay.shape_of(rows, dtype="int64"), [1], [2])
    begin = relay.concatenate([numbers([0]), count], 0)
    rest = relay.dyn.strided_slice(rest, begin, numbers([len(given), rank]), numbers([1, 1]))
    whole = node.bind(relay.reshape(relay.concatenate([rows, rest], 1), [len(given), rank]))
    limits = [relay.take(whole, const(k, "int64"), axis=0) for k in range(len(given))]
    return limits[0], limits[1], None if steps is None else limits[2]


def _on_all_axes(node: Node, given: Expr | None, axes: list[int], rank: int, default: int) -> Expr:
    """The numbers of some axes as a vector for all axes."""
    if given is None:
        return numbers([default] * rank)
    if axes == list(range(rank)):
        return as_int64(node, given)
    whole = relay.concatenate([as_int64(node, given), numbers([default])], 0)
    return relay.take(whole, numbers([axes.index(a) if a in axes else len(axes) for a in range(rank)]), axis=0)


def _sliced_at_run_time(node: Node, x: Expr, starts: Expr, ends: Expr, axes: Expr, steps: Expr | None) -> Expr:
    """A slice along axes that are known at run time."""
    rank = node.rank(x)

    def everywhere(given: Expr | None, default: int) -> Expr:
        base = numbers([default] * rank)
        if given is None:
            return base
        return relay.scatter_elements(base, as_int64(node, axes), as_int64(node, given), 0, "update")

    return relay.dyn.strided_slice(x, everywhere(starts, 0), everywhere(ends, INT64_MAX), everywhere(steps, 1))


@onnx_operator("Split", since=2)
def split_by_attribute(node: Node, x: Expr) -> list[Expr]:
    parts = node.attr("split")
    return _split(node, x, None if parts is None else np.array(parts))


@onnx_operator("Split", since=13)
def split(node: Node, x: Expr, parts: Expr | None) -> list[Expr]:
    if parts is None:
        return _split(node, x, None)
    known = node.constant(parts)
    if known is not None:
        return _split(node, x, known)
    parts, _ = measured(node, parts, "split", len(node.outputs))
    return open_parts(node, x, node.axis(node.attr("axis", 0), node.rank(x)), parts, len(node.outputs))


def _split(node: Node, x: Expr, parts: Any) -> list[Expr]:
    axis, count = node.axis(node.attr("axis", 0), node.rank(x)), len(node.outputs)
    total = node.size(x, axis)
    if parts is None:
        if total is None:
            return _equal_parts(node, x, axis, count)
        each = -(-total // count)
        parts = [min(each, max(total - k * each, 0)) for k in range(count)]
    if len(parts) != count:
        raise node.error(f"it has {count} outputs and {len(parts)} parts")
    return known_parts(node, x, axis, parts)


def known_parts(node: Node, x: Expr, axis: int, parts: Sequence[Any]) -> list[Expr]:
    """The parts of a tensor along an axis, of known sizes.  Raises ModelError for sizes that are not those of the axis."""
    total = node.size(x, axis)
    ends = np.cumsum([int(n) for n in parts]).tolist()
    begins = [0, *ends[:-1]]
    if total is not None and ends and ends[-1] != total:
        raise node.error(f"the parts have {ends[-1]} elements of {total}")
    return [relay.strided_slice(x, [a], [b], [1], [axis]) for a, b in zip(begins, ends, strict=True)]


def _equal_parts(node: Node, x: Expr, axis: int, count: int) -> list[Expr]:
    """The parts of an axis whose size is known at run time: equal ones, but the last."""
    total = relay.take(relay.shape_of(x, dtype="int64"), const(axis, "int64"), axis=0)
    each = relay.floor_divide(relay.add(total, const(count - 1, "int64")), const(count, "int64"))
    bounds = [relay.minimum(relay.multiply(each, const(k, "int64")), total) for k in range(count + 1)]
    return [_part(node, x, axis, relay.reshape(a, [1]), relay.reshape(b, [1])) for a, b in pairwise(bounds)]


def open_parts(node: Node, x: Expr, axis: int, parts: Expr, count: int) -> list[Expr]:
    """The parts of a tensor along an axis, of sizes known at run time."""
    ends = relay.cumsum(as_int64(node, parts), axis=0)
    begins = relay.subtract(ends, as_int64(node, parts))
    return [
        _part(node, x, axis, relay.strided_slice(begins, [k], [k + 1]), relay.strided_slice(ends, [k], [k + 1]))
        for k in range(count)
    ]


def _part(node: Node, x: Expr, axis: int, begin: Expr, end: Expr) -> Expr:
    rank = node.rank(x)
    whole = _on_all_axes(node, begin, [axis], rank, 0), _on_all_axes(node, end, [axis], rank, INT64_MAX)
    return relay.dyn.strided_slice(x, *whole, numbers([1] * rank))
