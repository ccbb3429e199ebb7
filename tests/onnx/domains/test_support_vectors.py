"""Support vector machines of ai.onnx.ml beside onnxruntime: kernels, pairs of classes, probabilities, mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay

from .test_machine_learning import model, run

SEED = 23
RNG = np.random.default_rng(SEED)
X = {"x": RNG.standard_normal((9, 4)).astype("float32")}


def check(op: str, outputs: int, near: float = 1e-5, **attributes: Any) -> list[np.ndarray]:
    """Results of the machine, which are those of onnxruntime."""
    ort = pytest.importorskip("onnxruntime")
    made = model(op, X, outputs, attributes)
    made.ir_version = 9
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    found = run(op, X, outputs, **attributes)
    for have, want in zip(found, session.run(None, X), strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want.reshape(have.shape), rtol=1e-4, atol=near)
    return found


def machine(counts: list[int], kernel: str, **attributes: Any) -> dict[str, Any]:
    """The attributes of a machine with so many support vectors of each class."""
    pairs, rng = len(counts) * (len(counts) - 1) // 2, np.random.default_rng([SEED, *counts])
    return {
        "classlabels_ints": [7, 3, -2][: len(counts)], "vectors_per_class": counts, "kernel_type": kernel,
        "coefficients": rng.standard_normal((len(counts) - 1) * sum(counts)).tolist(),
        "rho": (0.1 * rng.standard_normal(pairs)).tolist(),
        "support_vectors": rng.standard_normal(4 * sum(counts)).tolist(), "kernel_params": [0.4, 0.2, 3.0], **attributes,
    }  # fmt: skip


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.extensive(kernel=["RBF", "POLY"])
def test_kernels(kernel: str) -> None:
    labels, _ = check("SVMClassifier", 2, **machine([2, 3, 2], kernel))
    assert len(set(labels.tolist())) > 1
    given = machine([5], kernel, coefficients=RNG.standard_normal(5).tolist(), rho=[0.3], n_supports=5)
    for name in ("classlabels_ints", "vectors_per_class"):
        del given[name]
    check("SVMRegressor", 1, **given)
    check("SVMRegressor", 1, **given, one_class=1)


@pytest.mark.extensive
def test_two_classes() -> None:
    """The score of the first class, and its opposite; probabilities, whose iteration ends near the logistic function."""
    for transform in ("NONE", "LOGISTIC"):
        check("SVMClassifier", 2, **machine([2, 3], "RBF", post_transform=transform))
    given = machine([2, 3], "RBF")
    _, scores = check("SVMClassifier", 2, **given)
    _, chances = check("SVMClassifier", 2, **given, prob_a=[-1.5], prob_b=[0.2])
    np.testing.assert_allclose(chances[:, 0], 1 / (1 + np.exp(-1.5 * scores[:, 1] + 0.2)), atol=5e-3)


def test_probabilities_of_three_classes() -> None:
    """Of rows whose iterations end in different rounds: a batch has each row's result alone, but for rounding."""
    given = machine([2, 3, 2], "RBF", prob_a=[-3.0, -1.5, 2.0], prob_b=[0.2, 0.0, -0.1])
    _, chances = check("SVMClassifier", 2, **given)
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-5)
    one = [run("SVMClassifier", {"x": X["x"][k : k + 1]}, 2, **given)[1] for k in range(3)]
    np.testing.assert_allclose(np.concatenate(one), chances[:3], rtol=1e-5)


@pytest.mark.extensive
def test_without_support_vectors() -> None:
    given = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "rho": [0.1]}
    coefficients = RNG.standard_normal(12).tolist()
    check("SVMClassifier", 2, classlabels_ints=[7, 3, -2], coefficients=coefficients, **given)
    check("SVMRegressor", 1, coefficients=coefficients[:4], **given)


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        (
            "SVMClassifier",
            machine([2, 3, 2], "RBF", prob_a=[1.0] * 2, prob_b=[1.0] * 3),
            "prob_a and prob_b have 2 and 3 numbers",
        ),
        ("SVMClassifier", machine([2, 3], "RBF", post_transform="SOFTMAX"), "scores of two classes are not transformed"),
        ("SVMClassifier", machine([2, 3], "RBF", rho=[1.0, 2.0]), "there are 5 coefficients and 2 numbers rho"),
        ("SVMClassifier", machine([2, 3], "RBF", support_vectors=[1.0] * 19), "19 numbers are no 5 support vectors"),
        ("SVMClassifier", machine([2, 3], "RBF", kernel_params=[1.0]), "kernel_params has 1 numbers"),
    ],
)
def test_what_is_refused(op: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(relay.RelayError, match=f"{op} 'node': {message}"):
        run(op, X, 2, **attributes)
