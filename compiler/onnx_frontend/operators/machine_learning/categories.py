"""Categories: numbers that stand for others, and columns of ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from ...tensors import TEXTS_HELP
from .scores import MACHINE_LEARNING

#: The dtypes of keys and values by the names of their attributes; texts are no tensors.
_KINDS = {"int64s": "int64", "floats": "float32"}
_TEXTS = "texts are no tensors here", TEXTS_HELP


@onnx_operator("LabelEncoder", domain=MACHINE_LEARNING, since=2)
def label_encoder(node: Node, x: Expr) -> Expr:
    """Keys and values that are numbers; those that are texts are refused."""
    (keys, _), (values, kind) = _listed(node, "keys"), _listed(node, "values")
    if len(keys) != len(values) or not len(keys):
        raise node.error(f"there are {len(keys)} keys and {len(values)} values", "give each key a value")
    default = node.attr("default_tensor")
    other = np.reshape(default, ()) if default is not None else node.attr(f"default_{kind}", -1 if kind == "int64" else 0.0)
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order].astype(node.dtype(x)), values[order]
    flat = node.bind(relay.reshape(x, [-1]))
    at = relay.minimum(relay.searchsorted(const(keys), flat, dtype="int64"), const(len(keys) - 1, "int64"))
    at = node.bind(at)
    found = relay.equal(relay.take(const(keys), at, axis=0, mode="fast"), flat)
    chosen = relay.where(found, relay.take(const(values), at, axis=0, mode="fast"), const(np.array(other, values.dtype)))
    return relay.reshape_like(chosen, x) if node.rank(x) != 1 else chosen


def _listed(node: Node, what: str) -> tuple[np.ndarray, str]:
    """Numbers of an attribute in one of its forms, and the name of their kind in the attribute of the default."""
    if node.has(f"{what}_strings"):
        raise node.error(*_TEXTS)
    given = node.attr(f"{what}_tensor")
    if given is not None:
        return np.asarray(given).reshape(-1), "tensor"
    for name, dtype in _KINDS.items():
        if node.has(f"{what}_{name}"):
            return np.array(node.attr(f"{what}_{name}"), dtype), name[:-1]
    return np.zeros(0, "int64"), "int64"


@onnx_operator("OneHotEncoder", domain=MACHINE_LEARNING)
def one_hot_encoder(node: Node, x: Expr) -> Expr:
    """Categories that are integers, not texts; others have no column, as the attribute zeros lets them."""
    if node.attr("cats_strings"):
        raise node.error(*_TEXTS)
    categories: Any = node.required("cats_int64s")
    if not node.attr("zeros", 1):
        raise node.error("zeros is 0", "set it to 1: a category that is not listed has no column")
    whole = relay.cast(x, "int64") if node.dtype(x) != "int64" else x
    columns = relay.equal(relay.expand_dims(whole, node.rank(x)), const(np.array(categories, np.int64)))
    return relay.cast(columns, "float32")


@onnx_operator("ZipMap", domain=MACHINE_LEARNING)
def zip_map(node: Node, x: Expr) -> Expr:
    """Refused: maps are no tensors."""
    raise node.error("a map from labels to scores is no tensor", "convert the model with the option zipmap=False")
