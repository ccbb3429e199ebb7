"""Vectors of sizes: their lengths decide ranks, their elements decide sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....shape_funcs.symbolic.dim import MAX_RANK
from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node


def numbers(values: Sequence[int]) -> Expr:
    """A vector of int64."""
    return const(np.array(list(values), np.int64))


def as_int64(node: Node, x: Expr) -> Expr:
    """The elements as int64."""
    return x if node.dtype(x) == "int64" else relay.cast(x, "int64")


def sizes_or_expr(node: Node, x: Expr) -> Any:
    """The elements of a vector of sizes as a list if the model determines them, else the vector as int64."""
    known = node.constant(x)
    return as_int64(node, x) if known is None else [int(v) for v in known.reshape(-1)]


def measured(node: Node, vector: Expr, what: str, declared: int | None, most: int = MAX_RANK) -> tuple[Expr, int]:
    """A vector whose length decides a rank (or another number, at most ``most``), and its length.

    ``declared``: the length that follows from the declared rank of a result; it is checked at run time if the vector's type does
    not say the length.  Raises ModelError if neither does, and for a longer vector.
    """
    sizes = node.sizes(vector)
    if not sizes:  # the standard's own bodies give one number so
        return node.bind(relay.reshape(vector, [1])), 1
    if len(sizes) == 1 and sizes[0] is not None:
        if sizes[0] > most:
            raise node.error(f"{what} has {sizes[0]} elements; at most {most} are possible")
        return vector, sizes[0]
    if len(sizes) > 1 or declared is None or declared < 0:
        name = repr(node.outputs[0]) if node.outputs else "the result"
        help = f"declare the shape of {name} in the model: sizes may be names, their number is the rank"
        raise node.unknown_rank(f"the length of {what} must be known at import", "it", None if len(sizes) > 1 else help)
    return node.bind(relay.reshape(vector, [declared])), declared


def result_rank(node: Node, change: int = 0) -> int | None:
    """The declared rank of the result, less ``change``; None if no rank is declared."""
    return None if node.declared_rank is None else node.declared_rank - change


def padded_in_front(node: Node, vector: Expr, count: int, fill: int) -> Expr:
    """The vector with numbers before it, of ``count`` elements; a longer one loses its first elements."""
    rest = numbers([fill] * count)
    return node.bind(relay.reshape(relay.strided_slice(relay.concatenate([rest, vector], 0), [-count], [INT64_MAX]), [count]))


def extent(x: Expr, axis: int) -> Expr:
    """The size of an axis as an int64 scalar."""
    return relay.take(relay.shape_of(x, dtype="int64"), const(axis, "int64"), axis=0)
