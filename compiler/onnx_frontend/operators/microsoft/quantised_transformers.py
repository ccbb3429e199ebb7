"""Layers of transformers on quantised tensors."""

from __future__ import annotations

from ....ir.expr import Expr
from ...node import Node
from ...operator_table import MICROSOFT, onnx_operator
from ..quantised import SCALE, parameter, real
from .attention import attended_rows
from .quantised import matmul_integer_to_float
from .transformers import embedded


@onnx_operator("QAttention", domain=MICROSOFT)
def quantised_attention(
    node: Node, x: Expr, weights: Expr, bias: Expr, scale_x: Expr, scale_w: Expr, mask: Expr | None, zero_x: Expr | None,
    zero_w: Expr | None, past: Expr | None,
) -> list[Expr]:  # fmt: skip
    """As `Attention`; the first product is of integers, all others are of floats."""
    product = matmul_integer_to_float(node, x, weights, scale_x, scale_w, zero_x, zero_w, bias)
    return attended_rows(node, product, mask, past, None)


@onnx_operator("QEmbedLayerNormalization", domain=MICROSOFT)
def quantised_embed_layer_normalization(
    node: Node, words: Expr, segments: Expr | None, word_table: Expr, position_table: Expr, segment_table: Expr | None,
    scale: Expr, bias: Expr, mask: Expr | None, word_scale: Expr, position_scale: Expr, segment_scale: Expr | None,
    scale_scale: Expr, bias_scale: Expr, word_zero: Expr, position_zero: Expr, segment_zero: Expr | None, scale_zero: Expr,
    bias_zero: Expr,
) -> list[Expr]:  # fmt: skip
    """As `EmbedLayerNormalization`, with tables of 8 bits: the rows that are looked up are dequantised."""
    if segments is not None and (segment_table is None or segment_scale is None):
        raise node.error("it has segments, and no table of them or no scale")

    def dequantised(x: Expr, by: Expr | None, zero: Expr | None) -> Expr:
        x, given = node.bind(x), by
        assert given is not None
        found = parameter(node, x, given, -1, SCALE)
        assert found is not None
        return node.bind(real(x, found, parameter(node, x, zero, -1, "the zero point")))

    tables = (
        (word_table, word_scale, word_zero), (position_table, position_scale, position_zero),
        (segment_table, segment_scale, segment_zero),
    )  # fmt: skip
    norm = dequantised(scale, scale_scale, scale_zero), dequantised(bias, bias_scale, bias_zero)
    return embedded(node, words, segments, None, mask, norm, tables, dequantised)[:2]
