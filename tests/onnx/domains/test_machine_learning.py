"""Operators of ai.onnx.ml beside the reference of the package onnx; trees beside a walk from their roots."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import relayvm as relay

DOMAIN = "ai.onnx.ml"
RNG = np.random.default_rng(11)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def model(op: str, arrays: dict[str, np.ndarray], outputs: int, attributes: dict[str, Any]) -> onnx.ModelProto:
    infos = [
        helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(a.dtype), ["rows", *a.shape[1:]] if n == "x" else a.shape
        )
        for n, a in arrays.items()
    ]
    results = [f"o{k}" for k in range(outputs)]
    node = helper.make_node(op, list(arrays), results, "node", domain=DOMAIN, **attributes)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=o) for o in results])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 4)])


def run(op: str, arrays: dict[str, np.ndarray], outputs: int = 1, **attributes: Any) -> list[np.ndarray]:
    made = model(op, arrays, outputs, attributes)
    return [np.asarray(x) for x in relay.frontend.OnnxBackend.run_model(made, list(arrays.values()))]


def check(op: str, arrays: dict[str, np.ndarray], outputs: int = 1, **attributes: Any) -> None:
    want = ReferenceEvaluator(model(op, arrays, outputs, attributes)).run(None, arrays)
    for have, wanted in zip(run(op, arrays, outputs, **attributes), want, strict=True):
        np.testing.assert_allclose(have, wanted, rtol=1e-5, atol=1e-6)
        assert have.dtype == wanted.dtype


LINEAR = {"coefficients": floats(3 * 4).tolist(), "intercepts": floats(3).tolist()}


@pytest.mark.extensive
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear_models(transform: str) -> None:
    x = {"x": floats(6, 4)}
    if transform == "NONE":  # the reference has no other
        check("LinearRegressor", x, targets=3, **LINEAR)
    check("LinearClassifier", x, 2, classlabels_ints=[7, -1, 4], post_transform=transform, **LINEAR)


def test_a_linear_model_of_two_classes() -> None:
    x = floats(6, 4)
    labels, scores = run("LinearClassifier", {"x": x}, 2, coefficients=[1.0, 0, 0, -1], intercepts=[0.5], classlabels_ints=[3, 9])
    want = x[:, 0] - x[:, 3] + np.float32(0.5)
    assert labels.tolist() == np.where(want > 0, 9, 3).tolist()
    np.testing.assert_allclose(scores, np.stack([1 - want, want], 1), rtol=1e-5, atol=1e-6)


@pytest.mark.extensive
def test_features() -> None:
    x = {"x": floats(5, 4)}
    check("Scaler", x, offset=[0.5, 1, 0, -1], scale=[2.0, 1, 3, 4])
    for norm in ("L1", "L2"):
        check("Normalizer", x, norm=norm)
    check("Binarizer", x, threshold=0.25)
    holes = np.where(floats(5, 4) > 0, np.float32(np.nan), x["x"])
    check("Imputer", {"x": holes}, imputed_value_floats=[1.0, 2, 3, 4], replaced_value_float=float("nan"))
    check("Imputer", {"x": RNG.integers(0, 2, (5, 2))}, imputed_value_int64s=[7, 8], replaced_value_int64=0)
    check("ArrayFeatureExtractor", {"x": x["x"], "i": np.array([[3, 0]])})
    check("FeatureVectorizer", {"x": x["x"], "y": floats(5, 2)}, inputdimensions=[4, 2])


@pytest.mark.extensive
def test_categories() -> None:
    whole = RNG.integers(0, 6, (7, 2))
    check("OneHotEncoder", {"x": whole}, cats_int64s=[0, 2, 5], zeros=1)
    check("LabelEncoder", {"x": whole}, keys_int64s=[4, 1, 2], values_floats=[0.5, 1.5, 2.5], default_float=-3.0)
    check("LabelEncoder", {"x": whole.astype("float32")}, keys_floats=[4.0, 1], values_int64s=[8, 9])


COMPARISONS = {
    "BRANCH_LEQ": np.less_equal,
    "BRANCH_LT": np.less,
    "BRANCH_GTE": np.greater_equal,
    "BRANCH_GT": np.greater,
    "BRANCH_EQ": np.equal,
    "BRANCH_NEQ": np.not_equal,
}


class Forest:
    """Trees of random comparisons; each leaf has a weight for some columns."""

    def __init__(self, modes: tuple[str, ...], columns: int, *, tracks: bool = False) -> None:
        self.rows: list[tuple[Any, ...]] = []  # tree, node, feature, value, mode, true, false, tracks
        self.weights: list[tuple[int, int, int, float]] = []
        self.columns = columns
        for tree, depth in enumerate((3, 1, 0)):
            self._grow(tree, depth, modes, tracks)

    def _grow(self, tree: int, depth: int, modes: tuple[str, ...], tracks: bool) -> int:
        node = sum(row[0] == tree for row in self.rows)
        at = len(self.rows)
        self.rows.append(())
        if not depth:
            self.rows[at] = (tree, node, 0, 0.0, "LEAF", 0, 0, 0)
            self.weights += [(tree, node, c, float(np.float32(RNG.standard_normal()))) for c in range(self.columns)]
            return node
        self.rows[at] = (tree,)
        sides = [self._grow(tree, max(0, depth - 1 - side), modes, tracks) for side in (0, 1)]
        value = float(np.float32(RNG.integers(-1, 2)))
        missing = int(tracks and RNG.random() < 0.5)
        self.rows[at] = (tree, node, int(RNG.integers(4)), value, str(RNG.choice(modes)), *sides, missing)
        return node

    def attributes(self, kind: str) -> dict[str, Any]:
        names = (
            "treeids",
            "nodeids",
            "featureids",
            "values",
            "modes",
            "truenodeids",
            "falsenodeids",
            "missing_value_tracks_true",
        )
        made = {f"nodes_{n}": list(column) for n, column in zip(names, zip(*self.rows, strict=True), strict=True)}
        names = ("treeids", "nodeids", "ids", "weights")
        return made | {f"{kind}_{n}": list(column) for n, column in zip(names, zip(*self.weights, strict=True), strict=True)}

    def walked(self, x: np.ndarray) -> np.ndarray:
        """``[rows, trees, columns]``."""
        nodes = {row[:2]: row for row in self.rows}
        trees = sorted({row[0] for row in self.rows})
        out = np.zeros((len(x), len(trees), self.columns), "float32")
        for (i, row), tree in ((pair, tree) for pair in enumerate(x) for tree in trees):
            node = nodes[tree, 0]
            while node[4] != "LEAF":
                given = row[node[2]]
                is_true = COMPARISONS[node[4]](given, np.float32(node[3])) or (np.isnan(given) and node[7])
                node = nodes[tree, node[5] if is_true else node[6]]
            for t, n, column, weight in self.weights:
                if (t, n) == (tree, node[1]):
                    out[i, tree, column] += np.float32(weight)
        return out


def test_trees() -> None:
    forest = Forest(("BRANCH_LEQ",), 2)
    x = np.rint(floats(40, 4) * 1.5)
    (have,) = run("TreeEnsembleRegressor", {"x": x}, n_targets=2, base_values=[0.5, -1.0], **forest.attributes("target"))
    np.testing.assert_allclose(have, forest.walked(x).sum(1) + np.array([0.5, -1]), rtol=1e-5, atol=1e-6)
    labels, scores = run("TreeEnsembleClassifier", {"x": x}, 2, classlabels_int64s=[5, 6], **forest.attributes("class"))
    np.testing.assert_allclose(scores, forest.walked(x).sum(1), rtol=1e-5, atol=1e-6)
    assert labels.tolist() == (scores.argmax(1) + 5).tolist()


@pytest.mark.extensive
def test_trees_of_every_comparison() -> None:
    """With missing features, and the least, the largest and the mean of the trees."""
    forest = Forest(tuple(COMPARISONS), 1, tracks=True)
    x = np.rint(floats(60, 4) * 1.5)
    x[RNG.random(x.shape) < 0.2] = np.nan
    for name, fold in (("MIN", np.min), ("MAX", np.max), ("AVERAGE", np.mean)):
        (have,) = run("TreeEnsembleRegressor", {"x": x}, n_targets=1, aggregate_function=name, **forest.attributes("target"))
        np.testing.assert_allclose(have, fold(forest.walked(x), axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.extensive
def test_trees_with_weights_of_one_of_two_classes() -> None:
    forest = Forest(("BRANCH_LEQ",), 1)
    x = np.rint(floats(40, 4) * 1.5)
    attributes = forest.attributes("class")
    labels, scores = run(
        "TreeEnsembleClassifier", {"x": x}, 2, classlabels_int64s=[5, 6], post_transform="LOGISTIC", **attributes
    )
    want = 1 / (1 + np.exp(-forest.walked(x).sum(1)[:, 0].astype("float64")))
    np.testing.assert_allclose(scores, np.stack([1 - want, want], 1), rtol=1e-5, atol=1e-6)
    assert labels.tolist() == np.where(want > 0.5, 6, 5).tolist()
    parts = attributes | {"class_weights": [abs(w) / 4 for w in attributes["class_weights"]]}
    labels, scores = run("TreeEnsembleClassifier", {"x": x}, 2, classlabels_int64s=[5, 6], **parts)
    assert labels.tolist() == np.where(scores[:, 1] > 0.5, 6, 5).tolist()
    np.testing.assert_allclose(scores.sum(1), 1, rtol=1e-5)


TREES = Forest(("BRANCH_LEQ",), 1).attributes("target") | {"n_targets": 1}
NODES = len(TREES["nodes_modes"])


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("LinearRegressor", {"coefficients": [1.0] * 7, "targets": 2}, "7 coefficients are no 2 rows"),
        ("LinearRegressor", {"coefficients": [1.0] * 6, "targets": 2}, "rows of the data have 4 numbers"),
        ("LinearClassifier", LINEAR | {"classlabels_strings": ["a", "b", "c"]}, "labels are texts"),
        ("LinearClassifier", LINEAR | {"classlabels_ints": [1, 2]}, "there are 2 labels for the scores of 3 classes"),
        ("LinearRegressor", LINEAR | {"post_transform": "PROBIT", "targets": 3}, "the attribute post_transform is 'PROBIT'"),
        ("Imputer", {"imputed_value_int64s": [1]}, "there are no imputed values for data of float32"),
        ("LabelEncoder", {"keys_strings": ["a"], "values_int64s": [1]}, "texts are no tensors here"),
        ("LabelEncoder", {"keys_int64s": [1, 2], "values_int64s": [1]}, "there are 2 keys and 1 values"),
        ("ZipMap", {"classlabels_int64s": [0, 1]}, "a map from labels to scores is no tensor"),
        ("TreeEnsembleRegressor", TREES | {"nodes_truenodeids": [99] * NODES}, "the tree 0 has no node 99"),
        ("TreeEnsembleRegressor", TREES | {"nodes_truenodeids": [0] * NODES}, "a node of a tree follows itself"),
        ("TreeEnsembleRegressor", TREES | {"nodes_modes": ["BRANCH"] * NODES}, "there is no mode 'BRANCH' of nodes"),
        ("TreeEnsembleRegressor", TREES | {"nodes_featureids": [4] * NODES}, "a node compares the feature 4"),
        ("TreeEnsembleRegressor", TREES | {"nodes_values": [0.0] * 3}, "the lists of the nodes have different lengths"),
    ],
)  # fmt: skip
def test_what_is_refused(op: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(relay.RelayError, match=f"{op} 'node': {message}"):
        run(op, {"x": floats(2, 4)}, 2 if "Classifier" in op else 1, **attributes)
