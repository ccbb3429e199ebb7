"""Scores of classes: their transformation, the score of a second class, the labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ..elementwise import number

#: The domain of these operators.
MACHINE_LEARNING = "ai.onnx.ml"


def real(node: Node, x: Expr) -> Expr:
    """Numbers as floats: float64 stays, any other dtype becomes float32."""
    return x if node.dtype(x) in ("float32", "float64") else relay.cast(x, "float32")


def _softmax_of_others(node: Node, x: Expr) -> Expr:
    """The softmax in which scores of 0 stay 0."""
    dtype = node.dtype(x)
    zero = number(0, dtype)
    is_zero = node.bind(relay.equal(x, zero))
    powers = relay.exp(relay.subtract(x, relay.max(x, axis=[-1], keepdims=True)))
    powers = node.bind(relay.where(is_zero, zero, powers))
    sums = node.bind(relay.sum(powers, axis=[-1], keepdims=True))
    return relay.divide(powers, relay.where(relay.equal(sums, zero), number(1, dtype), sums))


#: The transformations of scores by the names of the standard; the inverse of the normal distribution's is not converted.
_TRANSFORMATIONS: dict[str, Callable[[Node, Expr], Expr]] = {
    "NONE": lambda _, x: x,
    "LOGISTIC": lambda _, x: relay.sigmoid(x),
    "SOFTMAX": lambda _, x: relay.nn.softmax(x, axis=-1),
    "SOFTMAX_ZERO": _softmax_of_others,
}


def transformed(node: Node, scores: Expr) -> Expr:
    """The scores after the transformation that the attribute post_transform names."""
    return node.choice("post_transform", _TRANSFORMATIONS, "NONE")(node, scores)


def class_labels(node: Node, name: str, count: int) -> np.ndarray:
    """The labels of classes, int64.  Raises ModelError for texts that are wanted, and for another number of labels."""
    texts = node.attr("classlabels_strings", [])
    if texts and node.outputs[0]:
        raise node.error("labels are texts", "give the model labels that are integers, or leave out the output of labels")
    labels = np.array(node.attr(name) or range(len(texts) or count), np.int64)
    if len(labels) != count and not (count == 1 and len(labels) == 2):
        raise node.error(f"there are {len(labels)} labels for the scores of {count} classes")
    return labels


def classified(node: Node, scores: Expr, labels: np.ndarray, limit: float, complement: bool) -> list[Expr]:
    """The labels of the largest scores, and the transformed scores.

    Of two classes there may be the score of the second alone: it is chosen beyond ``limit``, and the first has ``1 - score`` if
    ``complement``, else ``-score``.
    """
    if node.size(scores, 1) != 1 or len(labels) != 2:
        chosen = relay.argmax(scores, axis=[1])
        return [relay.take(const(labels), chosen, axis=0, mode="fast"), transformed(node, scores)]
    dtype = node.dtype(scores)
    is_second = relay.greater(relay.reshape(scores, [-1]), number(limit, dtype))
    first = relay.subtract(number(1, dtype), scores) if complement else relay.negative(scores)
    both = node.bind(relay.concatenate([node.bind(first), scores], 1))
    return [relay.where(is_second, const(labels[1], "int64"), const(labels[0], "int64")), transformed(node, both)]
