"""Support vector machines: sums of kernels of the data with each support vector, times coefficients."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..elementwise import number
from .coupling import coupled
from .scores import MACHINE_LEARNING, class_labels, real, transformed

#: The least distance of a chance of a pair of classes from 0 and 1.
_LEAST = 1e-7


def _rows(node: Node, x: Expr) -> Expr:
    return node.bind(real(node, relay.expand_dims(x, 0) if node.rank(x) == 1 else x))


def _affine(node: Node, products: Expr) -> Expr:
    """``gamma * product + coef0``."""
    gamma, coef0, _ = _parameters(node)
    dtype = node.dtype(products)
    return relay.add(relay.multiply(products, number(gamma, dtype)), number(coef0, dtype))


def _parameters(node: Node) -> tuple[float, float, int]:
    given = node.attr("kernel_params") or [0.0, 0.0, 0.0]
    if len(given) != 3:
        raise node.error(f"kernel_params has {len(given)} numbers", "gamma, coef0 and degree")
    return float(given[0]), float(given[1]), int(given[2])


def _radial(node: Node, x: Expr, vectors: np.ndarray) -> Expr:
    dtype = node.dtype(x)
    apart = node.bind(relay.subtract(relay.expand_dims(x, 1), const(vectors)))
    squares = relay.sum(relay.multiply(apart, apart), axis=[2])
    return relay.exp(relay.multiply(squares, number(-_parameters(node)[0], dtype)))


#: The functions of rows of the data and of the support vectors by name.
_KERNELS: dict[str, Callable[[Node, Expr, np.ndarray], Expr]] = {
    "LINEAR": lambda node, x, vectors: relay.nn.dense(x, const(vectors)),
    "POLY": lambda node, x, vectors: relay.power(
        _affine(node, node.bind(relay.nn.dense(x, const(vectors)))), number(_parameters(node)[2], node.dtype(x))
    ),
    "RBF": _radial,
    "SIGMOID": lambda node, x, vectors: relay.tanh(_affine(node, node.bind(relay.nn.dense(x, const(vectors))))),
}


def _sums(node: Node, x: Expr, count: int, coefficients: np.ndarray, rho: np.ndarray) -> Expr:
    """The sums of the kernels with ``count`` support vectors for each row of coefficients."""
    dtype = node.dtype(x)
    given = np.array(node.required("support_vectors"), dtype)
    if given.size % count or node.size(x, 1) not in (None, given.size // count):
        help = f"rows of the data have {node.size(x, 1)} numbers"
        raise node.error(f"{given.size} numbers are no {count} support vectors", help)
    kernels = node.bind(node.choice("kernel_type", _KERNELS, "LINEAR")(node, x, given.reshape(count, -1)))
    return node.bind(relay.add(relay.nn.dense(kernels, const(coefficients.astype(dtype))), const(rho.astype(dtype))))


def _linear(node: Node, x: Expr, rows: int) -> Expr:
    """The products with rows of coefficients, without support vectors."""
    dtype = node.dtype(x)
    matrix = np.array(node.required("coefficients"), dtype).reshape(rows, -1)
    return node.bind(relay.add(relay.nn.dense(x, const(matrix)), number(node.required("rho")[0], dtype)))


@onnx_operator("SVMRegressor", domain=MACHINE_LEARNING)
def support_vector_regressor(node: Node, x: Expr) -> Expr:
    x, count = _rows(node, x), int(node.attr("n_supports", 0))
    if count:
        coefficients = np.array(node.required("coefficients")).reshape(1, -1)
        found = _sums(node, x, count, coefficients, np.array(node.required("rho"))[:1])
    else:
        found = _linear(node, x, 1)
    if node.attr("one_class", 0):
        dtype = node.dtype(x)
        found = relay.where(relay.greater(found, number(0, dtype)), number(1, dtype), number(-1, dtype))
    return transformed(node, node.bind(found))


@onnx_operator("SVMClassifier", domain=MACHINE_LEARNING)
def support_vector_classifier(node: Node, x: Expr) -> list[Expr]:
    """Labels that are integers."""
    x, counts = _rows(node, x), [int(n) for n in node.attr("vectors_per_class") or []]
    classes = len(node.attr("classlabels_ints") or node.attr("classlabels_strings") or [0])
    labels = class_labels(node, "classlabels_ints", classes)
    if not sum(counts):
        scores = _linear(node, x, classes)
        return [_labelled(labels, scores), transformed(node, scores)]
    if len(counts) != classes:
        raise node.error(f"vectors_per_class has {len(counts)} numbers for {classes} classes")
    pairs = list(itertools.combinations(range(classes), 2))
    scores = _sums(node, x, sum(counts), _by_pair(node, counts, pairs), np.array(node.required("rho")))
    chosen = _labelled(labels, _votes(node, scores, pairs, classes))
    if node.attr("prob_a"):
        return [chosen, transformed(node, _probabilities(node, scores, len(pairs), classes))]
    if classes != 2:
        return [chosen, transformed(node, scores)]
    if node.attr("post_transform", "NONE") not in ("NONE", "LOGISTIC"):
        raise node.error(f"scores of two classes are not transformed by {node.attr('post_transform')}", "NONE or LOGISTIC")
    return [chosen, transformed(node, node.bind(relay.concatenate([node.bind(relay.negative(scores)), scores], 1)))]


def _by_pair(node: Node, counts: list[int], pairs: list[tuple[int, int]]) -> np.ndarray:
    """The coefficients of all support vectors for each pair of classes; those of other classes are 0."""
    total, begins = sum(counts), np.cumsum([0, *counts])
    given = np.array(node.required("coefficients"))
    if given.size != (len(counts) - 1) * total or len(node.required("rho")) != len(pairs):
        raise node.error(
            f"there are {given.size} coefficients and {len(node.required('rho'))} numbers rho",
            f"{len(counts)} classes with {total} support vectors have {(len(counts) - 1) * total} and {len(pairs)}",
        )
    rows, out = given.reshape(-1, total), np.zeros((len(pairs), total))
    for k, (i, j) in enumerate(pairs):
        for own, row in ((i, j - 1), (j, i)):
            part = slice(begins[own], begins[own + 1])
            out[k, part] = rows[row, part]
    return out


def _votes(node: Node, scores: Expr, pairs: list[tuple[int, int]], classes: int) -> Expr:
    """The number of pairs that each class wins: the first with a score above 0, else the second."""
    dtype = node.dtype(scores)
    first, second = (np.array([[pair[k] == c for pair in pairs] for c in range(classes)], dtype) for k in (0, 1))
    wins = node.bind(relay.cast(relay.greater(scores, number(0, dtype)), dtype))
    return node.bind(relay.add(relay.nn.dense(wins, const(first - second)), const(second.sum(1))))


def _labelled(labels: np.ndarray, scores: Expr) -> Expr:
    chosen = relay.argmax(scores, axis=[1])
    return relay.take(const(labels), chosen, axis=0, mode="fast")


def _probabilities(node: Node, scores: Expr, pairs: int, classes: int) -> Expr:
    """The probabilities of classes: those of pairs are logistic functions of their scores (Platt, 1999)."""
    dtype = node.dtype(scores)
    a, b = (np.array(node.required(name), dtype) for name in ("prob_a", "prob_b"))
    if (len(a), len(b)) != (pairs, pairs):
        raise node.error(f"prob_a and prob_b have {len(a)} and {len(b)} numbers", f"{classes} classes have {pairs} pairs")
    chances = relay.sigmoid(relay.negative(relay.add(relay.multiply(scores, const(a)), const(b))))
    return coupled(node, node.bind(relay.clip(chances, _LEAST, 1 - _LEAST)), classes)
