"""Probabilities of classes from those of pairs of classes.

Wu, Lin and Weng 2004, "Probability Estimates for Multi-class Classification by Pairwise Coupling", the second of their methods:
the probabilities p of classes minimise p Q p, with Q by the chances of pairs, and are found by iteration.  The iteration ends
where that of libsvm and of onnxruntime does, so that results are theirs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...loops import Round, loop
from ...node import Node
from ..elementwise import number

#: The most rounds, and the error of the gradient, times the number of classes, that ends them.
_ROUNDS, _ERROR = 100, 0.005


def coupled(node: Node, chances: Expr, classes: int) -> Expr:
    """The probabilities ``[rows, classes]``, by the chances ``[rows, pairs]`` that a row is of the first class of a pair."""
    matrix, dtype = node.bind(_matrix(node, chances, classes)), node.dtype(chances)
    start = const(np.full((1, classes), 1 / classes, dtype))
    first = node.bind(relay.broadcast_to_like(start, _column(relay.sum(matrix, axis=[2]), slice(0, classes))))

    def body(inner: Node, index: Expr, runs: Expr, states: Sequence[Expr]) -> Round:
        products, total, is_open = _gradient(inner, matrix, states[0], classes)
        better = _round(inner, matrix, states[0], products, total, classes)
        made = inner.bind(relay.where(is_open, better, states[0]))
        return Round(relay.any(_gradient(inner, matrix, made, classes)[2]), [made])

    return loop(node, const(_ROUNDS, "int64"), None, [first], body)[0][0]


def _matrix(node: Node, chances: Expr, classes: int) -> Expr:
    """Q, ``[rows, classes, classes]``: sums of squares of the chances of others on its diagonal, products off it."""
    dtype = node.dtype(chances)
    pairs = list(itertools.combinations(range(classes), 2))
    others = node.bind(relay.subtract(number(1, dtype), chances))
    off, own = np.zeros((classes * classes, len(pairs)), dtype), np.zeros((2, classes * classes, len(pairs)), dtype)
    for k, (i, j) in enumerate(pairs):
        off[[i * classes + j, j * classes + i], k] = -1
        own[0, i * classes + i, k] = own[1, j * classes + j, k] = 1
    products = relay.nn.dense(node.bind(relay.multiply(chances, others)), const(off))
    squares = [relay.nn.dense(node.bind(relay.multiply(x, x)), const(m)) for x, m in zip((others, chances), own, strict=True)]
    total = node.bind(relay.add(products, node.bind(relay.add(*map(node.bind, squares)))))
    return relay.reshape(total, [-1, classes, classes])


def _column(x: Expr, k: slice) -> Expr:
    """Columns of the last axis, which stays."""
    return relay.strided_slice(x, [k.start], [k.stop], axes=[-1])


def _gradient(node: Node, matrix: Expr, p: Expr, classes: int) -> tuple[Expr, Expr, Expr]:
    """Q p, p Q p, and whether they differ by more than the error."""
    products = node.bind(relay.sum(relay.multiply(matrix, relay.expand_dims(p, 1)), axis=[2]))
    total = node.bind(relay.sum(relay.multiply(p, products), axis=[1], keepdims=True))
    error = relay.max(relay.abs(relay.subtract(products, total)), axis=[1], keepdims=True)
    return products, total, node.bind(relay.greater_equal(error, number(_ERROR / classes, node.dtype(p))))


def _round(node: Node, matrix: Expr, p: Expr, products: Expr, total: Expr, classes: int) -> Expr:
    """Each probability in turn is changed so that its derivative is 0, and all are divided by their sum."""
    dtype = node.dtype(p)
    for k in range(classes):
        row = node.bind(relay.reshape(relay.strided_slice(matrix, [k], [k + 1], axes=[1]), [0, classes]))
        own, product = (node.bind(_column(x, slice(k, k + 1))) for x in (row, products))
        change = node.bind(relay.divide(relay.subtract(total, product), own))
        scale = node.bind(relay.add(change, number(1, dtype)))
        grown = relay.add(relay.multiply(change, own), relay.multiply(product, number(2, dtype)))
        total = node.bind(relay.divide(relay.divide(relay.add(total, relay.multiply(change, grown)), scale), scale))
        products = node.bind(relay.divide(relay.add(products, relay.multiply(change, row)), scale))
        only = const(np.eye(classes, dtype=dtype)[k : k + 1])
        p = node.bind(relay.divide(relay.add(p, relay.multiply(change, only)), scale))
    return p
