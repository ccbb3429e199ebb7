"""Layers of transformers: activations with a bias, normalisations with a sum before."""

from __future__ import annotations

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
    if positions is None:
        positions = relay.arange(const(0, "int64"), extent(words, 1), const(1, "int64"), dtype="int64")
    total = relay.add(_looked_up(word_table, words), _looked_up(position_table, positions))
    if segments is not None:
        if segment_table is None:
            raise node.error("it has segments and no table of them")
        total = relay.add(total, _looked_up(segment_table, segments))
    total = node.bind(total)
    result = normalised(node, total, scale, bias, [2], node.attr("epsilon", 1e-12))[0]
    kept = relay.zeros_like(words) if mask is None else relay.not_equal(mask, const(0, node.dtype(mask)))
    return [result, relay.sum(relay.cast(kept, "int32"), axis=[1]), total]


def _looked_up(table: Expr, indices: Expr) -> Expr:
    return relay.take(table, indices, axis=0, mode="fast")
