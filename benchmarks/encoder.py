"""A text encoder as an ONNX model, for benchmarks: the encoder of BERT (Devlin et al., 2018), smaller, with random weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx
from onnx_graph import Graph


@dataclass(frozen=True)
class Size:
    """The sizes of an encoder; ``batch``: texts of a call."""

    layers: int
    features: int
    heads: int
    inner: int
    vocabulary: int
    batch: int = 1


SMALL, BASE = Size(4, 256, 4, 1024, 1000), Size(12, 768, 12, 3072, 30522)
HEADS, VOCABULARY = SMALL.heads, SMALL.vocabulary
LONGEST = 512


def _linear(g: Graph, x: str, inputs: int, outputs: int) -> str:
    return g.node("Add", g.node("MatMul", x, g.parameters(inputs, outputs)), g.parameters(outputs))


def _norm(g: Graph, x: str, features: int) -> str:
    scale, shift = g.weight(np.ones(features, np.float32)), g.weight(np.zeros(features, np.float32))
    return g.node("LayerNormalization", x, scale, shift, axis=-1)


def _heads(g: Graph, x: str, size: Size, order: list[int]) -> str:
    shape = g.weight(np.array([size.batch, -1, size.heads, size.features // size.heads], np.int64))
    return g.node("Transpose", g.node("Reshape", _linear(g, x, size.features, size.features), shape), perm=order)


def _layer(g: Graph, x: str, size: Size) -> str:
    query, keys, values = (_heads(g, x, size, order) for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scale = g.weight(np.float32(1 / math.sqrt(size.features // size.heads)))
    attention_weights = g.node("Softmax", g.node("Mul", g.node("MatMul", query, keys), scale), axis=-1)
    mixed = g.node("Transpose", g.node("MatMul", attention_weights, values), perm=[0, 2, 1, 3])
    joined = g.node("Reshape", mixed, g.weight(np.array([size.batch, -1, size.features], np.int64)))
    x = _norm(g, g.node("Add", x, _linear(g, joined, size.features, size.features)), size.features)
    inner = g.node("Gelu", _linear(g, x, size.features, size.inner))
    return _norm(g, g.node("Add", x, _linear(g, inner, size.inner, size.features)), size.features)


def products_gflop(words: int, size: Size = SMALL) -> float:
    """The multiplications and additions of all matrix products over a sequence, in 10^9."""
    weights = words * (4 * size.features**2 + 2 * size.features * size.inner)
    return 2e-9 * size.layers * (weights + 2 * words**2 * size.features)


def encoder(size: Size = SMALL) -> bytes:
    """Embeddings of words and positions, then the layers."""
    g = Graph()
    words = g.node("Gather", g.parameters(size.vocabulary, size.features), "x")
    zero, one = g.weight(np.array([0], np.int64)), g.weight(np.array([1], np.int64))
    count = g.node("Slice", g.node("Shape", "x"), one, g.weight(np.array([2], np.int64)))
    positions = g.node("Slice", g.parameters(LONGEST, size.features), zero, count, zero)
    x = _norm(g, g.node("Add", words, positions), size.features)
    for _ in range(size.layers):
        x = _layer(g, x, size)
    return g.model(onnx.TensorProto.INT64, (size.batch, "words"), x)
