"""Ensembles of decision trees."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .....declarations.frozen_dataclass import frozen
from ....builder.build import const
from ....builder.operator_functions import operators as relay
from ....ir.expr import Expr
from ...node import Node
from ...operator_table import onnx_operator
from .scores import MACHINE_LEARNING, class_labels, classified, real, transformed

_LEAF = "LEAF"
#: The comparisons of a feature with the value of a node.
_COMPARISONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "BRANCH_LEQ": relay.less_equal,
    "BRANCH_LT": relay.less,
    "BRANCH_GTE": relay.greater_equal,
    "BRANCH_GT": relay.greater,
    "BRANCH_EQ": relay.equal,
    "BRANCH_NEQ": relay.not_equal,
}


@frozen
class _Trees:
    """The nodes of all trees, one after the other; a leaf follows itself.

    ``features``, ``values``, ``modes``: of the comparison.  ``after``: the numbers of the nodes where it is false and true,
    ``[2, nodes]``.  ``tracks``: whether a missing feature counts as true.  ``roots``: the first node of each tree.
    ``numbers``: the number of a node by its tree and id.  ``depth``: the most comparisons from a root to a leaf.
    """

    features: np.ndarray
    values: np.ndarray
    modes: np.ndarray
    after: np.ndarray
    tracks: np.ndarray
    roots: np.ndarray
    numbers: dict[tuple[int, int], int]
    depth: int


def _trees(node: Node, dtype: str) -> _Trees:
    """The trees of a node.  Raises ModelError for lists of different lengths, unknown modes, ids and circles."""
    names = ("treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids")
    lists = {name: node.required(f"nodes_{name}") for name in names}
    tensor = node.attr("nodes_values_as_tensor")
    values = np.array(node.required("nodes_values") if tensor is None else tensor, dtype)
    if len({len(values), *map(len, lists.values())}) != 1 or not len(values):
        raise node.error("the lists of the nodes have different lengths, or no node", "each node has an element in each list")
    keys = list(zip(lists["treeids"], lists["nodeids"], strict=True))
    numbers = {key: n for n, key in enumerate(keys)}
    modes = np.array(lists["modes"])
    if unknown := sorted({*lists["modes"]} - {_LEAF, *_COMPARISONS}):
        raise node.error(f"there is no mode {unknown[0]!r} of nodes", f"the modes are {', '.join([*_COMPARISONS, _LEAF])}")
    own, is_leaf = np.arange(len(keys)), modes == _LEAF
    after = np.stack([own, own])
    for side, name in enumerate(("falsenodeids", "truenodeids")):
        for n in np.flatnonzero(~is_leaf):
            target = (keys[n][0], lists[name][n])
            if target not in numbers:
                raise node.error(
                    f"the tree {target[0]} has no node {target[1]}", f"nodes_{name} names the nodes of the same tree"
                )
            after[side, n] = numbers[target]
    roots = np.array([n for n, (tree, _) in enumerate(keys) if n == 0 or keys[n - 1][0] != tree])
    tracks = np.array(node.attr("nodes_missing_value_tracks_true") or [0] * len(keys), bool)
    features = np.where(is_leaf, 0, lists["featureids"])
    depth = _depth(after, roots, is_leaf)
    if depth is None:
        raise node.error("a node of a tree follows itself", "the nodes of a tree have no circle")
    return _Trees(features, values, modes, after, tracks, roots, numbers, depth)


def _depth(after: np.ndarray, roots: np.ndarray, is_leaf: np.ndarray) -> int | None:
    """The most comparisons from a root to a leaf; None if there is a circle."""
    reached = roots
    for depth in range(len(is_leaf) + 1):
        reached = np.unique(reached[~is_leaf[reached]])
        if not len(reached):
            return depth
        reached = after[:, reached].reshape(-1)
    return None


def _leaves(node: Node, trees: _Trees, x: Expr) -> Expr:
    """The numbers of the leaves that rows of the data reach, ``[batch, trees]``: as many steps as the deepest tree has."""
    rows = relay.reshape(relay.strided_slice(relay.shape_of(x, dtype="int64"), [0], [1]), [1])
    shape = node.bind(relay.concatenate([rows, const([len(trees.roots)], "int64")], 0))
    at = node.bind(relay.broadcast_to(const(trees.roots.astype(np.int64)), shape))
    modes = sorted({*trees.modes} - {_LEAF})

    def of_nodes(table: np.ndarray) -> Expr:
        return node.bind(relay.take(const(table), at, axis=0, mode="fast"))

    for _ in range(trees.depth):
        features = of_nodes(trees.features.astype(np.int64))
        given = node.bind(relay.gather(x, 1, features))
        values = of_nodes(trees.values)
        is_true = _COMPARISONS[modes[0]](given, values)
        for mode in modes[1:]:
            is_true = relay.where(of_nodes(trees.modes == mode), _COMPARISONS[mode](given, values), is_true)
        if trees.tracks.any():
            is_true = relay.logical_or(is_true, relay.logical_and(relay.isnan(given), of_nodes(trees.tracks)))
        at = node.bind(relay.where(node.bind(is_true), of_nodes(trees.after[1]), of_nodes(trees.after[0])))
    return at


def _table(node: Node, trees: _Trees, kind: str, columns: int, dtype: str) -> np.ndarray:
    """The weights of the leaves, ``[nodes, columns]``; ``kind``: target or class."""
    tensor = node.attr(f"{kind}_weights_as_tensor")
    weights = np.array(node.required(f"{kind}_weights") if tensor is None else tensor, dtype)
    table = np.zeros((len(trees.values), columns), dtype)
    for tree, leaf, column, weight in zip(
        *(node.required(f"{kind}_{n}") for n in ("treeids", "nodeids", "ids")), weights, strict=True
    ):
        if (tree, leaf) not in trees.numbers or not 0 <= column < columns:
            raise node.error(
                f"the weight of column {column}, node {leaf} of tree {tree}, has no place", "there is no such node or column"
            )
        table[trees.numbers[tree, leaf], column] += weight
    return table


def _weights(node: Node, x: Expr, kind: str, columns: int) -> Expr:
    """The weights of the leaves that each row reaches, ``[batch, trees, columns]``."""
    x = node.bind(real(node, relay.expand_dims(x, 0) if node.rank(x) == 1 else x))
    dtype = node.dtype(x)
    trees = _trees(node, dtype)
    width, most = node.size(x, 1), int(trees.features.max())
    if width is not None and most >= width:
        raise node.error(f"a node compares the feature {most}; rows of the data have {width}")
    at = _leaves(node, trees, x)
    return node.bind(relay.take(const(_table(node, trees, kind, columns, dtype)), at, axis=0, mode="fast"))


def _with_base(node: Node, scores: Expr, columns: int) -> Expr:
    base = node.attr("base_values_as_tensor", node.attr("base_values"))
    if base is None or not len(base):
        return node.bind(scores)
    if len(base) not in (1, columns):
        raise node.error(f"there are {len(base)} base values for {columns} columns")
    return node.bind(relay.add(scores, const(np.array(base, node.dtype(scores)))))


#: The value of a column from the weights of all trees.
_AGGREGATES: dict[str, Callable[[Expr], Expr]] = {
    "SUM": lambda w: relay.sum(w, axis=[1]),
    "AVERAGE": lambda w: relay.mean(w, axis=[1]),
    "MIN": lambda w: relay.min(w, axis=[1]),
    "MAX": lambda w: relay.max(w, axis=[1]),
}


@onnx_operator("TreeEnsembleRegressor", domain=MACHINE_LEARNING)
def tree_ensemble_regressor(node: Node, x: Expr) -> Expr:
    columns = int(node.required("n_targets"))
    weights = _weights(node, x, "target", columns)
    found = node.bind(node.choice("aggregate_function", _AGGREGATES, "SUM")(weights))
    return transformed(node, _with_base(node, found, columns))


@onnx_operator("TreeEnsembleClassifier", domain=MACHINE_LEARNING)
def tree_ensemble_classifier(node: Node, x: Expr) -> list[Expr]:
    """Labels that are integers.  Of two classes the leaves may have weights of one alone."""
    count = len(node.attr("classlabels_int64s") or node.attr("classlabels_strings") or [])
    labels, ids = class_labels(node, "classlabels_int64s", count), {*node.required("class_ids")}
    if count != 2 or len(ids) != 1:
        weights = _weights(node, x, "class", count)
        return classified(node, _with_base(node, relay.sum(weights, axis=[1]), count), labels, 0.0, False)
    weights = _weights(node, x, "class", max(ids) + 1)
    column = relay.strided_slice(relay.sum(weights, axis=[1]), [max(ids)], [max(ids) + 1], [1], [1])
    given = node.attr("class_weights_as_tensor", node.attr("class_weights"))
    is_part = min(given) >= 0 and node.attr("post_transform", "NONE") == "NONE"
    return classified(node, _with_base(node, column, 1), labels, 0.5 if min(given) >= 0 else 0.0, is_part)
