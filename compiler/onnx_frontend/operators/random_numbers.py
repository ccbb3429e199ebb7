"""Random numbers: those of a node are the same in each run."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr, TupleGetItem
from ..node import Node
from ..operator_table import onnx_operator
from ..tensors import dtype_name
from .elementwise import cast_to

#: The dtypes in which numbers are drawn; numbers of another dtype are drawn in the first.
_DRAWN = ("float32", "float64")


def _key(node: Node) -> Any:
    """The key of the draws: by the seed, without a seed by the name of the result."""
    if node.has("seed"):
        return relay.random.threefry_key(int(np.float32(node.attr("seed")).view(np.uint32)))
    return relay.random.threefry_key(zlib.crc32(node.outputs[0].encode()))


def _drawn(node: Node, shape: Sequence[int], dtype: str) -> Expr:
    within = dtype if dtype in _DRAWN else _DRAWN[0]
    if node.op_type.startswith("RandomNormal"):
        draw, bounds = relay.random.normal, (node.attr("mean", 0.0), node.attr("scale", 1.0))
    else:
        draw, bounds = relay.random.uniform, (node.attr("low", 0.0), node.attr("high", 1.0))
    found = draw(_key(node), tuple(shape), within, *(const(bound, within) for bound in bounds))
    return cast_to(node, TupleGetItem(node.bind(found), 1), dtype)


@onnx_operator("RandomNormal", "RandomUniform", since=1)
def random_numbers(node: Node) -> Expr:
    """Every run draws the same numbers: those of the seed, without one those of the result's name."""
    return _drawn(node, node.required("shape"), dtype_name(node.attr("dtype", 1), "the result"))


@onnx_operator("RandomNormalLike", "RandomUniformLike", since=1)
def random_numbers_like(node: Node, x: Expr) -> Expr:
    """As `RandomNormal`; the sizes are known before the run."""
    dtype = dtype_name(node.attr("dtype"), "the result") if node.has("dtype") else node.dtype(x)
    return _drawn(node, _known_sizes(node, x), dtype)


def _known_sizes(node: Node, x: Expr) -> list[int]:
    """The sizes of an input.  Raises ModelError if one is known only at run time."""
    sizes = node.sizes(x)
    if any(size is None for size in sizes):
        help = "give the shape of the model's inputs: from_onnx(model, shape=...)"
        raise node.error("the sizes of its input must be known", help)
    return [size for size in sizes if size is not None]


@onnx_operator("Bernoulli", since=15)
def bernoulli(node: Node, x: Expr) -> Expr:
    """As `RandomNormalLike`: 1 with the probability of the element, else 0."""
    dtype = dtype_name(node.attr("dtype"), "the result") if node.has("dtype") else node.dtype(x)
    within = node.dtype(x) if node.dtype(x) in _DRAWN else _DRAWN[0]
    return cast_to(node, relay.less(_drawn(node, _known_sizes(node, x), within), cast_to(node, x, within)), dtype)


@onnx_operator("Multinomial", since=7)
def multinomial(node: Node, x: Expr) -> Expr:
    """As `RandomNormal`."""
    weights = relay.exp(relay.cast(x, "float32"))
    found = node.bind(relay.random.multinomial(_key(node), weights, node.attr("sample_size", 1)))
    return cast_to(node, TupleGetItem(found, 1), dtype_name(node.attr("dtype", 6), "the result"))
