"""Linear models."""

from __future__ import annotations

import numpy as np

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from .scores import MACHINE_LEARNING, class_labels, classified, real, transformed


def _scores(node: Node, x: Expr, rows: int) -> Expr:
    """The products of the data with each row of coefficients, and the intercepts: ``[batch, rows]``."""
    coefficients = np.array(node.required("coefficients"), np.float32)
    if rows < 1 or coefficients.size % rows:
        raise node.error(f"{coefficients.size} coefficients are no {rows} rows")
    matrix = coefficients.reshape(rows, -1)
    x = real(node, relay.reshape(x, [1, -1]) if node.rank(x) == 1 else x)
    if node.size(x, 1) not in (None, matrix.shape[1]):
        raise node.error(f"rows of the data have {node.size(x, 1)} numbers; there are coefficients for {matrix.shape[1]}")
    dtype = node.dtype(x)
    product = relay.nn.dense(x, const(matrix.astype(dtype)))
    intercepts = node.attr("intercepts")
    return node.bind(product if intercepts is None else relay.add(product, const(np.array(intercepts, dtype))))


@onnx_operator("LinearRegressor", domain=MACHINE_LEARNING)
def linear_regressor(node: Node, x: Expr) -> Expr:
    return transformed(node, _scores(node, x, node.attr("targets", 1)))


@onnx_operator("LinearClassifier", domain=MACHINE_LEARNING)
def linear_classifier(node: Node, x: Expr) -> list[Expr]:
    """Labels that are integers."""
    rows = len(node.attr("intercepts") or node.attr("classlabels_ints") or node.attr("classlabels_strings") or [0])
    labels = class_labels(node, "classlabels_ints", rows)
    return classified(node, _scores(node, x, rows), labels, 0.5 if node.attr("post_transform", "NONE") != "NONE" else 0.0, True)
