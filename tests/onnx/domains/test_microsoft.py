"""Operators of com.microsoft, beside references in numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import relayvm as relay

RNG = np.random.default_rng(3)
B, S, H, N = 2, 5, 8, 2


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype("float32")


def run(op: str, arrays: dict[str, np.ndarray], order: str, outputs: int = 1, *, open_axes: int = 2, **attributes: Any) -> Any:
    """The results of one node: the first axes of its inputs are open, so sizes are known at run time."""
    shapes = {n: [None if n in "xyz" and k < open_axes else m for k, m in enumerate(a.shape)] for n, a in arrays.items()}
    infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), shapes[n]) for n, a in arrays.items()]
    node = helper.make_node(op, order.split(","), [f"o{k}" for k in range(outputs)], domain="com.microsoft", **attributes)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=o) for o in node.output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    return relay.frontend.OnnxBackend.run_model(model, list(arrays.values()))


def close(have: Any, want: Any) -> None:
    assert have.dtype == want.dtype and have.shape == want.shape
    np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-5)


def gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))), "float32")


def tanh_gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), "float32")


def norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None, epsilon: float = 1e-12) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    out = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * scale
    return np.asarray(out if bias is None else out + bias, "float32")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def heads(x: np.ndarray) -> np.ndarray:
    return x.reshape(*x.shape[:2], N, -1).transpose(0, 2, 1, 3)


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, added: Any = 0.0) -> np.ndarray:
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + added
    out = (softmax(scores) @ v).transpose(0, 2, 1, 3)
    return np.asarray(out.reshape(*out.shape[:2], -1), "float32")


@pytest.mark.extensive
def test_layers() -> None:
    x, y, scale, bias = floats(B, S, H), floats(B, S, H), floats(H), floats(H)
    close(run("BiasGelu", {"x": x, "b": bias}, "x,b")[0], gelu(x + bias))
    close(run("FastGelu", {"x": x, "b": bias}, "x,b")[0], tanh_gelu(x + bias))
    close(run("QuickGelu", {"x": x}, "x")[0], (x / (1 + np.exp(-1.702 * x))).astype("float32"))
    given = {"x": x, "y": y, "s": scale, "b": bias, "c": scale}
    out, _, _, total = run("SkipLayerNormalization", given, "x,y,s,b,c", 4)
    close(total, x + y + scale)
    close(out, norm(x + y + scale, scale, bias))
    out = run("SkipSimplifiedLayerNormalization", {"x": x, "y": y, "s": scale}, "x,y,s", epsilon=1e-6)[0]
    close(out, ((x + y) / np.sqrt(((x + y) ** 2).mean(-1, keepdims=True) + 1e-6) * scale).astype("float32"))


@pytest.mark.extensive
def test_embeddings() -> None:
    words, segments = RNG.integers(0, 9, (B, S)).astype("int32"), RNG.integers(0, 2, (B, S)).astype("int32")
    mask = np.array([[1] * S, [1, 1, 0, 0, 0]], "int32")
    tables = {"w": floats(9, H), "p": floats(7, H), "t": floats(2, H), "s": floats(H), "b": floats(H)}
    given = {"x": words, "y": segments, **tables, "z": mask}
    out, count, total = run("EmbedLayerNormalization", given, "x,y,w,p,t,s,b,z", 3)
    want = tables["w"][words] + tables["p"][:S] + tables["t"][segments]
    close(total, want)
    close(out, norm(want, tables["s"], tables["b"]))
    assert count.tolist() == [S, 2]


@pytest.mark.extensive
def test_attention() -> None:
    x, w, bias, past = floats(B, S, H), floats(H, 3 * H), floats(3 * H), floats(2, B, N, 3, H // N)
    q, k, v = map(heads, np.split(x @ w + bias, 3, -1))
    # raw masks and lengths agree
    kept = np.array([[1] * S, [1, 1, 0, 0, 0]], "int32")
    want = attended(q, k, v, np.where(kept, 0, -10000.0)[:, None, None, :])
    close(run("Attention", {"x": x, "w": w, "b": bias, "y": kept}, "x,w,b,y", num_heads=N)[0], want)
    given = {"x": x, "w": w, "b": bias, "y": kept.sum(1).astype("int32")}
    close(run("Attention", given, "x,w,b,y", num_heads=N, open_axes=0)[0], want)
    # the ends of all texts, then their begins
    kept = np.array([[1, 1, 1, 1, 0], [0, 1, 1, 0, 0]])
    given = {"x": x, "w": w, "b": bias, "y": np.array([4, 3, 0, 1], "int32")}
    want = attended(q, k, v, np.where(kept, 0, -10000.0)[:, None, None, :])
    close(run("Attention", given, "x,w,b,y", num_heads=N, open_axes=0)[0], want)
    # earlier keys, and only keys up to the query's position
    k, v = (np.concatenate([p, e], 2) for p, e in zip(past, (k, v), strict=True))
    later = np.arange(S + 3)[None] > np.arange(S)[:, None] + 3
    out, present = run(
        "Attention", {"x": x, "w": w, "b": bias, "p": past}, "x,w,b,,p", 2, num_heads=N, unidirectional=1, open_axes=1
    )
    close(out, attended(q, k, v, np.where(later, -np.inf, 0)))
    close(present, np.stack([k, v]))


@pytest.mark.extensive
def test_multi_head_attention() -> None:
    x, y, z, bias, added = floats(B, S, H), floats(B, 3, H), floats(B, 3, H), floats(3 * H), floats(1, N, S, 3)
    parts = [a + b for a, b in zip((x, y, z), np.split(bias, 3), strict=True)]
    q, k, v = map(heads, parts)
    out = run("MultiHeadAttention", {"x": x, "y": y, "z": z, "b": bias, "a": added}, "x,y,z,b,,a", num_heads=N)[0]
    close(out, attended(q, k, v, added))
    packed = np.stack([q, q[:, ::-1], q * 2], 3).transpose(0, 2, 1, 3, 4)
    out = run("MultiHeadAttention", {"x": packed}, "x", num_heads=N)[0]
    close(out, attended(q, q[:, ::-1], q * 2))


def test_products() -> None:
    a, b = floats(3, 4, 2), floats(3, 5, 4)
    close(
        run("FusedMatMul", {"x": a, "y": b}, "x,y", transA=1, transB=1, alpha=0.5)[0], 0.5 * a.swapaxes(1, 2) @ b.swapaxes(1, 2)
    )
    x, w, bias = floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3)
    other = floats(1, 3, 5, 5)
    given = {"x": x, "w": w, "b": bias, "y": other}
    out = run("FusedConv", given, "x,w,b,y", pads=[1, 1, 1, 1], activation="LeakyRelu", activation_params=[0.3])[0]
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    want = np.einsum("nchwij,ocij->nohw", windows, w) + bias[:, None, None] + other
    close(out, np.where(want < 0, 0.3 * want, want).astype("float32"))


@pytest.mark.extensive
def test_products_with_activations() -> None:
    """Beside onnxruntime, whose optimiser writes them."""
    ort = pytest.importorskip("onnxruntime")
    x, y, z = floats(4, 3), floats(4, 5), floats(5)
    numbers = {"Elu": {"alpha": 0.7}, "ThresholdedRelu": {"alpha": 0.5}, "ScaledTanh": {"alpha": 0.5, "beta": 0.7}}
    numbers |= {"Selu": {"alpha": 1.6, "gamma": 1.05}, "LeakyRelu": {"alpha": 0.2}, "HardSigmoid": {"alpha": 0.3, "beta": 0.4}}
    for name in (*numbers, "Softplus", "Softsign", "Tanh"):
        own = {f"activation_{n}": v for n, v in numbers.get(name, {}).items()}
        attributes: dict[str, Any] = {"transA": 1, "alpha": 0.5, "beta": 2.0, "activation": name, **own}
        have = run("FusedGemm", {"x": x, "y": y, "z": z}, "x,y,z", **attributes)[0]
        infos = [helper.make_tensor_value_info(n, 1, a.shape) for n, a in (("x", x), ("y", y), ("z", z))]
        node = helper.make_node("FusedGemm", ["x", "y", "z"], ["o"], domain="com.microsoft", **attributes)
        graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="o")])
        versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=9)
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        close(have, session.run(None, {"x": x, "y": y, "z": z})[0])


def test_a_mask_of_another_rank_is_refused() -> None:
    given = {"x": floats(B, S, H), "w": floats(H, 3 * H), "b": floats(3 * H), "m": np.ones((B, 1, S, S), "int32")}
    with pytest.raises(relay.RelayError, match="a mask of rank 4 has no meaning here"):
        run("Attention", given, "x,w,b,m", num_heads=N)
