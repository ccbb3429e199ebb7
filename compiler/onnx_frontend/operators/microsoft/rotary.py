"""Rotary embeddings: pairs of numbers of a head, rotated by the angle of their position (Su and others, arXiv:2104.09864)."""

from __future__ import annotations

from collections.abc import Sequence

from .....shape_funcs.symbolic.int_operations import INT64_MAX
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import MICROSOFT, onnx_operator
from ..indexing import from_the_front
from ..vectors import as_int64, extent


@onnx_operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node: Node, x: Expr, positions: Expr, cos: Expr, sin: Expr) -> Expr:
    """Of data by head, ``[batch, heads, positions, size]``, or ``[batch, positions, heads * size]``."""
    if node.attr("is_packed_batching", 0):
        raise node.error("rows of different lengths in one, is_packed_batching, are not converted", "give one row for each text")
    if node.attr("scale", 1.0) != 1.0:
        raise node.error(f"the attribute scale is {node.attr('scale')}", "only 1 has a meaning that runtimes share")
    rank = node.rank(x)
    if rank not in (3, 4):
        raise node.error(f"the data have rank {rank}", "the ranks are 3 and 4")
    split = x
    if rank == 3:
        split = node.bind(relay.transpose(node.bind(relay.reshape(x, [0, 0, *_heads(node, x, cos)])), [0, 2, 1, 3]))
    at = position_numbers(node, positions, extent(split, 2))
    result = rotated(node, split, at, (cos, sin), interleaved=bool(node.attr("interleaved", 0)))
    return relay.reshape(relay.transpose(result, [0, 2, 1, 3]), [0, 0, -3]) if rank == 3 else result


def _heads(node: Node, x: Expr, cos: Expr) -> Sequence[int]:
    """The number and the size of heads in rows of data."""
    width, angles, heads = node.size(x, 2), node.size(cos, 1), node.attr("num_heads", 0)
    if node.attr("rotary_embedding_dim", 0) and not heads:
        raise node.error("the attribute num_heads is missing", "a part of each head, rotary_embedding_dim, is rotated")
    if width is None or not (heads or angles):
        raise node.error("the sizes of the last axes must be known at import")
    size = width // heads if heads else 2 * (angles or 1)
    if width % size:
        raise node.error(f"rows of {width} numbers have no heads of {size}")
    return width // size, size


def position_numbers(node: Node, positions: Expr, count: Expr) -> Expr:
    """The positions as ``[batch or 1, count]`` of int64; a single number is the first of positions in order."""
    positions = as_int64(node, positions)
    if node.rank(positions) == 2:
        return positions
    ordered = relay.arange(const(0, "int64"), count, const(1, "int64"), dtype="int64")
    return relay.expand_dims(relay.add(ordered, relay.reshape(positions, [1])), 0)


def rotated(node: Node, x: Expr, positions: Expr, angles: tuple[Expr, Expr], *, interleaved: bool) -> Expr:
    """The data ``[batch, heads, positions, size]`` with the first numbers of each head rotated, two for each angle.

    ``positions``: ``[batch or 1, positions]``.  ``angles``: cosines and sines, ``[positions, angles]``.  A pair is two numbers
    side by side if ``interleaved``, else numbers of the two halves.  Raises ModelError where heads have fewer pairs than angles.
    """
    count, size = node.size(angles[0], 1), node.size(x, 3)
    if count is None or size is None or not 0 < 2 * count <= size:
        raise node.error(f"heads of {size} numbers have no {count} pairs to rotate", "cos_cache has a column for each pair")
    tables = (relay.take(table, from_the_front(node, positions, table, 0), axis=0, mode="fast") for table in angles)
    cos, sin = (node.bind(relay.expand_dims(node.bind(table), 1)) for table in tables)
    begins, step = ((0, 1), 2) if interleaved else ((0, count), 1)
    first, second = (
        node.bind(relay.strided_slice(x, [begin], [2 * count if interleaved else begin + count], [step], [3])) for begin in begins
    )
    real = relay.subtract(relay.multiply(first, cos), relay.multiply(second, sin))
    imaginary = relay.add(relay.multiply(second, cos), relay.multiply(first, sin))
    joined = (
        relay.reshape(relay.stack([real, imaginary], 4), [0, 0, 0, -3])
        if interleaved
        else relay.concatenate([real, imaginary], 3)
    )
    if size == 2 * count:
        return node.bind(joined)
    rest = relay.strided_slice(x, [2 * count], [INT64_MAX], [1], [3])
    return node.bind(relay.concatenate([node.bind(joined), rest], 3))
