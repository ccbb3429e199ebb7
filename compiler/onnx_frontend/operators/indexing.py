"""Operators that select and write elements by index."""

from __future__ import annotations

import numpy as np

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from .vectors import as_int64, extent


def from_the_front(node: Node, indices: Expr, x: Expr, axis: int) -> Expr:
    """Indices of an axis, negative ones counted from the end."""
    known = node.constant(indices)
    if known is not None and (known >= 0).all():
        return indices
    total = node.size(x, axis)
    if known is not None and total is not None:
        return const(np.where(known < 0, known + total, known).astype(known.dtype))
    size = extent(x, axis)
    size = size if node.dtype(indices) == "int64" else relay.cast(size, node.dtype(indices))
    zero = const(0, node.dtype(indices))
    return relay.where(relay.less(indices, zero), relay.add(indices, size), indices)


@onnx_operator("Gather", since=1)
def gather(node: Node, x: Expr, indices: Expr) -> Expr:
    """An index out of range is an error."""
    axis = node.axis(node.attr("axis", 0), node.rank(x))
    return relay.take(x, from_the_front(node, indices, x, axis), axis=axis, mode="fast")


@onnx_operator("GatherElements", since=11)
def gather_elements(node: Node, x: Expr, indices: Expr) -> Expr:
    """Along the other axes the indices may be fewer than the elements, whose first ones are then meant."""
    axis = node.axis(node.attr("axis", 0), node.rank(x))
    if node.rank(indices) == node.rank(x):
        pairs = enumerate(zip(node.shape(indices), node.shape(x), strict=True))
        if fewer := [k for k, (a, b) in pairs if k != axis and a is not b]:
            x = node.bind(relay.slice_like(x, indices, axes=fewer))
    return relay.gather(x, axis, from_the_front(node, indices, x, axis))


@onnx_operator("GatherND", since=11)
def gather_nd(node: Node, x: Expr, indices: Expr) -> Expr:
    """The number of coordinates of a point, or else the rank of the result must be known at import."""
    batch, rank = node.attr("batch_dims", 0), node.rank(x)
    left = node.declared_rank
    indices, count = _coordinates(node, indices, None if left is None else rank - batch + node.rank(indices) - 1 - left)
    points = _coordinates_first(node, indices)
    shape = relay.strided_slice(relay.shape_of(x, dtype="int64"), [batch], [batch + count])
    sizes = relay.reshape(shape, [count] + [1] * (node.rank(points) - 1))
    points = as_int64(node, points)
    points = relay.where(relay.less(points, const(0, "int64")), relay.add(points, sizes), points)
    return relay.gather_nd(x, points, batch_dims=batch)


def _coordinates(node: Node, indices: Expr, declared: int | None) -> tuple[Expr, int]:
    """Points and the number of their coordinates.

    ``declared``: the number that follows from ranks; it is checked at run time if the type of the points does not say it.
    """
    rank = node.rank(indices)
    if not rank:
        raise node.error("the indices have no axis for coordinates")
    count = node.size(indices, rank - 1)
    if count is not None:
        return indices, count
    if declared is None or declared < 0:
        raise node.unknown_rank("the number of coordinates must be known at import", "it")
    return node.bind(relay.reshape(indices, [0] * (rank - 1) + [declared])), declared


def _coordinates_first(node: Node, indices: Expr) -> Expr:
    """The points with their last axis, the coordinates, before all others."""
    rank = node.rank(indices)
    return relay.transpose(indices, [rank - 1, *range(rank - 1)]) if rank > 1 else indices


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@onnx_operator("Scatter", "ScatterElements", since=9)
def scatter_elements(node: Node, x: Expr, indices: Expr, updates: Expr) -> Expr:
    axis = node.axis(node.attr("axis", 0), node.rank(x))
    return relay.scatter_elements(x, indices, updates, axis, node.choice("reduction", _REDUCTIONS, "none"))


@onnx_operator("ScatterND", since=11)
def scatter_nd(node: Node, x: Expr, indices: Expr, updates: Expr) -> Expr:
    indices, _ = _coordinates(node, indices, node.rank(x) + node.rank(indices) - 1 - node.rank(updates))
    return relay.scatter_nd(x, _coordinates_first(node, indices), updates, node.choice("reduction", _REDUCTIONS, "none"))


@onnx_operator("TensorScatter", since=24)
def tensor_scatter(node: Node, cache: Expr, update: Expr, begin: Expr | None) -> Expr:
    """Each sequence of the batch is written from its own position on; in circular mode beyond the end at the begin."""
    rank = node.rank(cache)
    axis = node.axis(node.attr("axis", -2), rank)
    zero = const(0, "int64")
    at = relay.reshape(relay.arange(zero, extent(update, axis), const(1, "int64"), dtype="int64"), _along(rank, axis))
    if begin is not None:
        at = relay.add(at, relay.reshape(as_int64(node, begin), _along(rank, 0)))
    if node.attr("mode", "linear") == "circular":
        at = relay.floor_mod(at, extent(cache, axis))
    return relay.scatter_elements(cache, relay.broadcast_to_like(at, update), update, axis, "update")


def _along(rank: int, axis: int) -> list[int]:
    """The shape of a vector along one axis."""
    return [-1 if a == axis else 1 for a in range(rank)]


@onnx_operator("Compress", since=9)
def compress(node: Node, x: Expr, condition: Expr) -> Expr:
    """The number of elements is known at run time."""
    chosen = relay.reshape(relay.argwhere(condition), [-1])
    if not node.has("axis"):
        return relay.take(relay.reshape(x, [-1]), chosen, axis=0, mode="fast")
    return relay.take(x, chosen, axis=node.axis(node.attr("axis"), node.rank(x)), mode="fast")


@onnx_operator("NonZero", since=9)
def non_zero(node: Node, x: Expr) -> Expr:
    """The number of elements is known at run time."""
    return relay.cast(relay.transpose(relay.argwhere(x), [1, 0]), "int64")


@onnx_operator("OneHot", since=9)
def one_hot(node: Node, indices: Expr, depth: Expr, values: Expr) -> Expr:
    """An index out of range has no position."""
    known = node.constant(depth)
    count = relay.reshape(as_int64(node, depth), []) if known is None else int(known.reshape(-1)[0])
    total = count if isinstance(count, Expr) else const(count, "int64")
    off, on = (relay.reshape(relay.strided_slice(values, [k], [k + 1]), []) for k in (0, 1))
    at = as_int64(node, indices)
    at = relay.where(relay.less(at, const(0, "int64")), relay.add(at, total), at)
    return relay.one_hot(at, on, off, count, node.attr("axis", -1), node.dtype(values))


@onnx_operator("Trilu", since=14)
def trilu(node: Node, x: Expr, k: Expr | None) -> Expr:
    diagonal = const(0, "int64") if k is None else relay.reshape(as_int64(node, k), [])
    return relay.trilu(x, diagonal, bool(node.attr("upper", 1)))


@onnx_operator("ReverseSequence", since=10)
def reverse_sequence(node: Node, x: Expr, lengths: Expr) -> Expr:
    return relay.reverse_sequence(x, lengths, node.attr("time_axis", 0), node.attr("batch_axis", 1))
