"""A text encoder as an ONNX model, for benchmarks: the encoder of BERT (Devlin et al., 2018), smaller, with random weights."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx_graph import Graph

LAYERS, FEATURES, HEADS, INNER, VOCABULARY, LONGEST = 4, 256, 4, 1024, 1000, 512


def _linear(g: Graph, x: str, inputs: int, outputs: int) -> str:
    return g.node("Add", g.node("MatMul", x, g.parameters(inputs, outputs)), g.parameters(outputs))


def _norm(g: Graph, x: str) -> str:
    scale, shift = g.weight(np.ones(FEATURES, np.float32)), g.weight(np.zeros(FEATURES, np.float32))
    return g.node("LayerNormalization", x, scale, shift, axis=-1)


def _heads(g: Graph, x: str, order: list[int]) -> str:
    shape = g.weight(np.array([1, -1, HEADS, FEATURES // HEADS], np.int64))
    return g.node("Transpose", g.node("Reshape", _linear(g, x, FEATURES, FEATURES), shape), perm=order)


def _layer(g: Graph, x: str) -> str:
    query, keys, values = _heads(g, x, [0, 2, 1, 3]), _heads(g, x, [0, 2, 3, 1]), _heads(g, x, [0, 2, 1, 3])
    scale = g.weight(np.float32(1 / math.sqrt(FEATURES // HEADS)))
    shares = g.node("Softmax", g.node("Mul", g.node("MatMul", query, keys), scale), axis=-1)
    mixed = g.node("Transpose", g.node("MatMul", shares, values), perm=[0, 2, 1, 3])
    joined = g.node("Reshape", mixed, g.weight(np.array([1, -1, FEATURES], np.int64)))
    x = _norm(g, g.node("Add", x, _linear(g, joined, FEATURES, FEATURES)))
    inner = g.node("Gelu", _linear(g, x, FEATURES, INNER))
    return _norm(g, g.node("Add", x, _linear(g, inner, INNER, FEATURES)))


def products_gflop(words: int) -> float:
    """The multiplications and additions of all matrix products over a sequence, in 10^9."""
    weights = words * (4 * FEATURES**2 + 2 * FEATURES * INNER)
    return 2e-9 * LAYERS * (weights + 2 * words**2 * FEATURES)


def encoder() -> bytes:
    """Embeddings of words and positions, then the layers."""
    g = Graph()
    words = g.node("Gather", g.parameters(VOCABULARY, FEATURES), "x")
    zero, one = g.weight(np.array([0], np.int64)), g.weight(np.array([1], np.int64))
    count = g.node("Slice", g.node("Shape", "x"), one, g.weight(np.array([2], np.int64)))
    positions = g.node("Slice", g.parameters(LONGEST, FEATURES), zero, count, zero)
    x = _norm(g, g.node("Add", words, positions))
    for _ in range(LAYERS):
        x = _layer(g, x)
    return g.model(onnx.TensorProto.INT64, (1, "words"), x)
