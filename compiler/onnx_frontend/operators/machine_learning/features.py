"""Features: scaled, normalised, filled in, joined."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ..elementwise import number
from ..indexing import from_the_front
from .scores import MACHINE_LEARNING, real


@onnx_operator("Scaler", domain=MACHINE_LEARNING)
def scaler(node: Node, x: Expr) -> Expr:
    x = real(node, x)
    dtype = node.dtype(x)
    if node.has("offset"):
        x = relay.subtract(x, const(np.array(node.attr("offset"), dtype)))
    return relay.multiply(x, const(np.array(node.attr("scale"), dtype))) if node.has("scale") else x


#: The norms of rows.
_NORMS: dict[str, Callable[[Expr], Expr]] = {
    "MAX": lambda x: relay.max(x, axis=[-1], keepdims=True),
    "L1": lambda x: relay.sum(relay.abs(x), axis=[-1], keepdims=True),
    "L2": lambda x: relay.sqrt(relay.sum(relay.multiply(x, x), axis=[-1], keepdims=True)),
}


@onnx_operator("Normalizer", domain=MACHINE_LEARNING)
def normalizer(node: Node, x: Expr) -> Expr:
    """Rows whose norm is 0 stay as they are."""
    x = node.bind(real(node, x))
    norm = node.bind(node.choice("norm", _NORMS, "MAX")(x))
    dtype = node.dtype(x)
    return relay.divide(x, relay.where(relay.equal(norm, number(0, dtype)), number(1, dtype), norm))


@onnx_operator("Binarizer", domain=MACHINE_LEARNING)
def binarizer(node: Node, x: Expr) -> Expr:
    dtype = node.dtype(x)
    return relay.cast(relay.greater(x, number(node.attr("threshold", 0.0), dtype)), dtype)


@onnx_operator("Imputer", domain=MACHINE_LEARNING)
def imputer(node: Node, x: Expr) -> Expr:
    dtype = node.dtype(x)
    kind = "float" if dtype.startswith("float") else "int64"
    values = node.attr(f"imputed_value_{kind}s")
    if not values:
        raise node.error(f"there are no imputed values for data of {dtype}", f"give imputed_value_{kind}s")
    replaced = node.attr(f"replaced_value_{kind}", 0)
    is_missing = relay.isnan(x) if replaced != replaced else relay.equal(x, number(replaced, dtype))
    return relay.where(is_missing, const(np.array(values, dtype)), x)


@onnx_operator("FeatureVectorizer", domain=MACHINE_LEARNING)
def feature_vectorizer(node: Node, *parts: Expr) -> Expr:
    rows = [node.bind(relay.cast(relay.expand_dims(x, 1) if node.rank(x) == 1 else x, "float32")) for x in parts]
    return relay.concatenate(rows, 1)


@onnx_operator("ArrayFeatureExtractor", domain=MACHINE_LEARNING)
def array_feature_extractor(node: Node, x: Expr, indices: Expr) -> Expr:
    """An index out of range is an error."""
    indices = node.bind(relay.reshape(indices, [-1]))
    x = relay.expand_dims(x, 0) if node.rank(x) == 1 else x
    return relay.take(x, from_the_front(node, indices, x, -1), axis=-1, mode="fast")
