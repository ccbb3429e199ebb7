"""Operators on shapes: shapes as values, and the same elements under another shape.

Where a shape is a value at run time, the operator takes its ``dyn.`` form, and the shape stays a computation of the program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ops.core.op import get
from ....ops.core.tensor_types import numpy_dtype
from ....shape_funcs.symbolic.dim import Dim
from ....shape_funcs.symbolic.dim import const as known_size
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Call, Expr
from ...rules.scalar_values import WHOLE
from ..node import Node
from ..operator_table import onnx_operator
from ..run_time_checks import with_size_of
from ..tensors import dtype_name
from .run_time_axes import squeezed_at_run_time, unsqueezed_at_run_time
from .vectors import as_int64, measured, numbers, padded_in_front, sizes_or_expr

#: Operators whose result is the number of their data.
_SAME_NUMBER = frozenset(map(get, ("cast", "reshape", "squeeze", "expand_dims")))
_TAKE, _SHAPE_OF = get("take"), get("shape_of")


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
    chosen = node.bind(relay.where(relay.equal(wanted, numbers([1] * max(rank, count))), given, wanted))
    return _each_of(node, chosen, node.bind(wanted), node.bind(given))


def _each_of(node: Node, chosen: Expr, *vectors: Expr) -> Expr:
    """The vector ``chosen``, or the vector of equal elements if the model determines the vector of each element."""
    elements = node.scope.values.elements
    wanted, known = elements.of(chosen), [(v, elements.of(v)) for v in vectors]
    if wanted is None or None in wanted:
        return chosen
    sources: list[Expr] = []
    for k, element in enumerate(wanted):
        equal = [v for v, found in known if found is not None and found[k] is element]
        if not equal:
            return chosen
        sources.append(equal[0])
    if all(s is sources[0] for s in sources):
        return sources[0]
    return relay.concatenate([relay.reshape(relay.take(v, const(k, "int64")), [1]) for k, v in enumerate(sources)], 0)


@onnx_operator("Expand", since=8)
def expand(node: Node, x: Expr, shape: Expr) -> Expr:
    """The shape broadcasts with that of the data."""
    repeated = _repeated(node, x, shape)
    if repeated is not None:
        return repeated
    sizes = broadcast_shapes(node, x, shape)
    return x if isinstance(sizes, list) and sizes == list(node.sizes(x)) else relay.broadcast_to(x, sizes)


def _repeated(node: Node, x: Expr, shape: Expr) -> Expr | None:
    """The data with some axes of size 1 repeated, if the shape says no more, whatever the other sizes are."""
    sizes, wanted = node.shape(x), node.scope.values.elements.of(node.bind(shape))
    if wanted is None or None in wanted or len(wanted) > len(sizes) or None not in node.sizes(x):
        return None
    numbers = [known_size(size) for size in wanted]
    found = x
    for axis, (size, new, number) in enumerate(zip(sizes[len(sizes) - len(wanted) :], wanted, numbers, strict=True)):
        if number == 1 or new is size:
            continue
        if known_size(size) != 1 or not number:
            return None
        found = node.bind(relay.repeat(found, number, axis + len(sizes) - len(wanted)))
    return found


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
    allowzero = bool(node.attr("allowzero", 0)) or _has_sizes_of(node, x, shape)
    return relay.reshape(x, sizes_or_expr(node, shape), allowzero=allowzero)


def _has_sizes_of(node: Node, x: Expr, shape: Expr) -> bool:
    """Whether a shape has numbers from 1 on, and besides sizes of the data.

    Such a size is 0 only where the data are empty.  It stays 0 then, as exporters mean it: the standard would copy the size of
    another axis, for which no data have the elements, or for which another axis is empty.
    """
    elements = node.scope.values.elements.of(node.bind(shape))
    if elements is None or not all(isinstance(e, Dim) for e in elements):
        return False
    numbers = [known_size(e) for e in elements]
    return None in numbers and all(e in node.shape(x) if n is None else n > 0 for e, n in zip(elements, numbers, strict=True))


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
            raise node.unknown_rank("without axes, every size must be known at import", "them")
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
    # each is one number, also in a vector whose length is known at run time
    bounds = [x if None not in node.sizes(x) else relay.reshape(x, []) for x in (start, limit, delta)]
    numbers_up_to = relay.arange(*bounds, dtype=node.dtype(start))
    counted = _counted_axis(node, limit)
    if counted is None or not (_is_number(node, start, 0) and _is_number(node, delta, 1)):
        return numbers_up_to
    return with_size_of(node, node.bind(numbers_up_to), *counted)


def _is_number(node: Node, x: Expr, number: int) -> bool:
    """Whether the model determines the number."""
    known = node.constant(x)
    return known is not None and bool((known == number).all())


def _counted_axis(node: Node, number: Expr) -> tuple[Expr, int] | None:
    """The tensor and the axis whose size the number is, as the model reads it: ``Gather(Shape(x), axis)``; None for any other.

    A cast to a dtype that holds no large sizes makes another number of them.
    """
    values = node.scope.values.definitions.values
    value = values.get(number)
    while isinstance(value, Call) and value.op in _SAME_NUMBER and node.dtype(number) in WHOLE:
        number = value.args[0]
        value = values.get(number)
    if not isinstance(value, Call) or value.op is not _TAKE:
        return None
    sizes, axis = values.get(value.args[0]), node.constant(value.args[1])
    if not isinstance(sizes, Call) or sizes.op is not _SHAPE_OF or axis is None or axis.size != 1:
        return None
    data, number_of_axis = sizes.args[0], int(axis.reshape(()))
    rank = node.rank(data)
    return (data, number_of_axis % rank) if -rank <= number_of_axis < rank else None


@onnx_operator("Constant", since=1)
def constant(node: Node) -> Expr:
    if node.has("value"):
        return const(node.attr("value"))
    if node.has("sparse_value"):
        return const(node.attr("sparse_value"))
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
