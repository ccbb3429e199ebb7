"""Layers of transformers: activations with a bias, normalisations with a sum before."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import MICROSOFT, STANDARD, onnx_operator
from ..elementwise import gelu_of, number
from ..norms import normalised
from ..vectors import extent


@onnx_operator("Gelu", domain=MICROSOFT)
def gelu(node: Node, x: Expr) -> Expr:
    return gelu_of(node, x, is_tanh=False)


@onnx_operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(node: Node, x: Expr, bias: Expr) -> Expr:
    return gelu_of(node, relay.add(x, bias), is_tanh=False)


@onnx_operator("FastGelu", domain=MICROSOFT)
def fast_gelu(node: Node, x: Expr, bias: Expr | None) -> Expr:
    return gelu_of(node, x if bias is None else relay.add(x, bias), is_tanh=True)


@onnx_operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: Node, x: Expr) -> Expr:
    alpha = number(node.attr("alpha", 1.702), node.dtype(x))
    return relay.multiply(x, relay.sigmoid(relay.multiply(alpha, x)))


def _layer(node: Node, x: Expr, scale: Expr, bias: Expr | None, epsilon: float = 1e-5) -> list[Expr]:
    rank = node.rank(x)
    axes = list(range(node.axis(node.attr("axis", -1), rank), rank))
    return normalised(node, x, scale, bias, axes, node.attr("epsilon", epsilon))


@onnx_operator("LayerNormalization", domain=MICROSOFT)
def layer_normalization(node: Node, x: Expr, scale: Expr, bias: Expr | None) -> list[Expr]:
    """As the standard's operator; also in versions of the standard before 17, as optimisers write."""
    return _layer(node, x, scale, bias)


onnx_operator("LayerNormalization", domain=STANDARD)(layer_normalization)


@onnx_operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(node: Node, x: Expr, scale: Expr) -> list[Expr]:
    """Without a mean; also under the standard's domain, as optimisers write."""
    rank = node.rank(x)
    axes = list(range(node.axis(node.attr("axis", -1), rank), rank))
    result, _, inverse = normalised(node, x, scale, None, axes, node.attr("epsilon", 1e-5), centred=False)
    return [result, inverse]


onnx_operator("SimplifiedLayerNormalization", domain=STANDARD)(simplified_layer_normalization)


@onnx_operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node: Node, x: Expr, skip: Expr, scale: Expr, bias: Expr | None, before: Expr | None) -> list[Expr]:
    """The sum of both inputs and a bias, normalised; the fourth output is the sum."""
    total = _sum(node, x, skip, before)
    return [*normalised(node, total, scale, bias, [node.rank(total) - 1], node.attr("epsilon", 1e-12)), total]


@onnx_operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(node: Node, x: Expr, skip: Expr, scale: Expr, before: Expr | None) -> list[Expr]:
    """As `SkipLayerNormalization`, without a mean."""
    total = _sum(node, x, skip, before)
    last = [node.rank(total) - 1]
    return [*normalised(node, total, scale, None, last, node.attr("epsilon", 1e-12), centred=False), total]


def _sum(node: Node, x: Expr, skip: Expr, bias: Expr | None) -> Expr:
    total = relay.add(x, skip)
    return node.bind(total if bias is None else relay.add(total, bias))


@onnx_operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    node: Node, words: Expr, segments: Expr | None, word_table: Expr, position_table: Expr, segment_table: Expr | None,
    scale: Expr, bias: Expr, mask: Expr | None, positions: Expr | None,
) -> list[Expr]:  # fmt: skip
    """The sum of the embeddings of words, positions and segments, normalised; the number of words in the mask; the sum."""
    tables = (word_table, None, None), (position_table, None, None), (segment_table, None, None)
    return embedded(node, words, segments, positions, mask, (scale, bias), tables, lambda rows, scale, zero: rows)


#: A table of embeddings, its scale and its zero point.
_Table = tuple[Expr | None, Expr | None, Expr | None]


def embedded(
    node: Node, words: Expr, segments: Expr | None, positions: Expr | None, mask: Expr | None, norm: tuple[Expr, Expr],
    tables: tuple[_Table, _Table, _Table], as_floats: Callable[[Expr, Expr | None, Expr | None], Expr],
) -> list[Expr]:  # fmt: skip
    """The sum of rows of the tables of words, positions and segments, normalised; the number of words in the mask; the sum.

    ``as_floats``: rows of a table, by its scale and its zero point.
    """
    if positions is None:
        positions = relay.arange(const(0, "int64"), extent(words, 1), const(1, "int64"), dtype="int64")
    if segments is not None and tables[2][0] is None:
        raise node.error("it has segments and no table of them")
    parts = [
        as_floats(_looked_up(table, indices), scale, zero)
        for indices, (table, scale, zero) in zip((words, positions, segments), tables, strict=True)
        if indices is not None and table is not None
    ]
    total = node.bind(functools.reduce(relay.add, parts))
    result = normalised(node, total, *norm, [2], node.attr("epsilon", 1e-12))[0]
    kept = relay.zeros_like(words) if mask is None else relay.not_equal(mask, const(0, node.dtype(mask)))
    return [result, relay.sum(relay.cast(kept, "int32"), axis=[1]), total]


def _looked_up(table: Expr, indices: Expr) -> Expr:
    return relay.take(table, indices, axis=0, mode="fast")
