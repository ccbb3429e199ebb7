"""Axes whose positions are known at run time, while their number is known at import: the rank is known, the sizes are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from .vectors import as_int64, measured, numbers, result_rank


def axis_mask(node: Node, axes: Expr, rank: int) -> Expr:
    """A vector with 1 for each of the axes of a tensor of this rank, else 0."""
    axes = as_int64(node, axes)
    return relay.scatter_elements(numbers([0] * rank), axes, relay.ones_like(axes), 0, "update")


def unsqueezed_at_run_time(node: Node, x: Expr, axes: Expr) -> Expr:
    """The tensor with axes of size 1 at these positions of the result."""
    given = node.rank(x)
    axes, count = measured(node, axes, "axes", result_rank(node, given))
    rank = given + count
    if not given:
        return relay.reshape(x, [1] * rank)
    mask, one = axis_mask(node, axes, rank), const(1, "int64")
    position = relay.subtract(relay.cumsum(relay.subtract(one, mask), axis=0), one)
    sizes = relay.take(relay.shape_of(x, dtype="int64"), position, axis=0)
    return relay.reshape(x, relay.where(relay.equal(mask, one), one, sizes), allowzero=True)


def squeezed_at_run_time(node: Node, x: Expr, axes: Expr) -> Expr:
    """The tensor without these axes; an axis of another size than 1 fails at run time."""
    rank = node.rank(x)
    axes, count = measured(node, axes, "axes", removed_axes(node, rank))
    return squeezed_by_mask(node, x, axis_mask(node, axes, rank), rank - count)


def removed_axes(node: Node, rank: int) -> int | None:
    """The number of axes that a tensor of this rank loses, by the declared rank of the result."""
    left = node.declared_rank
    return None if left is None else rank - left


def squeezed_by_mask(node: Node, x: Expr, mask: Expr, rank: int) -> Expr:
    """The tensor without the axes of a mask; ``rank``: the number of axes that are left."""
    if rank < 1:
        return relay.reshape(x, [])
    one = const(1, "int64")
    kept = relay.subtract(one, mask)
    position = relay.subtract(relay.cumsum(kept, axis=0), one)
    row = const(np.arange(rank, dtype=np.int64)[:, None])
    is_here = relay.logical_and(relay.equal(relay.expand_dims(position, 0), row), relay.equal(kept, one))
    sizes = relay.sum(relay.where(is_here, relay.shape_of(x, dtype="int64"), const(0, "int64")), axis=1)
    return relay.reshape(x, sizes, allowzero=True)


def along_axis(node: Node, axis: Expr, rank: int, make: Callable[[Node, int], Expr]) -> Expr:
    """A value made along one axis, whose number may be known at run time only: then one of the values of all axes.

    The values must have one type.  An axis out of range is an error, at import or at run time.
    """
    known = node.constant(axis)
    if known is not None:
        return make(node, node.axis(int(known.reshape(-1)[0]), rank))
    counted = relay.add(relay.reshape(as_int64(node, axis), []), const(rank, "int64"))
    chosen = node.bind(relay.take(numbers([*range(rank), *range(rank)]), counted, axis=0, mode="fast"))

    def among(inner: Node, k: int) -> Expr:
        if k == rank - 1:
            return make(inner, k)
        here = relay.equal(chosen, const(k, "int64"))
        return inner.choose(here, lambda branch: make(branch, k), lambda branch: among(branch, k + 1))

    return among(node, 0)
