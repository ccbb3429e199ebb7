"""Positions of the largest elements of windows."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ..elementwise import number
from ..vectors import extent, numbers, sizes_or_expr
from ..windows import Window


def largest_positions(node: Node, x: Expr, values: Expr, window: Window, fill: float) -> Expr:
    """The index of the largest element of each window in the whole data.

    ``values``: the result of the pool; ``fill``: the value of elements outside of the data.
    """
    if window.auto:
        raise node.error("with positions, auto_pad needs sizes that are known at import")
    spatial = len(window.kernel)
    sizes = [node.bind(extent(x, 2 + a)) for a in range(spatial)]
    at = [node.bind(_elements(window, a, extent(values, 2 + a))) for a in range(spatial)]
    elements, order = int(np.prod(window.kernel)), [*range(0, 2 * spatial, 2), *range(1, 2 * spatial, 2)]
    lead = relay.shape_of(values, dtype="int64")
    taken = relay.transpose(_windows(node, x, at, sizes, fill), [0, 1, *(2 + k for k in order)])
    taken = _reshaped(node, taken, relay.concatenate([lead, numbers([elements])], 0))
    best = node.bind(relay.cast(relay.argmax(taken, axis=[2 + spatial]), "int64"))
    flat = relay.transpose(_indices(at, sizes, bool(node.attr("storage_order", 0))), order)
    windows = relay.strided_slice(lead, [2], [2 + spatial])
    flat = _reshaped(node, flat, relay.concatenate([windows, numbers([elements])], 0))
    chosen = relay.equal(relay.expand_dims(best, 2 + spatial), numbers(range(elements)))
    inside = relay.sum(relay.where(chosen, flat, const(0, "int64")), axis=[2 + spatial])
    return relay.reshape_like(relay.add(inside, _first_of_image(node, x, sizes)), values)


def _reshaped(node: Node, x: Expr, shape: Expr) -> Expr:
    return relay.reshape(x, sizes_or_expr(node, node.bind(shape)), allowzero=True)


def _elements(window: Window, a: int, count: Expr) -> Expr:
    """The elements of each window along an axis, ``[windows, elements]``; those of the padding are outside of the data."""
    start = relay.arange(const(0, "int64"), count, const(1, "int64"), dtype="int64")
    start = relay.multiply(start, const(window.strides[a], "int64"))
    inside = numbers([k * window.dilations[a] - window.begin[a] for k in range(window.kernel[a])])
    return relay.add(relay.expand_dims(start, 1), relay.expand_dims(inside, 0))


def _windows(node: Node, x: Expr, at: list[Expr], sizes: list[Expr], fill: float) -> Expr:
    """The elements of all windows: each spatial axis becomes two, the windows and the elements of a window."""
    zero, spatial = const(0, "int64"), len(at)
    for a, elements in enumerate(at):
        outside = relay.logical_or(relay.less(elements, zero), relay.greater_equal(elements, sizes[a]))
        for _ in range(spatial - 1 - a):
            outside = relay.expand_dims(outside, node.rank(outside))
        taken = relay.take(x, elements, axis=2 + 2 * a)
        x = node.bind(relay.where(outside, number(fill, node.dtype(x)), taken))
    return x


def _indices(at: list[Expr], sizes: list[Expr], by_column: bool) -> Expr:
    """The index in its image of each element of each window, axes as of ``_windows``."""
    spatial, one, total = len(at), const(1, "int64"), const(0, "int64")
    for a, elements in enumerate(at):
        inner = sizes[:a] if by_column else sizes[a + 1 :]
        part = relay.multiply(elements, reduce(relay.multiply, inner, one))
        if a < spatial - 1:
            part = relay.expand_dims(part, 2, 2 * (spatial - 1 - a))
        total = relay.add(total, part)
    return total


def _first_of_image(node: Node, x: Expr, sizes: list[Expr]) -> Expr:
    """The index of the first element of each image, ``[batch, channels, 1, ...]``."""
    one, spatial = const(1, "int64"), len(sizes)
    image = relay.arange(const(0, "int64"), relay.multiply(extent(x, 0), extent(x, 1)), one, dtype="int64")
    lead = relay.strided_slice(relay.shape_of(x, dtype="int64"), [0], [2])
    image = _reshaped(node, image, relay.concatenate([lead, numbers([1] * spatial)], 0))
    return relay.multiply(image, reduce(relay.multiply, sizes, one))
