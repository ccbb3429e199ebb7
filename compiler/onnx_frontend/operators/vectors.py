"""Vectors of sizes: their lengths decide ranks, their elements decide sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

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


def length(node: Node, vector: Expr, what: str) -> int:
    """The number of elements of a vector, which decides a rank.  Raises ModelError if it is known at run time only."""
    shape = node.sizes(vector)
    if len(shape) > 1 or any(n is None for n in shape):
        raise node.error(f"the length of {what} must be known at import, for the rank of the result depends on it")
    return math.prod(n for n in shape if n is not None)


def extent(x: Expr, axis: int) -> Expr:
    """The size of an axis as an int64 scalar."""
    return relay.take(relay.shape_of(x, dtype="int64"), const(axis, "int64"), axis=0)
