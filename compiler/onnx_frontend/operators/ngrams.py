"""Counts of n-grams: sequences of numbers with equal gaps between them."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise

import numpy as np

from ...builder.build import const
from ...builder.operator_functions import operators as relay
from ...ir.expr import Expr
from ..node import Node
from ..operator_table import onnx_operator
from ..tensors import TEXTS_HELP
from .elementwise import number


@onnx_operator("TfIdfVectorizer", since=9)
def count_ngrams(node: Node, x: Expr) -> Expr:
    """Of integers, as vectors or rows of a matrix; of texts it is refused."""
    if node.has("pool_strings") or not node.has("pool_int64s"):
        raise node.error("it counts texts; tensors here have no texts", TEXTS_HELP)
    if node.rank(x) not in (1, 2):
        raise node.error(f"it counts in vectors and matrices, not in a tensor of rank {node.rank(x)}")
    rows = x if node.rank(x) == 2 else relay.expand_dims(x, 0)
    counts = _weighted(node, _positions(node, rows))
    return counts if node.rank(x) == 2 else relay.squeeze(counts, [0])


def _positions(node: Node, rows: Expr) -> Expr:
    """The number of times that each n-gram of the pool occurs, at its place in the result, ``[rows, places]`` of float32."""
    pool = np.array(node.attr("pool_int64s"), np.int64)
    starts, indexes = node.required("ngram_counts"), np.array(node.required("ngram_indexes"), np.int64)
    least, most, gaps = (int(node.required(n)) for n in ("min_gram_length", "max_gram_length", "max_skip_count"))
    bounds = [*starts, len(pool)]
    if any(b < a or (b - a) % n for n, (a, b) in enumerate(pairwise(bounds), 1)) or bounds[0] or indexes.min(initial=0) < 0:
        raise node.error(f"ngram_counts {starts} do not divide a pool of {len(pool)} elements into n-grams")
    grams = [pool[a:b].reshape(-1, n) for n, (a, b) in enumerate(pairwise(bounds), 1)]
    if sum(map(len, grams)) != len(indexes):
        raise node.error(f"ngram_indexes has {len(indexes)} elements for {sum(map(len, grams))} n-grams")
    positions = np.zeros((len(indexes), int(indexes.max(initial=-1)) + 1), np.float32)
    positions[np.arange(len(indexes)), indexes] = 1
    sizes = np.repeat(np.arange(1, len(grams) + 1), list(map(len, grams)))
    counted = positions[(sizes >= least) & (sizes <= most)]
    counts = [_counts(node, rows, g, 0 if n == 1 else gaps) for n, g in enumerate(grams, 1) if len(g) and least <= n <= most]
    if not counts:
        raise node.error(f"the pool has no n-grams of {least} to {most} elements")
    return relay.nn.matmul(relay.concatenate(counts, 1) if len(counts) > 1 else counts[0], const(counted))


def _counts(node: Node, rows: Expr, grams: np.ndarray, gaps: int) -> Expr:
    """The number of times that each n-gram occurs with each gap up to ``gaps``, ``[rows, n-grams]`` of float32."""
    size, dtype, terms = grams.shape[1], node.dtype(rows), []
    for gap in range(gaps + 1):
        span = (size - 1) * (gap + 1)
        equal = []
        for k in range(size):
            begin, rest = k * (gap + 1), span - k * (gap + 1)
            part = relay.strided_slice(rows, [begin], [-rest if rest else np.iinfo(np.int64).max], [1], [1])
            equal.append(relay.equal(relay.expand_dims(part, 2), const(grams[:, k].astype(dtype))))
        terms.append(relay.sum(relay.cast(node.bind(reduce(relay.logical_and, equal)), "float32"), axis=1))
    return reduce(relay.add, terms)


def _weighted(node: Node, counts: Expr) -> Expr:
    """The counts, or whether they are not 0, times the weights."""
    mode, weights = node.required("mode"), node.attr("weights")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise node.error(f"there is no mode {mode!r}")
    if mode == "IDF":
        counts = relay.cast(relay.greater(counts, number(0, "float32")), "float32")
    if mode == "TF" or not weights:
        return counts
    if node.size(counts, 1) != len(weights):
        raise node.error(f"it has {len(weights)} weights for {node.size(counts, 1)} places")
    return relay.multiply(counts, const(np.array(weights, np.float32)))
