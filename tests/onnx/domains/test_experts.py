"""MoE of com.microsoft beside a loop over rows in numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import relayvm as relay

EXPERTS, WIDTH, INNER = 3, 8, 6
ORDER = ("x", "router", "w1", "b1", "w2", "b2", "w3", "b3")
RNG = np.random.default_rng(13)


def floats(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 0.5).astype("float32")


def run(given: dict[str, np.ndarray], attributes: dict[str, Any]) -> np.ndarray:
    shapes = {
        n: [*(f"{n}{k}" for k in range(a.ndim - 1)), a.shape[-1]] if n in ("x", "router") else a.shape for n, a in given.items()
    }
    infos = [helper.make_tensor_value_info(n, 1, shapes[n]) for n in given]
    node = helper.make_node("MoE", [n if n in given else "" for n in ORDER], ["y"], "node", domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
    return np.asarray(relay.frontend.OnnxBackend.run_model(model, list(given.values()))[0])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def gated(g: np.ndarray, line: np.ndarray, attributes: dict[str, Any]) -> np.ndarray:
    limit = attributes.get("swiglu_limit", math.inf)
    g, line = np.minimum(g, limit), np.clip(line, -limit, limit)
    return np.asarray(g * sigmoid(attributes.get("activation_alpha", 1.0) * g) * (line + attributes.get("activation_beta", 0.0)))


def computed(given: dict[str, np.ndarray], attributes: dict[str, Any]) -> np.ndarray:
    rows = given["x"].reshape(-1, WIDTH).astype("float64")
    powers = np.exp(given["router"].astype("float64"))
    parts = powers / powers.sum(1, keepdims=True)
    out = np.zeros_like(rows)
    kind, fusion = attributes["activation_type"], attributes.get("swiglu_fusion", 0)
    for i, row in enumerate(rows):
        best = np.argsort(-parts[i])[: attributes["k"]]
        total = parts[i][best].sum() if attributes.get("normalize_routing_weights") else 1.0
        for e in best:
            hidden = given["w1"][e] @ row + (given["b1"][e] if "b1" in given else 0)
            third = given["w3"][e] @ row if "w3" in given else None
            if kind == "swiglu":
                g, line = (hidden[::2], hidden[1::2]) if fusion == 1 else np.split(hidden, 2) if fusion == 2 else (hidden, third)
                hidden = gated(g, line, attributes)
            else:
                hidden = {"relu": np.maximum(hidden, 0), "silu": hidden * sigmoid(hidden), "identity": hidden}[kind]
                hidden = hidden if third is None else hidden * third
            out[i] += parts[i][e] / total * (given["w2"][e] @ hidden + (given["b2"][e] if "b2" in given else 0))
    return out.reshape(given["x"].shape)


def layers(*names: str, double: bool = False) -> dict[str, np.ndarray]:
    first = INNER * (1 + double)
    shapes = {"w1": (first, WIDTH), "b1": (first,), "w2": (WIDTH, INNER), "b2": (WIDTH,), "w3": (INNER, WIDTH)}
    return {name: floats(EXPERTS, *shapes[name]) for name in names}


def test_rows_of_each_expert() -> None:
    """Some expert has no row; no row at all."""
    router = floats(2 * 5, EXPERTS) + np.array([1, 0, -20], "float32")
    given = {"x": floats(2, 5, WIDTH), "router": router} | layers("w1", "b1", "w2", "b2")
    attributes = {"k": 2, "activation_type": "relu", "normalize_routing_weights": 1}
    np.testing.assert_allclose(run(given, attributes), computed(given, attributes), rtol=2e-5, atol=1e-6)
    nothing = given | {"x": given["x"][:, :0], "router": router[:0]}
    assert run(nothing, attributes).shape == (2, 0, WIDTH)


@pytest.mark.extensive
def test_activations_and_gates() -> None:
    rows = {"x": floats(7, WIDTH), "router": floats(7, EXPERTS)}
    cases: list[tuple[dict[str, np.ndarray], dict[str, Any]]] = [
        (layers("w1", "w2", "w3"), {"activation_type": "silu"}),
        (layers("w1", "w2", "w3"), {"activation_type": "swiglu"}),
        (layers("w1", "w2", double=True), {"activation_type": "swiglu", "swiglu_fusion": 2}),
        (
            layers("w1", "b1", "w2", "b2", double=True),
            {
                "activation_type": "swiglu",
                "swiglu_fusion": 1,
                "activation_alpha": 1.7,
                "activation_beta": 1.0,
                "swiglu_limit": 0.4,
            },
        ),
    ]
    for weights, attributes in cases:
        given = rows | weights
        np.testing.assert_allclose(
            run(given, attributes | {"k": 1}), computed(given, attributes | {"k": 1}), rtol=2e-5, atol=1e-6
        )


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"k": 4}, "k is 4; a row is computed by 1 to 3 experts"),
        ({"activation_type": "relu2"}, "the activation 'relu2' is not converted"),
        ({"use_sparse_mixer": 1}, "use_sparse_mixer is 1"),
        ({"activation_type": "swiglu"}, "swiglu_fusion is 0"),
    ],
)  # fmt: skip
def test_what_is_refused(attributes: dict[str, Any], message: str) -> None:
    given = {"x": floats(7, WIDTH), "router": floats(7, EXPERTS)} | layers("w1", "w2")
    with pytest.raises(relay.RelayError, match=f"MoE 'node': {message}"):
        run(given, attributes)
